//go:build real

package main

import (
	"testing"

	"muster/store/rqlite/rqlitetest"
)

// TestRealStorePutBack is TestStorePutBack over three nodes of rqlite, whose folders are put back.
func TestRealStorePutBack(t *testing.T) {
	nodes := rqlitetest.NewNodes(t, 3)
	kept := ""
	putBack(t, newSeveral(t, nodes.HTTP...), func() { kept = nodes.Save() }, func() { nodes.PutBack(kept) })
}
