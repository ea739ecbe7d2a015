package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Backup writes a consistent copy of the database to a new file with mode 0600, while reads and writes go on. An existing file is
// refused. Keys in it stay sealed: it is of use only with the master key.
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

// vacuumInto needs a connection of its own: those of the readers refuse the statement, and the writer has to go on writing.
func (db *DB) vacuumInto(ctx context.Context, path string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	own, err := sql.Open(driverName, dataSource(db.path, false))
	if err != nil {
		return err
	}
	_, err = own.ExecContext(ctx, "VACUUM INTO ?", absolute)
	return errors.Join(err, own.Close())
}

// syncDirectory makes the name of a new file as durable as its content.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Scrub writes the database file anew, so that what was deleted or replaced is nowhere in it any more. It needs as much
// free space again, and is for a database that nobody else has open.
func (db *DB) Scrub(ctx context.Context) error {
	own, err := sql.Open(driverName, dataSource(db.path, false))
	if err != nil {
		return err
	}
	_, err = own.ExecContext(ctx, "VACUUM")
	if err == nil {
		_, err = own.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return errors.Join(err, own.Close())
}
