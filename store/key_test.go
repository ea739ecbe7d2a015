package store_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"muster/store"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
	"muster/store/storetest"
)

// TestSharedWrongKey: a wrong master key is found out before anything of a shared store is changed, its schema included.
func TestSharedWrongKey(t *testing.T) {
	n := rqlitetest.New(t)
	open := func(db *rqlite.DB, key byte) error {
		s, err := store.Open(t.Context(), store.Options{Cluster: db, MasterKey: bytes.Repeat([]byte{key}, 32)})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	if err := open(storetest.Take(t, "127.0.0.1:4001", n), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := n.DB.Exec("DELETE FROM migrations WHERE number > 5"); err != nil { // as an older muster has left it
		t.Fatal(err)
	}
	db := storetest.Take(t, "127.0.0.1:4001", n)
	before := len(n.Paths())
	if err := open(db, 2); !errors.Is(err, store.ErrWrongMasterKey) {
		t.Errorf("got %v", err)
	}
	if asked := n.Paths()[before:]; slices.ContainsFunc(asked, func(path string) bool { return strings.HasPrefix(path, "/db/execute") }) {
		t.Errorf("it has written: %q", asked)
	}
}
