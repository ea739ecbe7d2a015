package sqlite

import (
	"errors"
	"fmt"

	"muster/store/engine"

	modernc "modernc.org/sqlite" // its driver is registered as driverName
	lib "modernc.org/sqlite/lib"
)

const driverName = "sqlite"

// outage is a commit that failed because of the machine.
func outage(err error) *engine.Outage {
	next := "see the gateway's log and the disk under its data directory"
	if code(err)&0xff == lib.SQLITE_FULL {
		next = "free disk space in the gateway's data directory; it goes on by itself"
	}
	return &engine.Outage{Err: damaged(err), Next: next}
}

// conflict turns the constraint errors that conditions of batches cause into engine.ErrConflict. Other constraints (a type, a NOT NULL, a
// CHECK) fail only because of a mistake in the program, so they keep their own error.
func conflict(err error) error {
	switch code(err) {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_TRIGGER:
		return fmt.Errorf("%w (%v)", engine.ErrConflict, err)
	}
	return err
}

// damaged turns the driver's codes for a file that is no database into engine.ErrDamaged.
func damaged(err error) error {
	if errors.Is(err, engine.ErrDamaged) {
		return err
	}
	switch code(err) & 0xff {
	case lib.SQLITE_NOTADB, lib.SQLITE_CORRUPT:
		return fmt.Errorf("%w (%w)", engine.ErrDamaged, err)
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
