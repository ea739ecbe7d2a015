package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"muster/store/engine"
)

// Backup writes a consistent copy of the database to a new file with mode 0600. Reads and writes go on meanwhile. It refuses an
// existing file. Keys stay sealed in the copy, so the copy needs the master key.
func (db *DB) Backup(ctx context.Context, path string) error {
	if err := engine.NewFile(path, func(*os.File) error { return db.vacuumInto(ctx, path) }); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// vacuumInto opens its own connection. The readers' connections refuse the statement, and the writer must go on writing.
func (db *DB) vacuumInto(ctx context.Context, path string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	own, err := sql.Open(driverName, db.o.dataSource(false))
	if err != nil {
		return err
	}
	_, err = own.ExecContext(ctx, "VACUUM INTO ?", absolute)
	return errors.Join(err, own.Close())
}

// Scrub writes the whole database file again, so that nothing that was deleted or replaced is left in it. It needs as much free
// space as the file has. Nobody else may have the database open.
func (db *DB) Scrub(ctx context.Context) error {
	own, err := sql.Open(driverName, db.o.dataSource(false))
	if err != nil {
		return err
	}
	_, err = own.ExecContext(ctx, "VACUUM")
	if err == nil {
		_, err = own.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return errors.Join(err, own.Close())
}
