package rqlite

import "context"

// barrier is a read of nothing, at the level fresh. The first one after an election goes through the log as a write does. It has little
// time, since writes wait for it.
const barrier = `[["SELECT 1"]]`

// onceCurrent is once, and a weak read misses nothing that was acknowledged before. For a moment after its election a leader has not
// applied all that the one before it has acknowledged, and it answers weak reads all the same. Requests fail while there is no leader,
// and this process sends one each second. So the first read after a failure waits at the barrier.
func (db *DB) onceCurrent(ctx context.Context, path string, body []byte, statements int) (reply, error) {
	if failures := db.failures.Load(); path == weak && db.current.Load() < failures {
		if _, err := db.once(ctx, fresh, []byte(barrier), 1); err != nil {
			return reply{}, err
		}
		db.current.Store(failures)
	}
	return db.once(ctx, path, body, statements)
}
