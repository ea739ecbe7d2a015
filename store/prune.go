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
	old, err := first(ctx, s, func(r *row) span { return span{r.Number(), r.Number()} },
		do("SELECT count(*), max(id) FROM (SELECT id FROM events WHERE at < ? ORDER BY id LIMIT ?)", millis(before), int64(limit)))
	if err != nil || old.count == 0 {
		return 0, err
	}
	note.Detail = map[string]string{"deleted": strconv.FormatInt(old.count, 10), "before": before.UTC().Format(time.RFC3339)}
	remove := do("DELETE FROM events WHERE id <= ? AND at < ?", old.last, millis(before))
	return int(old.count), s.change(ctx, []statement{remove}, []Event{note})
}

const longEnded = "SELECT fingerprint FROM certificates WHERE ended_at IS NOT NULL AND chain <> '' AND ended_at < ? LIMIT ?"

// DropChains empties the chains of certificates that ended before a time, at most limit of them, and returns how many. A chain is
// the largest part of a row. Nobody is given an ended certificate again, so nobody needs its chain. The rest of the row is never
// deleted: with it no key is certified twice, and a copy of an old identity is recognised however late it comes.
func (s *Store) DropChains(ctx context.Context, before time.Time, limit int) (int, error) {
	results, err := s.batch(ctx, []statement{do("UPDATE certificates SET chain = '' WHERE fingerprint IN ("+longEnded+")", millis(before),
		int64(limit))})
	if err != nil {
		return 0, err
	}
	return int(results[0].Affected), nil
}
