package store

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"muster/store/engine"
)

// The schema. A step that was released is never changed: the next one corrects it.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations() (fs.FS, error) { return fs.Sub(migrationFiles, "migrations") }

type (
	statement = engine.Statement
	row       = engine.Row
)

func (s *Store) query(ctx context.Context, st statement) ([][]any, error) { return s.db.Query(ctx, st) }

// Fresh marks the reads of a context as reads on which the decision of a write stands, for example why a write was ErrConflict: see
// engine.Fresh.
func Fresh(ctx context.Context) context.Context { return engine.Fresh(ctx) }

// Piece is the greatest number of rows in one write whose rows grow with the fleet.
const Piece = engine.Piece

func do(text string, args ...any) statement { return engine.Do(text, args...) }

func guard(condition string, args ...any) statement { return engine.Guard(condition, args...) }

// Engine is a database behind the store: package sqlite has one in a file, and package rqlite one of several machines.
type Engine interface {
	// Query runs one SELECT on a snapshot of the committed data. The values in the rows are int64, string, []byte or nil. Errors:
	// engine.ErrDamaged.
	Query(ctx context.Context, st engine.Statement) ([][]any, error)
	// Batch runs statements atomically: all of them, in order, or none. When it returns nil, they are safe. Conditions are in the SQL and
	// fail as constraint errors, which Batch returns as engine.ErrConflict. After engine.ErrAnswerLost they are safe too, but the results
	// are lost.
	Batch(ctx context.Context, statements []engine.Statement) ([]engine.Result, error)
	// Backup writes a consistent copy of the database, as a file of SQLite, to a new file with mode 0600. It refuses an existing file.
	Backup(ctx context.Context, path string) error
	Outages(tell func(error)) // see engine.Outages
	Close() error
}

// Records is the database for the packages of records below this one, such as store/registry and store/releases. Nobody else uses it.
type Records struct{ Engine }

// Records gives the database to a package of records.
func (s *Store) Records() Records { return Records{s.db} }

// Change runs a write and adds its events in the same batch: no change is without its event, and no event without its change.
func (r Records) Change(ctx context.Context, statements []engine.Statement, events ...Event) error {
	for _, e := range events {
		statements = append(statements, eventLog.Insert(e, ""))
	}
	if len(statements) == 0 {
		return nil
	}
	_, err := r.Batch(ctx, statements)
	if errors.Is(err, engine.ErrAnswerLost) { // nobody wants it
		return nil
	}
	return err
}

// Most runs a write that the caller repeats until it changes less than most rows. It returns how many rows the last statement has changed;
// most, if the answer was lost.
func (r Records) Most(ctx context.Context, most int, statements ...engine.Statement) (int, error) {
	results, err := r.Batch(ctx, statements)
	switch {
	case errors.Is(err, engine.ErrAnswerLost):
		return most, nil
	case err != nil:
		return 0, err
	}
	return int(results[len(results)-1].Affected), nil
}
