package store

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Sentinels that callers branch on. Everything else is a fault of the machine or of the program.
var (
	// ErrNotFound says that no such row exists, or none of the tenant that was asked for.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that a condition of the write did not hold, so nothing of it was stored. Read again to learn which.
	ErrConflict = errors.New("conflict")
	// ErrWrongMasterKey says that the database was sealed under another master key.
	ErrWrongMasterKey = errors.New("the master key is not the one that this database was sealed with")
	// ErrNewerDatabase says that a newer muster has migrated the database.
	ErrNewerDatabase = errors.New("a newer muster has migrated this database; run that version, or restore a backup from before the upgrade")
	// ErrBadCursor says that a page's cursor was not made by Nodes.
	ErrBadCursor = errors.New("bad cursor")
	// ErrClosed says that the store was closed before the write began.
	ErrClosed = errors.New("the store is closed")
)

// Outage is a write that failed for reasons that lie under the database: a full disk, a broken one, a file that went away.
// Nothing of it was stored; the store goes on when the cause is mended.
type Outage struct{ err error }

// Error says what the system said.
func (o *Outage) Error() string { return "the database takes no writes: " + o.err.Error() }

// Unwrap gives the driver's error.
func (o *Outage) Unwrap() error { return o.err }

// Unavailable says what to do, for whoever waits for an answer.
func (o *Outage) Unavailable() string {
	if sqliteCode(o.err)&0xff == lib.SQLITE_FULL {
		return "free disk space in the gateway's data directory; it goes on by itself"
	}
	return "see the gateway's log and the disk under its data directory"
}

// conflict turns the constraint errors by which batches state their conditions into ErrConflict, by the driver's code. Other
// constraints (a type, a NOT NULL, a CHECK) can only fail through a mistake in this package, so they keep their own error.
func conflict(err error) error {
	switch sqliteCode(err) {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_TRIGGER:
		return fmt.Errorf("%w (%v)", ErrConflict, err)
	}
	return err
}

// notFound is for writes whose only condition is that the row exists.
func notFound(err error) error {
	if errors.Is(err, ErrConflict) {
		return ErrNotFound
	}
	return err
}

// ofStatement reports whether an error concerns one statement only. Anything else (disk full, I/O, memory) may have ended the
// whole transaction, so no batch of it can be told that it succeeded.
func ofStatement(err error) bool {
	switch sqliteCode(err) & 0xff {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_ERROR, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG, lib.SQLITE_RANGE:
		return true
	}
	return false
}

// sqliteCode is the extended result code of a driver's error, 0 for any other error.
func sqliteCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}
