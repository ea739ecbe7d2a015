package backup_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/artifact"
	"muster/gateway/internal/backup"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/masterkey"
	"muster/gateway/internal/datadir/seen"
	"muster/store"
	"muster/store/instance"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

const sharedAt = "rqlite://127.0.0.1:4001"

// common is a shared store, and a house beside it.
type common struct {
	house
	node *rqlitetest.Node
	said bytes.Buffer
}

func newCommon(t *testing.T) *common {
	t.Helper()
	c := &common{house: newHouse(t), node: rqlitetest.New(t)}
	c.put("one", "two")
	return c
}

func (c *common) offline() backup.Offline {
	o := backup.Offline{Getenv: func(string) string { return "" }, Say: &c.said, Root: filepath.Join(c.data, "no-service")}
	return backup.Through(o, c.node)
}

func (c *common) keyFile() string { return filepath.Join(c.data, datadir.MasterKey) }

func (c *common) copy(from, to string, force bool) (datadir.Copied, error) {
	return c.offline().Copy(c.t.Context(), datadir.Copy{From: from, To: to, MasterKeyFile: c.keyFile(), Force: force})
}

func (c *common) restoreShared(file string, force bool) (datadir.Restored, error) {
	return c.offline().Restore(c.t.Context(), datadir.Restore{Files: datadir.Files{Data: c.data, MasterKeyFile: c.keyFile()},
		Shared: datadir.SharedStore{Store: sharedAt}, File: file, Force: force, AdoptFor: time.Hour})
}

// active is a gateway that holds the lease, until it loses it or is stopped.
func (c *common) active(key []byte) (db *rqlite.DB, s *store.Store, over chan error) {
	c.t.Helper()
	db, err := rqlite.Open(c.t.Context(), rqlite.Options{Endpoints: []string{"127.0.0.1:4001"}, Transport: c.node})
	c.must(err)
	now, err := db.Lease(c.t.Context())
	c.must(err)
	_, schema, err := store.Schema(c.t.Context(), "")
	c.must(err)
	c.must(db.Take(c.t.Context(), now, rqlite.Claim{Gateway: "gw1", Schema: schema}))
	if s, err = store.Open(c.t.Context(), store.Options{Cluster: db, MasterKey: key}); err != nil {
		c.t.Fatal(err)
	}
	over = make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		over <- db.Hold(ctx)
	}()
	c.t.Cleanup(func() { // before the node ends
		cancel()
		<-ended
	})
	return db, s, over
}

func (c *common) key() []byte {
	c.t.Helper()
	key, err := masterkey.Read(c.keyFile())
	c.must(err)
	return key
}

func (c *common) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *common) refused(err error, want string) {
	c.t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		c.t.Errorf("got %v, want %q", err, want)
	}
}

// rows are all of a database, table by table, but those of the lease, and what a copy is recognised by.
func (c *common) rows(db *sql.DB) (all string) {
	c.t.Helper()
	read := func(query string) (rows []string) {
		r, err := db.Query(query)
		c.must(err)
		defer r.Close()
		columns, err := r.Columns()
		c.must(err)
		for r.Next() {
			values := make([]any, len(columns))
			into := make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			c.must(r.Scan(into...))
			if text := fmt.Sprint(values); !strings.HasPrefix(text, "[instance ") && !strings.HasPrefix(text, "[pulse ") {
				rows = append(rows, text)
			}
		}
		c.must(r.Err())
		return rows
	}
	for _, name := range read(`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('lease', 'batches', 'sqlite_stat1') ORDER BY 1`) {
		name = strings.Trim(name, "[]")
		all += name + "\n" + strings.Join(read(`SELECT * FROM "`+name+`" ORDER BY 1, 2`), "\n") + "\n"
	}
	for _, text := range read("SELECT type, name, sql FROM sqlite_master WHERE tbl_name NOT IN ('lease', 'batches') ORDER BY 1, 2") {
		all += text + "\n"
	}
	return all
}

func (c *common) rowsOf(data string) string {
	c.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, datadir.Database))
	c.must(err)
	defer db.Close()
	return c.rows(db)
}

func (c *common) same(want, got string) {
	c.t.Helper()
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	if len(a) != len(b) {
		c.t.Errorf("%d lines, and %d", len(a), len(b))
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			c.t.Errorf("line %d was\n%s\nand is\n%s", i, a[i], b[i])
			return
		}
	}
}

