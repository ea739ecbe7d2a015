package store

import (
	"errors"

	"muster/store/sqlite"
)

// Sentinels that callers branch on. Everything else is a fault of the machine or of the program.
var (
	// ErrNotFound says that no such row exists, or none of the tenant that was asked for.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that a condition of the write did not hold, so nothing of it was stored. Read again to learn which.
	ErrConflict = sqlite.ErrConflict
	// ErrWrongMasterKey says that the database was sealed under another master key.
	ErrWrongMasterKey = errors.New("the master key is not the one that this database was sealed with")
	// ErrNewerDatabase says that a newer muster has migrated the database.
	ErrNewerDatabase = sqlite.ErrNewerDatabase
	// ErrDamaged says that the database file is damaged, or is no database.
	ErrDamaged = sqlite.ErrDamaged
	// ErrBadCursor says that a page's cursor was not made by Nodes.
	ErrBadCursor = errors.New("bad cursor")
	// ErrClosed says that the store was closed before the write began.
	ErrClosed = sqlite.ErrClosed
)

// Outage is a write that failed for reasons that lie under the database, such as a full disk. Nothing of it was stored.
type Outage = sqlite.Outage

// notFound is for writes whose only condition is that the row exists.
func notFound(err error) error {
	if errors.Is(err, ErrConflict) {
		return ErrNotFound
	}
	return err
}
