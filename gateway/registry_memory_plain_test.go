//go:build !real

package main

const largeBlob = 96 << 20