// TestStoreCopy: a database goes to rqlite and back, with all that is in every table. Given again, the command does nothing. It refuses
// to replace another database, and a store with an active gateway.
func TestStoreCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommon(t)
		before := c.rowsOf(c.data)
		for _, already := range []bool{false, true} {
			done, err := c.copy(c.data, sharedAt, false)
			if err != nil || done.Already != already || done.Rows < 10 || done.Tables < 10 {
				t.Fatalf("%+v, %v", done, err)
			}
		}
		c.same(before, c.rows(c.node.DB))
		c.same(before, c.rowsOf(c.data))
		if _, err := seen.Look(t.Context(), c.data, nil); !errors.Is(err, seen.ErrOther) || !strings.Contains(err.Error(), "was copied into") {
			t.Errorf("a gateway would start on the directory: %v", err)
		}
		db, s, _ := c.active(c.key())
		_, err := c.copy(c.data, sharedAt, true)
		c.refused(err, "gw1 is the active gateway on this store: stop all gateways")
		fresh := filepath.Join(t.TempDir(), "fresh")
		_, err = c.copy(sharedAt, fresh, false)
		c.refused(err, "gw1 is the active gateway on this store")
		c.must(s.SetMeta(t.Context(), "since", "x"))
		c.must(instance.New(s.Records()).Name(t.Context(), "STORE"))
		c.must(db.Release(t.Context(), ""))
		c.must(s.Close())
		_, err = c.copy(c.data, sharedAt, false)
		c.refused(err, "add --force")

		shared := c.rows(c.node.DB)
		if done, err := c.copy(sharedAt, fresh, false); err != nil || done.KeyToName == "" {
			t.Fatalf("%+v, %v", done, err)
		}
		c.next(rqlite.Moved)
		_, err = c.copy(sharedAt, fresh, false)
		c.refused(err, "add --force")
		c.same(shared, c.rowsOf(fresh))
		own, err := sql.Open("sqlite", filepath.Join(fresh, datadir.Database))
		c.must(err)
		defer own.Close()
		left := 0
		c.must(own.QueryRow("SELECT count(*) FROM sqlite_master WHERE tbl_name IN ('lease', 'batches')").Scan(&left))
		if _, err := seen.Look(t.Context(), fresh, nil); err != nil || left > 0 {
			t.Errorf("it is not a gateway's own: %d, %v", left, err)
		}

		done, err := c.copy(c.data, sharedAt, true)
		if err != nil || done.Aside == "" {
			t.Fatalf("%+v, %v", done, err)
		}
		c.next("")
		c.same(shared, c.rowsOf(done.Aside))
		c.same(before, c.rows(c.node.DB))
		if name, _, err := instance.InFile(t.Context(), filepath.Join(done.Aside, datadir.Database)); name != "STORE" || err != nil {
			t.Errorf("the copy aside: %q, %v", name, err)
		}
		var kept string
		c.must(c.node.DB.QueryRow("SELECT value FROM meta WHERE key = 'instance'").Scan(&kept))
		if kept != "STORE" {
			t.Errorf("gateways that know the store would not take it: it is called %q", kept)
		}
	})
}

// next wants the lease to be nobody's, and to say this of who comes next.
func (c *common) next(want string) {
	c.t.Helper()
	var holder, next string
	c.must(c.node.DB.QueryRow("SELECT holder, next FROM lease").Scan(&holder, &next))
	if holder != "" || next != want {
		c.t.Errorf("the lease is that of %q, for %q, want %q", holder, next, want)
	}
}

// TestStoreCopyRefuses: what cannot be copied is said before anything is changed.
func TestStoreCopyRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommon(t)
		none := filepath.Join(t.TempDir(), "none")
		other := filepath.Join(t.TempDir(), "other.key")
		c.must(os.WriteFile(other, []byte(aKey('o')), 0o600))
		with := func(from, to, key string) error {
			_, err := c.offline().Copy(t.Context(), datadir.Copy{From: from, To: to, MasterKeyFile: key, Force: true})
			return err
		}
		c.refused(with(c.data, none, ""), "one of the two is a data directory")
		c.refused(with(sharedAt, sharedAt, ""), "one of the two is a data directory")
		c.refused(with(none, sharedAt, c.keyFile()), "there is no database in "+none)
		c.refused(with(sharedAt, none, ""), "there is no "+filepath.Join(none, datadir.MasterKey))
		c.refused(with(c.data, "rqlite://10.0.0.1:4001", ""), "--store-ca FILE")
		if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory was made: %v", err)
		}
		c.refused(with(sharedAt, t.TempDir(), c.keyFile()), "there is no database at "+sharedAt)
		c.refused(with(c.data, sharedAt, other), "does not open "+c.data)
		lock, err := datadir.Lock(c.data)
		c.must(err)
		c.refused(with(c.data, sharedAt, ""), "stop that process")
		c.must(lock.Close())
		c.must(with(c.data, sharedAt, ""))
		c.refused(with(sharedAt, t.TempDir(), other), "is not that of the gateways")
		before := c.rows(c.node.DB)
		foreign := newHouse(t)
		c.refused(with(foreign.data, sharedAt, ""), "is not that of the gateways")
		if c.rows(c.node.DB) != before {
			t.Error("the store was changed")
		}
	})
}

