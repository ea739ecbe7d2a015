//go:build real

package main

const largeBlob = 1 << 30
