package store

import (
	"context"
	"strconv"
	"time"
)

// PruneEvents deletes the oldest events of before a time, at most limit of them, and logs note with their number and the time in
// the same batch. It returns how many went; 0: there was none, and nothing is logged. One caller at a time.
func (s *Store) PruneEvents(ctx context.Context, before time.Time, limit int, note Event) (int, error) {
	type span struct{ count, last int64 }
	old, err := first(ctx, s, func(r *row) span { return span{r.number(), r.number()} },
		do("SELECT count(*), max(id) FROM (SELECT id FROM events WHERE at < ? ORDER BY id LIMIT ?)", millis(before), int64(limit)))
	if err != nil || old.count == 0 {
		return 0, err
	}
	note.Detail = map[string]string{"deleted": strconv.FormatInt(old.count, 10), "before": before.UTC().Format(time.RFC3339)}
	remove := do("DELETE FROM events WHERE id <= ? AND at < ?", old.last, millis(before))
	return int(old.count), s.change(ctx, []statement{remove}, []Event{note})
}

const longEnded = "SELECT fingerprint FROM certificates WHERE ended_at IS NOT NULL AND chain <> '' AND ended_at < ? LIMIT ?"

// DropChains empties the chains of certificates that ended before a time, the largest part of their rows, at most limit of them at
// once, and returns how many went. The rest of a row stays for good: no key is certified twice, and a copy of an old identity is
// recognised however late it comes. Nobody is given an ended certificate again, so nobody misses its chain.
func (s *Store) DropChains(ctx context.Context, before time.Time, limit int) (int, error) {
	results, err := s.batch(ctx, []statement{do("UPDATE certificates SET chain = '' WHERE fingerprint IN ("+longEnded+")", millis(before),
		int64(limit))})
	if err != nil {
		return 0, err
	}
	return int(results[0].Affected), nil
}
