package store

import (
	"context"
	"time"

	"muster/store/engine"
)

// overdue selects the current certificates whose renewal is overdue, which are not marked yet, and whose nodes are not retired.
// Overdue is 43/60 of the life: agents renew at two thirds (40/60), and have a twentieth (3/60) more. The index
// certificates_renewal has the same fraction. A test of package fleet compares it with the times in agent/wire. The parameters are
// a time and a limit.
const overdue = `SELECT c.fingerprint FROM certificates c JOIN nodes n ON n.id = c.node_id
	WHERE c.status = 'current' AND c.overdue_at IS NULL AND c.issued_at + (c.not_after - c.issued_at) * 43 / 60 < ?
		AND n.retired_at IS NULL
	ORDER BY c.issued_at + (c.not_after - c.issued_at) * 43 / 60, c.fingerprint LIMIT ?`

// expiredNodes needs overdue_at, because the index certificates_overdue has only such certificates. Overdue comes before expired.
const expiredNodes = `SELECT n.id FROM certificates c JOIN nodes n ON n.id = c.node_id
	WHERE c.status = 'current' AND c.overdue_at IS NOT NULL AND c.not_after < ? AND n.retired_at IS NULL
		AND NOT EXISTS(SELECT 1 FROM reasons WHERE node_id = n.id AND reason = ?)
	ORDER BY c.not_after, n.id LIMIT ?`

// MarkOverdue marks certificates whose renewal is overdue, and adds an event of this kind for each, in one batch. Each certificate
// is marked once. A call marks engine.Piece at most, and returns how many, as Most does.
func (s *Store) MarkOverdue(ctx context.Context, now time.Time, kind, actor string) (int, error) {
	return s.Records().Most(ctx, engine.Piece,
		do(`INSERT INTO events(at, kind, actor, node_id, node_name, tenant, address, outcome, detail, security)
			SELECT ?, ?, ?, n.id, n.name, n.tenant, '', 'ok',
				json_object('fingerprint', c.fingerprint, 'generation', CAST(c.generation AS TEXT),
					'not_after', strftime('%Y-%m-%dT%H:%M:%SZ', c.not_after / 1000, 'unixepoch')), 0
			FROM certificates c JOIN nodes n ON n.id = c.node_id WHERE c.fingerprint IN (`+overdue+`) ORDER BY n.name`,
			millis(now), kind, actor, millis(now), int64(engine.Piece)),
		do("UPDATE certificates SET overdue_at = ? WHERE fingerprint IN ("+overdue+")", millis(now), millis(now),
			int64(engine.Piece)))
}

// HasOverdue reports whether MarkOverdue would find a certificate. It does not write, because most sweeps find none.
func (s *Store) HasOverdue(ctx context.Context, now time.Time) (bool, error) {
	rows, err := s.query(ctx, do(overdue, millis(now), int64(1)))
	return len(rows) > 0, err
}

// ExpiredNodes returns the ids of nodes that are not retired, whose current certificate has expired, and that do not have this
// reason yet; engine.Piece of them at most. It finds only certificates that MarkOverdue has marked, so that must come first.
func (s *Store) ExpiredNodes(ctx context.Context, now time.Time, reason string) ([]string, error) {
	return engine.All(ctx, s.db, (*row).Text, do(expiredNodes, millis(now), reason, int64(engine.Piece)))
}
