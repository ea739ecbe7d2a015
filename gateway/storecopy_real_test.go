//go:build real

package main

import (
	"testing"

	"muster/store/rqlite/rqlitetest"
)

// TestRealStoreMoves is TestStoreMoves over three nodes of rqlite.
func TestRealStoreMoves(t *testing.T) {
	storeMoves(t, newSeveral(t, rqlitetest.NewNodes(t, 3).HTTP...))
}
