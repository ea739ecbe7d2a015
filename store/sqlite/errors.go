package sqlite

import (
	"errors"
	"fmt"

	modernc "modernc.org/sqlite" // its driver is registered as driverName
	lib "modernc.org/sqlite/lib"
)

const driverName = "sqlite"

// Sentinels that callers branch on. Everything else is a fault of the machine or of the program.
var (
	// ErrConflict says that a condition of the write was not true, so nothing was stored. To learn which one, read again.
	ErrConflict = errors.New("conflict")
	// ErrNewerDatabase says that a newer muster has migrated the database.
	ErrNewerDatabase = errors.New("a newer muster has migrated this database; " +
		"run that version, or restore a backup from before the upgrade")
	// ErrDamaged says that the file is no database. Perhaps it was overwritten, cut off or copied badly.
	ErrDamaged = errors.New("the database file is damaged")
	// ErrClosed says that the database was closed before the write began.
	ErrClosed = errors.New("the store is closed")
	// ErrSealed says that a sealed value was sealed under another master key or for another place, or was changed.
	ErrSealed = errors.New("a sealed value does not open: it was sealed under another master key, moved, or changed")
)

// Outage is a write that failed because of the machine: the disk is full or broken, or the file is gone. Nothing of it was stored.
// Writes succeed again when the cause is gone.
type Outage struct{ err error }

// Error includes the text of the driver's error.
func (o *Outage) Error() string { return "the database takes no writes: " + o.err.Error() }

// Unwrap returns the driver's error.
func (o *Outage) Unwrap() error { return o.err }

// Unavailable is a hint for the client whose request failed. It says what to do.
func (o *Outage) Unavailable() string {
	if code(o.err)&0xff == lib.SQLITE_FULL {
		return "free disk space in the gateway's data directory; it goes on by itself"
	}
	return "see the gateway's log and the disk under its data directory"
}

// conflict turns the constraint errors that conditions of batches cause into ErrConflict. Other constraints (a type, a NOT NULL, a
// CHECK) fail only because of a mistake in the program, so they keep their own error.
func conflict(err error) error {
	switch code(err) {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_TRIGGER:
		return fmt.Errorf("%w (%v)", ErrConflict, err)
	}
	return err
}

// damaged turns the driver's codes for a file that is no database into ErrDamaged.
func damaged(err error) error {
	if errors.Is(err, ErrDamaged) {
		return err
	}
	switch code(err) & 0xff {
	case lib.SQLITE_NOTADB, lib.SQLITE_CORRUPT:
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	return err
}

// ofStatement is true for an error that concerns one statement only. Any other error (disk full, I/O, memory) may have ended the
// whole transaction. Then no batch in it has succeeded.
func ofStatement(err error) bool {
	switch code(err) & 0xff {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_ERROR, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG, lib.SQLITE_RANGE:
		return true
	}
	return false
}

// code is the extended result code of a driver's error, 0 for any other error.
func code(err error) int {
	var e *modernc.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}
