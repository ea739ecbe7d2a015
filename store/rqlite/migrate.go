package rqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"muster/store/engine"
)

// Migrate brings the database to the newest schema: dir has files named 0001_what.sql, numbered from 1 without a gap. The caller holds the
// lease. Errors: engine.ErrNewerDatabase, and those of Batch.
func (db *DB) Migrate(ctx context.Context, dir fs.FS) error {
	steps, err := engine.Migrations(dir)
	if err != nil {
		return err
	}
	const table = "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, at INTEGER NOT NULL) STRICT"
	if err := db.batch(ctx, engine.Do(table)); err != nil {
		return err
	}
	had, err := engine.First(ctx, db, (*engine.Row).Number, engine.Do("SELECT COALESCE(max(number), 0) FROM migrations"))
	if err != nil {
		return err
	}
	if had > int64(len(steps)) {
		return fmt.Errorf("schema %d, this muster knows %d: %w", had, len(steps), engine.ErrNewerDatabase)
	}
	for _, step := range steps[had:] {
		record := engine.Do("INSERT INTO migrations(number, name, at) VALUES (?, ?, ?)", int64(step.Number), step.Name, engine.Millis(db.o.Now()))
		if err := db.batch(ctx, engine.Do(step.Script), record); err != nil {
			return fmt.Errorf("migration %s: %w", step.Name, err)
		}
	}
	return nil
}

// batch is Batch for a caller that wants no results.
func (db *DB) batch(ctx context.Context, statements ...engine.Statement) error {
	_, err := db.Batch(ctx, statements)
	if errors.Is(err, engine.ErrAnswerLost) {
		return nil
	}
	return err
}
