//go:build race

package main

const besiegersAllowed = raceSize
