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

	"muster/store/sqlite"
)

// Options say where the database is and which key seals its secrets.
type Options struct {
	Path      string           // of the database file; created with mode 0600 in a directory that exists
	MasterKey []byte           // 32 bytes; seals keys at rest
	Now       func() time.Time // nil: time.Now; used by Ready, migrations and Outages alone
}

// Store is an open database. Its methods may be called from any number of goroutines.
type Store struct {
	now  func() time.Time
	seal sqlite.Sealer
	db   *sqlite.DB
}

// Open opens or creates the database, migrates it, and checks the master key. Errors: ErrWrongMasterKey, ErrNewerDatabase.
func Open(ctx context.Context, o Options) (*Store, error) {
	seal, err := sqlite.NewSealer(o.MasterKey)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(o.Path)
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
	db, err := sqlite.Open(ctx, sqlite.Options{Path: path, Migrations: schema, Now: o.Now})
	if err != nil {
		return nil, err
	}
	s := &Store{now: o.Now, seal: seal, db: db}
	if err := s.checkCanary(ctx); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Join(err, db.Close()))
	}
	return s, nil
}

// Schema gives the number of the schema that a database has, 0 if there is none, and of the one that this program knows. It changes
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
// space as the file has. Nobody else may have the database open.
func (s *Store) Scrub(ctx context.Context) error { return s.db.Scrub(ctx) }

// Outages sets the function that is told about outages. It gets an *Outage when writes begin to fail, once for each reason. It
// gets nil when writes have succeeded for a minute. tell must return soon, and must not write to the store.
func (s *Store) Outages(tell func(error)) { s.db.Outages(tell) }
