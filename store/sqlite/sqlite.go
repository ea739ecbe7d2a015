// Package sqlite is the embedded engine: one SQLite file, the migrations of its schema, one writer and some readers. It knows no table.
//
// The records above it use Query and Batch, and nothing else to read and write. A batch is atomic, and its conditions are in its
// SQL: no Go code looks at the result of one statement before the next one. Parameters and columns are integers and text only. So
// rqlite can stand behind the same two methods: it takes lists of statements as JSON over HTTP.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"muster/store/engine"
)

// readers is how many connections serve reads at once. Each may keep a core busy, so more would not help.
const readers = 4

// Options say where the database is and what its schema is.
type Options struct {
	Path       string           // of the database file; created with mode 0600 in a directory that exists
	Migrations fs.FS            // files named 0001_what.sql, numbered from 1 without a gap
	Now        func() time.Time // nil: time.Now; used by migrations and Outages

	// Lax is for a file whose last writes may be lost when the machine dies, but not when only the process dies: a commit does not wait for
	// the disk. The room of deleted rows can be given back to the file system, see Shrink.
	Lax bool
}

// DB is an open database. Its methods may be called from any number of goroutines.
type DB struct {
	o     Options // Path is absolute
	read  *reader
	write *writer
	close sync.Once
}

// Open opens or creates the database and migrates it. Errors: engine.ErrNewerDatabase, engine.ErrDamaged.
func Open(ctx context.Context, o Options) (*DB, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	if err := createPrivate(path); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Path = path
	db := &DB{o: o}
	if err := db.open(ctx); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Join(damaged(err), db.Close()))
	}
	return db, nil
}

func (db *DB) open(ctx context.Context) error {
	w, err := openWriter(ctx, db.o.dataSource(false))
	if err != nil {
		return err
	}
	w.outages.Now = db.o.Now
	db.write = w
	if err := w.migrate(ctx, db.o.Migrations, db.o.Now()); err != nil {
		return err
	}
	pool, err := sql.Open(driverName, db.o.dataSource(true))
	if err != nil {
		return err
	}
	pool.SetMaxOpenConns(readers)
	pool.SetMaxIdleConns(readers)
	db.read = &reader{db: pool, prepared: map[string]*sql.Stmt{}}
	w.start()
	return nil
}

// OpenToRead opens the database in a file for queries alone. It migrates nothing, and writes nothing into the file.
func OpenToRead(path string) (*DB, error) {
	pool, err := openToRead(path, "")
	if err != nil {
		return nil, err
	}
	return &DB{read: &reader{db: pool, prepared: map[string]*sql.Stmt{}}}, nil
}

// OpenStill does what OpenToRead does, for a file that nobody has open: it makes no file beside it, unless there is one already with writes
// that are not in the file yet.
func OpenStill(path string) (*DB, error) {
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		return OpenToRead(path)
	}
	pool, err := openToRead(path, "&immutable=1")
	if err != nil {
		return nil, err
	}
	return &DB{read: &reader{db: pool, prepared: map[string]*sql.Stmt{}}}, nil
}

func openToRead(path, more string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	source := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro&_pragma=busy_timeout(10000)" + more}
	return sql.Open(driverName, source.String())
}

// createPrivate makes the file before SQLite does. SQLite would leave the mode to the umask. The -wal and -shm files get the mode of
// this file.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("database file: %w", err)
	}
	return f.Close()
}

// Close finishes the writes that have begun and closes the database. All other writes get engine.ErrClosed.
func (db *DB) Close() error {
	var err error
	db.close.Do(func() {
		if db.read != nil {
			err = db.read.close()
		}
		if db.write != nil {
			err = errors.Join(err, db.write.close())
		}
	})
	return err
}

// Query runs one SELECT on a snapshot of the committed data. The values in the rows are int64, string, []byte
// or nil. Errors: engine.ErrDamaged.
func (db *DB) Query(ctx context.Context, st engine.Statement) ([][]any, error) {
	return db.read.query(ctx, st)
}

// Batch runs statements atomically: all of them, in order, or none. When it returns nil, they are on disk. Conditions are in the SQL
// and fail as constraint errors, which Batch returns as engine.ErrConflict.
func (db *DB) Batch(ctx context.Context, statements []engine.Statement) ([]engine.Result, error) {
	return db.write.batch(ctx, statements)
}

// Outages sets the function that is told about outages, see engine.Outages.
func (db *DB) Outages(tell func(error)) { db.write.outages.Tell(tell) }
