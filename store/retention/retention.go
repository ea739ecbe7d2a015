// Package retention deletes records whose time is over.
package retention

import (
	"context"
	"strconv"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Records are the records that are deleted. Its methods may be called from any number of goroutines.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

// Events deletes events from before a time, the oldest first, at most limit of them. It adds note, with the number of deleted
// events and the time, in the same batch. It returns that number; 0: there was nothing to delete, and note is not added. Only one
// caller at a time may use it, because it counts before it deletes.
func (r Records) Events(ctx context.Context, before time.Time, limit int, note store.Event) (int, error) {
	type span struct{ count, last int64 }
	old, err := engine.First(ctx, r.db, store.ErrNotFound, func(row *engine.Row) span { return span{row.Number(), row.Number()} },
		engine.Do("SELECT count(*), max(id) FROM (SELECT id FROM events WHERE at < ? ORDER BY id LIMIT ?)", engine.Millis(before), int64(limit)))
	if err != nil || old.count == 0 {
		return 0, err
	}
	note.Detail = map[string]string{"deleted": strconv.FormatInt(old.count, 10), "before": before.UTC().Format(time.RFC3339)}
	remove := engine.Do("DELETE FROM events WHERE id <= ? AND at < ?", old.last, engine.Millis(before))
	return int(old.count), r.db.Change(ctx, []engine.Statement{remove}, note)
}

// Tasks deletes tasks that ended and expired before a time, with all that they wrote, at most limit of them. It returns how many. One
// that has not expired stays: without its row, the same signed task could be queued a second time.
func (r Records) Tasks(ctx context.Context, before time.Time, limit int) (int, error) {
	const ended = "SELECT id FROM tasks WHERE finished_at < ? AND expires_at < ? ORDER BY finished_at, id LIMIT ?"
	return r.db.Most(ctx, limit,
		engine.Do("DELETE FROM task_pieces WHERE task IN ("+ended+")", engine.Millis(before), engine.Millis(before), int64(limit)),
		engine.Do("DELETE FROM tasks WHERE id IN ("+ended+")", engine.Millis(before), engine.Millis(before), int64(limit)))
}

// longEnded selects certificates that ended before a time, and still have their chain.
const longEnded = "SELECT fingerprint FROM certificates WHERE ended_at IS NOT NULL AND chain <> '' AND ended_at < ? LIMIT ?"

// Chains empties the chains of certificates that ended before a time, at most limit of them, and returns how many. A chain is
// the largest part of a row. Nobody is given an ended certificate again, so nobody needs its chain. The rest of the row is never
// deleted: with it no key is certified twice, and a copy of an old identity is recognised however late it comes.
func (r Records) Chains(ctx context.Context, before time.Time, limit int) (int, error) {
	return r.db.Most(ctx, limit, engine.Do("UPDATE certificates SET chain = '' WHERE fingerprint IN ("+longEnded+")", engine.Millis(before),
		int64(limit)))
}

// Scripts empties the scripts of bootstrap tokens that ended before a time. The rest of the rows stays.
func (r Records) Scripts(ctx context.Context, ended time.Time) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do(`UPDATE bootstraps SET script = '' WHERE script <> '' AND EXISTS(
			SELECT 1 FROM tokens t WHERE t.id = bootstraps.token AND (t.expires_at < ? OR t.revoked_at < ?))`, engine.Millis(ended),
			engine.Millis(ended)),
	})
}
