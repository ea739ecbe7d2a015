// Package store keeps the gateway's records. Each kind of record has its own file.
//
// It promises three things. A write that returned nil survives kill -9 at any moment. A write is one atomic batch with its
// conditions in its SQL, so it never relies on something that was read earlier. Keys are sealed under the master key before they
// reach the file.
//
// Times and ids are parameters, and columns are INTEGER or TEXT only, so the same statements can run on rqlite. The engine is
// package sqlite.
package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"muster/store/engine"
	"muster/store/rqlite"
	"muster/store/sqlite"
)

// Cluster is a database of several machines, which several gateways share.
type Cluster = rqlite.DB

// Options say where the database is and which key seals its secrets.
type Options struct {
	Path      string           // of the database file; created with mode 0600 in a directory that exists
	Cluster   *Cluster         // in place of the file: the caller holds its lease, or Reads
	Reads     bool             // only reads the cluster, as a gateway does that stands by: nothing is migrated
	MasterKey []byte           // 32 bytes; seals keys at rest
	Now       func() time.Time // nil: time.Now; used by Ready, migrations and Outages alone
}

// Store is an open database. Its methods may be called from any number of goroutines.
type Store struct {
	now  func() time.Time
	seal engine.Sealer
	db   Engine
	file *sqlite.DB // db, where it is a file of this machine; else nil
}

// Open opens or creates the database, migrates it, and checks the master key. Errors: ErrWrongMasterKey, ErrNewerDatabase, and, with Reads,
// ErrNotFound if there is no database yet.
func Open(ctx context.Context, o Options) (*Store, error) {
	seal, err := engine.NewSealer(o.MasterKey)
	if err != nil {
		return nil, err
	}
	schema, err := migrations()
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{now: o.Now, seal: seal}
	name := "the database in rqlite"
	if o.Reads {
		s.db = o.Cluster
		return s, s.checkKept(ctx)
	}
	if o.Cluster != nil {
		s.db = o.Cluster
		if err = s.checkMade(ctx); err == nil {
			err = o.Cluster.Migrate(ctx, schema)
		}
	} else {
		if name, err = filepath.Abs(o.Path); err != nil {
			return nil, err
		}
		if s.file, err = sqlite.Open(ctx, sqlite.Options{Path: name, Migrations: schema, Now: o.Now}); err != nil {
			return nil, err
		}
		s.db = s.file
	}
	if err == nil {
		err = s.checkCanary(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, errors.Join(err, s.db.Close()))
	}
	return s, nil
}

// Schema returns the number of the schema that a database has, 0 if there is none, and of the one that this program knows. It changes
// nothing, and another process may have the database open. Errors: ErrDamaged.
func Schema(ctx context.Context, path string) (has, known int, err error) {
	schema, err := migrations()
	if err != nil {
		return 0, 0, err
	}
	return sqlite.Schema(ctx, path, schema)
}

// Close finishes the writes that have begun and closes the database. All other writes get ErrClosed.
func (s *Store) Close() error { return s.db.Close() }

// Backup writes a consistent copy of the database to a new file with mode 0600. Reads and writes go on meanwhile. It refuses an
// existing file. Keys stay sealed in the copy, so the copy needs the master key.
func (s *Store) Backup(ctx context.Context, path string) error { return s.db.Backup(ctx, path) }

// Scrub writes the whole database file again, so that nothing that was deleted or replaced is left in it. It needs as much free
// space as the file has. Nobody else may have the database open. It does nothing on a cluster: there each node keeps what was written in
// its own log and copies, until it drops them by itself.
func (s *Store) Scrub(ctx context.Context) error {
	if s.file == nil {
		return nil
	}
	return s.file.Scrub(ctx)
}

// Outages sets the function that is told about outages. It gets an *Outage when writes begin to fail, once for each reason. It
// gets nil when writes have succeeded for a minute. tell must return soon, and must not write to the store.
func (s *Store) Outages(tell func(error)) { s.db.Outages(tell) }
