// Package kit has what the tests of many packages begin with. No program imports it.
package kit

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"muster/store"
)

// Store is a store with nothing in it, whose clock is now; nil: time.Now. It is closed at the end of the test.
func Store(t testing.TB, now func() time.Time) *store.Store {
	t.Helper()
	s, err := store.Open(context.WithoutCancel(t.Context()), store.Options{Path: filepath.Join(t.TempDir(), "muster.db"),
		MasterKey: bytes.Repeat([]byte{7}, 32), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