// TestRestoreShared: a backup goes into a shared store while its gateways run. The active one is deposed, and another one takes what was
// restored: with a fence above all that were seen, under the name that the gateways know, and with what a restore has to do.
func TestRestoreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommon(t)
		_, err := c.copy(c.data, sharedAt, false)
		c.must(err)
		_, s, over := c.active(c.key())
		c.must(instance.New(s.Records()).Name(t.Context(), "STORE"))
		c.must(s.NoteBackup(t.Context(), time.Now()))
		file := filepath.Join(t.TempDir(), "backup.db")
		c.must(s.Backup(t.Context(), file))
		c.must(s.SetMeta(t.Context(), "since", "x"))
		mine := seen.Share(c.data, s.Records(), nil)
		c.must(mine.Judge(t.Context(), 5, 5, true))
		lock, err := datadir.Lock(c.data) // its gateway runs, too
		c.must(err)
		defer lock.Close()

		_, err = c.restoreShared(file, false)
		c.refused(err, "add --force")
		damaged := filepath.Join(t.TempDir(), "damaged")
		c.must(os.WriteFile(damaged, []byte("x"), 0o600))
		_, err = c.restoreShared(damaged, true)
		c.refused(err, "cannot be used")
		if len(over) > 0 {
			t.Fatalf("the active gateway was deposed for nothing: %v", <-over)
		}
		done, err := c.restoreShared(file, true)
		c.must(err)
		if err := <-over; !errors.Is(err, rqlite.ErrDeposed) {
			t.Errorf("the active gateway: %v", err)
		}
		if err := s.SetMeta(t.Context(), "late", "x"); !errors.Is(err, rqlite.ErrDeposed) {
			t.Errorf("a late write: %v", err)
		}
		c.must(s.Close())
		if aside := c.rowsOf(done.Aside); !strings.Contains(aside, "since") || done.BackupAt.IsZero() {
			t.Errorf("%+v: aside is\n%s", done, aside)
		}
		next, s, _ := c.active(c.key())
		c.must(seen.Share(c.data, s.Records(), nil).Judge(t.Context(), next.Fence(), next.Beat(), true))
		if _, err := s.Meta(t.Context(), "since"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("what came since the backup is there: %v", err)
		}
		restored, err := s.Restoration(t.Context())
		if name, _, failed := instance.New(s.Records()).Read(t.Context()); err != nil || restored.At.IsZero() || failed != nil || name != "STORE" {
			t.Errorf("%+v, %v, %q, %v", restored, err, name, failed)
		}
		c.must(next.Release(t.Context(), ""))
		c.must(s.Close())
		if !strings.Contains(c.said.String(), "gw1 was the active gateway") {
			t.Errorf("it said %s", c.said.String())
		}
	})
}

// TestRestoreSharedArchive: a backup with the registry brings its blobs into the directory of the gateway here, into an empty store.
func TestRestoreSharedArchive(t *testing.T) {
	c := newCommon(t)
	file := c.backup(true)
	c.with(func(_ *store.Store, _ *artifact.Registry) {})
	c.must(os.RemoveAll(filepath.Join(c.data, datadir.Registry)))
	done, err := c.restoreShared(file, false)
	if err != nil || done.Blobs != 2 || done.LostBlobs != 0 || done.Aside != "" {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, text := range []string{"one", "two"} {
		path := filepath.Join(c.data, datadir.Registry, "blobs", strings.Replace(digest(text), ":", "/", 1))
		if content, err := os.ReadFile(path); string(content) != text {
			t.Errorf("%s: %q, %v", text, content, err)
		}
	}
}

// TestRotateShared: a shared store is sealed under a new key in a new file, while no gateway is active. Given again, it goes on.
func TestRotateShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommon(t)
		_, err := c.copy(c.data, sharedAt, false)
		c.must(err)
		out := filepath.Join(t.TempDir(), "new.key")
		rotate := func(out string) error {
			_, err := c.offline().RotateMaster(t.Context(), datadir.Files{Data: c.data}, datadir.SharedStore{Store: sharedAt}, out)
			return err
		}
		c.refused(rotate(""), "--master-key-out FILE")
		db, s, _ := c.active(c.key())
		c.refused(rotate(out), "is the active gateway")
		c.must(db.Release(t.Context(), ""))
		c.must(s.Close())
		for range 2 {
			c.must(rotate(out))
		}
		key, err := masterkey.Read(out)
		c.must(err)
		db, s, _ = c.active(key)
		c.must(db.Release(t.Context(), ""))
		_, err = store.Open(t.Context(), store.Options{Cluster: db, Reads: true, MasterKey: c.key()})
		if !errors.Is(err, store.ErrWrongMasterKey) {
			t.Errorf("the key from before: %v", err)
		}
		c.must(s.Close())
	})
}
