package store

import (
	"context"
	"embed"
	"io/fs"

	"muster/store/sqlite"
)

// The schema. A step that was released is never changed: the next one corrects it.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations() (fs.FS, error) { return fs.Sub(migrationFiles, "migrations") }

type (
	statement = sqlite.Statement
	result    = sqlite.Result
	row       = sqlite.Row
)

// query and batch are all that the other files of this package use of the engine.
func (s *Store) query(ctx context.Context, st statement) ([][]any, error) { return s.db.Query(ctx, st) }

func (s *Store) batch(ctx context.Context, statements []statement) ([]result, error) {
	return s.db.Batch(ctx, statements)
}

func do(text string, args ...any) statement { return sqlite.Do(text, args...) }

func guard(condition string, args ...any) statement { return sqlite.Guard(condition, args...) }

// Records is the database as the packages of records below this one use it: store/logins, store/registry and store/releases.
// Nobody else does.
type Records struct{ *sqlite.DB }

// Records gives the database to a package of records.
func (s *Store) Records() Records { return Records{s.db} }

// Change runs a write and adds its events in the same batch: no change is without its event, and no event without its change.
func (r Records) Change(ctx context.Context, statements []sqlite.Statement, events ...Event) error {
	for _, e := range events {
		statements = append(statements, insertEvent(e))
	}
	if len(statements) == 0 {
		return nil
	}
	_, err := r.Batch(ctx, statements)
	return err
}
