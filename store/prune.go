package store

import (
	"context"
	"strconv"
	"time"
)

// PruneEvents deletes events from before a time, the oldest first, at most limit of them. It adds note, with the number of deleted
// events and the time, in the same batch. It returns that number; 0: there was nothing to delete, and note is not added. Only one
// caller at a time may use it, because it counts before it deletes.
func (s *Store) PruneEvents(ctx context.Context, before time.Time, limit int, note Event) (int, error) {
	type span struct{ count, last int64 }
	old, err := first(ctx, s, func(row *row) span { return span{row.Number(), row.Number()} },
		do("SELECT count(*), max(id) FROM (SELECT id FROM events WHERE at < ? ORDER BY id LIMIT ?)", millis(before), int64(limit)))
	if err != nil || old.count == 0 {
		return 0, err
	}
	note.Detail = map[string]string{"deleted": strconv.FormatInt(old.count, 10), "before": before.UTC().Format(time.RFC3339)}
	remove := do("DELETE FROM events WHERE id <= ? AND at < ?", old.last, millis(before))
	return int(old.count), s.change(ctx, []statement{remove}, []Event{note})
}

// PruneTasks deletes tasks that ended and expired before a time, with all that they wrote, at most limit of them. It returns how many. A
// task that has not expired stays: without its row, the same signed task could be queued a second time.
func (s *Store) PruneTasks(ctx context.Context, before time.Time, limit int) (int, error) {
	const ended = "SELECT id FROM tasks WHERE finished_at < ? AND expires_at < ? ORDER BY finished_at, id LIMIT ?"
	return s.Records().Most(ctx, limit,
		do("DELETE FROM task_pieces WHERE task IN ("+ended+")", millis(before), millis(before), int64(limit)),
		do("DELETE FROM tasks WHERE id IN ("+ended+")", millis(before), millis(before), int64(limit)))
}

// longEnded selects certificates that ended before a time, and still have their chain.
const longEnded = "SELECT fingerprint FROM certificates WHERE ended_at IS NOT NULL AND chain <> '' AND ended_at < ? LIMIT ?"

// DropChains empties the chains of certificates that ended before a time, at most limit of them, and returns how many. A chain is
// the largest part of a row. Nobody is given an ended certificate again, so nobody needs its chain. The rest of the row is never
// deleted: with it no key is certified twice, and a copy of an old identity is recognised however late it comes.
func (s *Store) DropChains(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.Records().Most(ctx, limit, do("UPDATE certificates SET chain = '' WHERE fingerprint IN ("+longEnded+")", millis(before),
		int64(limit)))
}

// DropScripts empties the scripts of bootstrap tokens that ended before a time. The rest of the rows stays.
func (s *Store) DropScripts(ctx context.Context, ended time.Time) error {
	return s.change(ctx, []statement{
		do(`UPDATE bootstraps SET script = '' WHERE script <> '' AND EXISTS(
			SELECT 1 FROM tokens t WHERE t.id = bootstraps.token AND (t.expires_at < ? OR t.revoked_at < ?))`, millis(ended),
			millis(ended)),
	}, nil)
}
