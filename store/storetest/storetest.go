// Package storetest opens stores for the tests of this module, over the engine that the environment names. No program imports it.
package storetest

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"muster/store"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

// Engine is the variable that names the engine: empty is the file, "rqlite" is a stand-in for a node of it, and anything else is HOST:PORT
// of a real node, whose database is emptied for each test.
const Engine = "MUSTER_TEST_ENGINE"

// MasterKey seals the secrets of the stores.
func MasterKey() []byte { return bytes.Repeat([]byte{7}, 32) }

// Open returns a store with nothing in it, whose clock is now; nil: time.Now. It is closed at the end of the test.
func Open(t testing.TB, now func() time.Time) *store.Store {
	t.Helper()
	o := store.Options{MasterKey: MasterKey(), Now: now}
	switch name := os.Getenv(Engine); name {
	case "":
		o.Path = filepath.Join(t.TempDir(), "muster.db")
		raw, err := made()
		if err == nil {
			err = os.WriteFile(o.Path, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	case "rqlite":
		o.Cluster = Take(t, "127.0.0.1:4001", rqlitetest.New(t))
	default:
		rqlitetest.Empty(t, name)
		o.Cluster = Take(t, name, nil)
	}
	s, err := store.Open(context.WithoutCancel(t.Context()), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// made is the file of a store with nothing in it. A process makes it once: most tests cost less than the migrations.
var made = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "muster-store-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "muster.db")
	s, err := store.Open(context.Background(), store.Options{MasterKey: MasterKey(), Path: path})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// OpenLost does what Open does, over the stand-in for a node of rqlite, on a way that loses the answer to each write: so nobody knows what
// the write did.
func OpenLost(t testing.TB, now func() time.Time) *store.Store {
	t.Helper()
	node := rqlitetest.New(t)
	s, err := store.Open(context.WithoutCancel(t.Context()), store.Options{MasterKey: MasterKey(), Now: now,
		Cluster: Take(t, "127.0.0.1:4001", node)})
	if err != nil {
		t.Fatal(err)
	}
	node.Set(rqlitetest.Twice)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Take opens the cluster at an address, and takes its lease from whoever has it. way is nil for the network. The lease is not renewed.
func Take(t testing.TB, address string, way http.RoundTripper) *rqlite.DB {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	db, err := rqlite.Open(ctx, rqlite.Options{Endpoints: []string{address}, Transport: way})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := db.Lease(ctx)
	if err == nil {
		err = db.Take(ctx, seen, rqlite.Claim{Gateway: "test", Schema: 1 << 20})
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}
