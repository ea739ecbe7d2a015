package store

import (
	"errors"

	"muster/store/engine"
)

// Sentinels that callers branch on. Everything else is a fault of the machine or of the program.
var (
	// ErrNotFound says that no such row exists, or none in the tenant that was asked for.
	ErrNotFound = engine.ErrNotFound
	// ErrConflict says that a condition of the write was not true, so nothing was stored. To learn which one, read again.
	ErrConflict = engine.ErrConflict
	// ErrWrongMasterKey says that the database was sealed under another master key.
	ErrWrongMasterKey = errors.New("the master key is not the one that this database was sealed with")
	// ErrNewerDatabase says that a newer muster has migrated the database.
	ErrNewerDatabase = engine.ErrNewerDatabase
	// ErrDamaged says that the database file is damaged, or is no database.
	ErrDamaged = engine.ErrDamaged
	// ErrBadCursor says that a page's cursor was not made by an earlier page.
	ErrBadCursor = engine.ErrBadCursor
	// ErrClosed says that the store was closed before the write began.
	ErrClosed = engine.ErrClosed
)

// Outage is a write that failed because of the machine, such as a full disk. Nothing of it was stored.
type Outage = engine.Outage
