package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Backup writes a consistent copy of the database to a new file with mode 0600. Reads and writes go on meanwhile. It refuses an
// existing file. Keys stay sealed in the copy, so the copy needs the master key.
func (db *DB) Backup(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := errors.Join(db.vacuumInto(ctx, path), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("backup: %w", errors.Join(err, os.Remove(path)))
	}
	return syncDirectory(filepath.Dir(path))
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

// syncDirectory makes the name of a new file durable. The file's own Sync does that for its content alone.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
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
