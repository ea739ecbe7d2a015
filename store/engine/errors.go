package engine

import "errors"

// Sentinels that callers branch on. Everything else is a fault of the machine or of the program.
var (
	// ErrNotFound says that no such row exists, or none in the tenant that was asked for.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that a condition of the write was not true, so nothing was stored. To learn which one, read again.
	ErrConflict = errors.New("conflict")
	// ErrAnswerLost says that the write is stored, and that what its statements did is not known any more.
	ErrAnswerLost = errors.New("the write is stored, and the answer to it is lost")
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

// NotFound turns ErrConflict into ErrNotFound. It is for writes whose only condition is that the row exists.
func NotFound(err error) error {
	if errors.Is(err, ErrConflict) {
		return ErrNotFound
	}
	return err
}

// Outage is a write that failed because of the machine: the disk is full or broken, the file is gone, or the database cannot be reached.
// Nothing of it was stored. Writes succeed again when the cause is gone.
type Outage struct {
	Err  error
	Next string // what to do
}

// Error includes the text of the engine's error.
func (o *Outage) Error() string { return "the database takes no writes: " + o.Err.Error() }

// Unwrap returns the engine's error.
func (o *Outage) Unwrap() error { return o.Err }

// Unavailable returns a hint for the client whose request failed. It says what to do.
func (o *Outage) Unavailable() string { return o.Next }
