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
	// ErrConflict says that a condition of the write did not hold, so nothing of it was stored. Read again to learn which.
	ErrConflict = errors.New("conflict")
	// ErrNewerDatabase says that a newer muster has migrated the database.
	ErrNewerDatabase = errors.New("a newer muster has migrated this database; " +
		"run that version, or restore a backup from before the upgrade")
	// ErrDamaged says that the file is no database, or is one no more: it was overwritten, cut off or badly copied.
	ErrDamaged = errors.New("the database file is damaged")
	// ErrClosed says that the database was closed before the write began.
	ErrClosed = errors.New("the store is closed")
	// ErrSealed says that a sealed value was not made under this master key for this place, or was changed since.
	ErrSealed = errors.New("a sealed value does not open: it was sealed under another master key, moved, or changed")
)

// Outage is a write that failed for reasons that lie under the database: a full disk, a broken one, a file that went away.
// Nothing of it was stored. The database goes on when the cause is mended.
type Outage struct{ err error }

// Error says what the system said.
func (o *Outage) Error() string { return "the database takes no writes: " + o.err.Error() }

// Unwrap gives the driver's error.
func (o *Outage) Unwrap() error { return o.err }

// Unavailable says what to do, for whoever waits for an answer.
func (o *Outage) Unavailable() string {
	if code(o.err)&0xff == lib.SQLITE_FULL {
		return "free disk space in the gateway's data directory; it goes on by itself"
	}
	return "see the gateway's log and the disk under its data directory"
}

// conflict turns the constraint errors by which batches state their conditions into ErrConflict, by the driver's code. Other
// constraints (a type, a NOT NULL, a CHECK) can only fail through a mistake in the program, so they keep their own error.
func conflict(err error) error {
	switch code(err) {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_TRIGGER:
		return fmt.Errorf("%w (%v)", ErrConflict, err)
	}
	return err
}

// damaged turns the driver's codes for a file that is no database into ErrDamaged.
func damaged(err error) error {
	switch code(err) & 0xff {
	case lib.SQLITE_NOTADB, lib.SQLITE_CORRUPT:
		return fmt.Errorf("%w (%v)", ErrDamaged, err)
	}
	return err
}

// ofStatement reports whether an error concerns one statement only. Anything else (disk full, I/O, memory) may have ended the
// whole transaction, so no batch of it can be told that it succeeded.
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
