package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"muster/store/engine"
)

// migrate brings the database to the newest schema. It runs before the writer's goroutine starts.
func (w *writer) migrate(ctx context.Context, dir fs.FS, now time.Time) error {
	steps, err := engine.Migrations(dir)
	if err != nil {
		return err
	}
	return w.apply(ctx, steps, now)
}

// Schema returns the number of steps that the database in a file has had, and the number that there are. It changes nothing, and another
// process may have the file open. If there is no file, it has had no steps.
func Schema(ctx context.Context, path string, dir fs.FS) (had, known int, err error) {
	steps, err := engine.Migrations(dir)
	if err != nil {
		return 0, 0, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, len(steps), nil
	}
	db, err := openToRead(path, "")
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	tables := 0
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'migrations'").Scan(&tables)
	if err == nil && tables > 0 {
		err = db.QueryRowContext(ctx, "SELECT COALESCE(max(number), 0) FROM migrations").Scan(&had)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the schema of %s: %w", path, damaged(err))
	}
	return had, len(steps), nil
}

// apply runs the steps that the database has not had yet. Each step and the record of its number are one transaction.
func (w *writer) apply(ctx context.Context, steps []engine.Migration, now time.Time) error {
	const table = "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, at INTEGER NOT NULL) STRICT"
	if _, err := w.conn.ExecContext(ctx, table); err != nil {
		return err
	}
	had, err := w.migrated(ctx)
	if err != nil {
		return err
	}
	if had > len(steps) {
		return fmt.Errorf("schema %d, this muster knows %d: %w", had, len(steps), engine.ErrNewerDatabase)
	}
	for _, step := range steps[had:] {
		if err := w.step(ctx, step, now); err != nil {
			return fmt.Errorf("migration %s: %w", step.Name, err)
		}
	}
	return nil
}

func (w *writer) migrated(ctx context.Context) (int, error) {
	var number int
	err := w.conn.QueryRowContext(ctx, "SELECT COALESCE(max(number), 0) FROM migrations").Scan(&number)
	return number, err
}

// step applies one migration. Another process may have opened the same file and applied it meanwhile. Then its number is there, and
// step does nothing.
func (w *writer) step(ctx context.Context, step engine.Migration, now time.Time) error {
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer w.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // without effect after COMMIT
	if had, err := w.migrated(ctx); err != nil || had >= step.Number {
		return err
	}
	if _, err := w.conn.ExecContext(ctx, step.Script); err != nil {
		return err
	}
	const record = "INSERT INTO migrations(number, name, at) VALUES (?, ?, ?)"
	if _, err := w.conn.ExecContext(ctx, record, step.Number, step.Name, now.UnixMilli()); err != nil {
		return err
	}
	_, err := w.conn.ExecContext(ctx, "COMMIT")
	return err
}
