package store

import (
	"context"
	"time"
)

const longEnded = "SELECT fingerprint FROM certificates WHERE ended_at IS NOT NULL AND chain <> '' AND ended_at < ? LIMIT ?"

// DropChains empties the chains of certificates that ended before a time, at most limit of them, and returns how many. A chain is
// the largest part of a row. Nobody is given an ended certificate again, so nobody needs its chain. The rest of the row is never
// deleted: with it no key is certified twice, and a copy of an old identity is recognised however late it comes.
func (s *Store) DropChains(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.Records().Most(ctx, limit, do("UPDATE certificates SET chain = '' WHERE fingerprint IN ("+longEnded+")", millis(before),
		int64(limit)))
}
