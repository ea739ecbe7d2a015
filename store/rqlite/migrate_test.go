package rqlite_test

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"muster/store/engine"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

func steps(scripts ...string) fs.FS {
	dir := fstest.MapFS{}
	for i, name := range []string{"0001_a.sql", "0002_b.sql", "0003_c.sql"}[:len(scripts)] {
		dir[name] = &fstest.MapFile{Data: []byte(scripts[i])}
	}
	return dir
}

const (
	first  = "CREATE TABLE a (k TEXT) STRICT; CREATE TABLE b (k TEXT) STRICT;"
	second = "INSERT INTO a(k) VALUES ('once');"
)

// TestMigrate: each step is done once, and a step that fails leaves nothing of itself.
func TestMigrate(t *testing.T) {
	n := rqlitetest.New(t)
	db := open(t, n)
	if err := db.Migrate(t.Context(), steps(first)); !errors.Is(err, rqlite.ErrDeposed) {
		t.Errorf("without the lease: %v", err)
	}
	must(t, db.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1", Schema: 3}))
	must(t, db.Migrate(t.Context(), steps(first)))
	if err := db.Migrate(t.Context(), steps(first, second, "INSERT INTO b(k) VALUES ('x'); NONSENSE;")); err == nil {
		t.Error("nonsense is no error")
	}
	must(t, db.Migrate(t.Context(), steps(first, second, second)))
	for table, want := range map[string]int{"a": 2, "b": 0, "migrations": 3} {
		rows := 0
		must(t, n.DB.QueryRow("SELECT count(*) FROM "+table).Scan(&rows))
		if rows != want {
			t.Errorf("%s has %d rows, want %d", table, rows, want)
		}
	}
	if err := db.Migrate(t.Context(), steps(first)); !errors.Is(err, engine.ErrNewerDatabase) {
		t.Errorf("an older program: %v", err)
	}
}

// TestMigrateLost: a step whose answer is lost is not done twice.
func TestMigrateLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		db := open(t, n)
		must(t, db.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1"}))
		must(t, db.Migrate(t.Context(), steps(first)))
		n.Set(rqlitetest.CutAfter)
		done := make(chan error, 1)
		go func() { done <- db.Migrate(t.Context(), steps(first, second)) }()
		time.Sleep(time.Second)
		n.Set(rqlitetest.None)
		must(t, <-done)
		rows := 0
		must(t, n.DB.QueryRow("SELECT count(*) FROM a").Scan(&rows))
		if rows != 1 {
			t.Errorf("the step was done %d times", rows)
		}
	})
}
