// Package store keeps the gateway's records in one SQLite database.
//
// What it promises: a write that returned nil survives kill -9 at any moment; a write is one atomic batch whose conditions
// are in its SQL, so nothing is decided on what was read before; keys are sealed under the master key before they reach the
// file. Times and ids are parameters and columns are INTEGER or TEXT only, so the same statements can run on rqlite.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver named "sqlite"
)

// readers is how many connections serve reads at once: more do not help, for each may keep a core busy.
const readers = 4

// Options say where the database lives.
type Options struct {
	Path      string           // of the database file; created with mode 0600 in a directory that exists
	MasterKey []byte           // 32 bytes; seals keys at rest
	Now       func() time.Time // nil: time.Now; used by Ready, migrations and Outages alone
}

// Store is an open database. Its methods may be called from any number of goroutines.
type Store struct {
	now    func() time.Time
	sealer sealer
	path   string
	read   *reader
	write  *writer
	close  sync.Once
}

// Open opens or creates the database, migrates it, and checks the master key. Errors: ErrWrongMasterKey, ErrNewerDatabase.
func Open(ctx context.Context, o Options) (*Store, error) {
	sealer, err := newSealer(o.MasterKey)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	if err := createPrivate(path); err != nil {
		return nil, err
	}
	s := &Store{now: o.Now, sealer: sealer, path: path}
	if s.now == nil {
		s.now = time.Now
	}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	w, err := openWriter(ctx, dataSource(s.path, false))
	if err != nil {
		return err
	}
	w.outages.now = s.now
	s.write = w
	if err := w.migrate(ctx, s.now()); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dataSource(s.path, true))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	s.read = &reader{db: db, prepared: map[string]*sql.Stmt{}}
	w.start()
	return s.checkCanary(ctx)
}

// createPrivate makes the file before SQLite does, which would leave its mode to the umask; the -wal and -shm files take it over.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("database file: %w", err)
	}
	return f.Close()
}

// Close finishes the writes that have begun and closes the database. Writes that had not begun, and later ones, get ErrClosed.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		if s.read != nil {
			err = s.read.close()
		}
		if s.write != nil {
			err = errors.Join(err, s.write.close())
		}
	})
	return err
}
