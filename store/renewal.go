package store

import (
	"context"
	"time"
)

// sweepLimit bounds what one write or one answer of a sweep holds.
const sweepLimit = 500

// dueRenewals picks current certificates of live nodes that are past two thirds and a twentieth of their life, 43/60, and were not
// marked yet. The fraction stands in an index too. A test of package fleet holds it to the times of agent/wire. The parameters are a
// time and a limit.
const dueRenewals = `SELECT c.fingerprint FROM certificates c JOIN nodes n ON n.id = c.node_id
	WHERE c.status = 'current' AND c.overdue_at IS NULL AND c.issued_at + (c.not_after - c.issued_at) * 43 / 60 < ?
		AND n.retired_at IS NULL
	ORDER BY c.issued_at + (c.not_after - c.issued_at) * 43 / 60, c.fingerprint LIMIT ?`

const expiredNodes = `SELECT n.id FROM certificates c JOIN nodes n ON n.id = c.node_id
	WHERE c.status = 'current' AND c.overdue_at IS NOT NULL AND c.not_after < ? AND n.retired_at IS NULL
		AND NOT EXISTS(SELECT 1 FROM reasons WHERE node_id = n.id AND reason = ?)
	ORDER BY c.not_after, n.id LIMIT ?`

// MarkOverdue marks the certificates whose renewal is overdue and logs an event of this kind for each, in one batch. Each is marked
// once; a call handles a few hundred, and reports how many.
func (s *Store) MarkOverdue(ctx context.Context, now time.Time, kind, actor string) (int, error) {
	results, err := s.batch(ctx, []statement{
		do(`INSERT INTO events(at, kind, actor, node_id, node_name, tenant, address, outcome, detail, security)
			SELECT ?, ?, ?, n.id, n.name, n.tenant, '', 'ok',
				json_object('fingerprint', c.fingerprint, 'generation', CAST(c.generation AS TEXT),
					'not_after', strftime('%Y-%m-%dT%H:%M:%SZ', c.not_after / 1000, 'unixepoch')), 0
			FROM certificates c JOIN nodes n ON n.id = c.node_id WHERE c.fingerprint IN (`+dueRenewals+`) ORDER BY n.name`,
			millis(now), kind, actor, millis(now), int64(sweepLimit)),
		do("UPDATE certificates SET overdue_at = ? WHERE fingerprint IN ("+dueRenewals+")", millis(now), millis(now), int64(sweepLimit)),
	})
	if err != nil {
		return 0, err
	}
	return int(results[1].Affected), nil
}

// OverdueExists reports whether MarkOverdue would find one, without writing.
func (s *Store) OverdueExists(ctx context.Context, now time.Time) (bool, error) {
	rows, err := s.query(ctx, do(dueRenewals, millis(now), int64(1)))
	return len(rows) > 0, err
}

// ExpiredNodes returns the ids of live nodes whose current certificate has expired and that do not have this reason yet, a few
// hundred at most. Only certificates that were marked as overdue are looked at: that comes first.
func (s *Store) ExpiredNodes(ctx context.Context, now time.Time, reason string) ([]string, error) {
	return all(ctx, s, func(r *row) string { return r.text() }, do(expiredNodes, millis(now), reason, int64(sweepLimit)))
}

// Certificates returns those of a node's present enrolment that could still matter, newest first: what is current or pending, and
// the latest of the others.
func (s *Store) Certificates(ctx context.Context, nodeID string) ([]Certificate, error) {
	return all(ctx, s, readCertificate, do("SELECT "+certificateColumns+` FROM certificates c JOIN nodes n ON n.id = c.node_id
		WHERE n.id = ? AND c.enrolment_id = n.enrolment_id ORDER BY c.generation DESC, c.issued_at DESC, c.fingerprint LIMIT 8`, nodeID))
}
