// Package instance keeps what a database is recognised by: its name, and a number that only grows. A copy of the database has the same
// name. A copy from before has a smaller number.
package instance

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/sqlite"
)

// Keys of meta values.
const (
	metaName  = "instance"
	metaPulse = "pulse"
)

// Records is the database, for what it is recognised by.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

// Read returns the name ("": it has none yet) and the number (0: none was written yet).
func (r Records) Read(ctx context.Context) (name string, pulse int64, err error) {
	type both struct {
		name  string
		pulse int64
	}
	got, err := engine.First(ctx, r.db, func(row *engine.Row) both { return both{row.Text(), row.Number()} },
		engine.Do(`SELECT (SELECT value FROM meta WHERE key = ?), (SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?)`, metaName, metaPulse))
	return got.name, got.pulse, err
}

// Find does what Read does, for a database that may have no tables yet.
func (r Records) Find(ctx context.Context) (name string, pulse int64, err error) {
	rows, err := r.db.Query(ctx, engine.Do("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'"))
	if err != nil || len(rows) == 0 {
		return "", 0, err
	}
	return r.Read(ctx)
}

// InFile does what Find does, for the database in a file, if the file exists. Nobody may have the file open. It changes nothing. Errors:
// store.ErrDamaged.
func InFile(ctx context.Context, path string) (name string, pulse int64, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	}
	db, err := Still(path)
	if err != nil {
		return "", 0, err
	}
	defer db.Close()
	return New(db).Find(ctx)
}

// Still opens the database in a file that nobody has open, to read it as it is.
func Still(path string) (store.Records, error) {
	db, err := sqlite.OpenStill(path)
	return store.Records{Engine: db}, err
}

// Name gives the database its name. store.ErrConflict if it has one.
func (r Records) Name(ctx context.Context, name string) error {
	return r.db.Change(ctx, []engine.Statement{engine.Do("INSERT INTO meta(key, value) VALUES (?, ?)", metaName, name)})
}

// Pulse writes the number.
func (r Records) Pulse(ctx context.Context, pulse int64) error {
	return r.db.Change(ctx, []engine.Statement{setPulse(pulse)})
}

func setPulse(pulse int64) engine.Statement {
	return engine.Do("INSERT INTO meta(key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", metaPulse,
		strconv.FormatInt(pulse, 10))
}

// Fork makes a copy into a database of its own, as a restore does: the copy loses its name, and its number becomes greater than above.
func (r Records) Fork(ctx context.Context, above int64) error {
	_, pulse, err := r.Read(ctx)
	if err != nil {
		return err
	}
	return r.db.Change(ctx, []engine.Statement{engine.Do("DELETE FROM meta WHERE key = ?", metaName), setPulse(max(pulse, above) + 1)})
}

// WrittenAt returns when a gateway last wrote to the database, by the gateway's own word. store.ErrNotFound: no gateway ever did.
func (r Records) WrittenAt(ctx context.Context) (time.Time, error) {
	millis, err := engine.First(ctx, r.db, (*engine.Row).Number,
		engine.Do("SELECT max(CAST(value AS INTEGER)) FROM meta WHERE key IN (?, ?) HAVING count(*) > 0", store.MetaAliveAt, store.MetaBackupAt))
	return time.UnixMilli(millis).UTC(), err
}
