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

// do makes a statement.
func do(text string, args ...any) statement { return statement{SQL: text, Args: args} }

// guard makes a statement that aborts its batch unless the condition, an SQL expression, is true. A trigger on the view guards
// does that. The statement uses VALUES: for a SELECT, SQLite would first copy the rows into a table because of the trigger.
func guard(condition string, args ...any) statement {
	return do("INSERT INTO guards(held) VALUES ("+condition+")", args...)
}
