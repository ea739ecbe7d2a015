package store

import (
	"context"
	"time"
)

// Move changes a node's state, its reasons, or both.
type Move struct {
	NodeID             string
	From, To           string // equal: the state stays
	At                 time.Time
	AddReasons         []Reason // a zero Since means At
	RemoveReasons      []string
	ClearReasons       bool // remove all reasons, before AddReasons
	RevokeCertificates bool
	KeepCertificate    string     // a fingerprint of the present enrolment: all others end, and the runs heard so far are forgotten
	RecoveryUntil      *time.Time // nil: stays as it is
	Ban                bool       // with To retired: the name stays taken, and the tokens bound to the node are revoked
	Unheld             bool       // only if no allocation has a part of it
	RevokeTokens       bool       // those bound to the node
	Events             []Event
}

// MoveNode writes a move in one batch. ErrConflict if the node is not in From any more, if another node has the name of a node that
// is to be banned, if KeepCertificate does not belong to the present enrolment, or if an allocation has a part of a node that is to be
// Unheld.
func (s *Store) MoveNode(ctx context.Context, m Move) error {
	statements := []statement{
		guard(`EXISTS(SELECT 1 FROM nodes WHERE id = ? AND state = ?)
			AND NOT (? AND EXISTS(SELECT 1 FROM holds WHERE node_id = ? AND freed_at IS NULL))`, m.NodeID, m.From, flag(m.Unheld), m.NodeID),
		m.update(),
	}
	statements = append(statements, m.reasons()...)
	if m.RevokeCertificates {
		statements = append(statements, revokeCertificates(m.NodeID, m.At))
	}
	if m.RevokeCertificates || m.Ban || m.To == StateRetired {
		statements = append(statements, endTasks(m.NodeID, m.At, "its node was retired, or its certificates were revoked")...)
	}
	if m.Ban || m.To == StateRetired { // else its pin would hold a release for ever
		statements = append(statements, do("DELETE FROM pins WHERE node_id = ?", m.NodeID))
	}
	statements = append(statements, m.keep()...)
	if m.Ban || m.RevokeTokens {
		statements = append(statements,
			do("UPDATE tokens SET revoked_at = ? WHERE node_id = ? AND node_id <> '' AND revoked_at IS NULL", millis(m.At), m.NodeID))
	}
	return s.change(ctx, statements, m.Events)
}

// keep makes one certificate the only good one. It revokes the others first, because an index allows one current certificate for a
// node.
func (m Move) keep() []statement {
	var statements []statement
	if m.KeepCertificate != "" {
		statements = append(statements,
			guard(`EXISTS(SELECT 1 FROM certificates c JOIN nodes n ON n.id = c.node_id
				WHERE c.fingerprint = ? AND n.id = ? AND c.enrolment_id = n.enrolment_id)`, m.KeepCertificate, m.NodeID),
			do(`UPDATE certificates SET status = 'revoked', ended_at = COALESCE(ended_at, ?)
				WHERE node_id = ? AND fingerprint <> ? AND status <> 'revoked'`, millis(m.At), m.NodeID, m.KeepCertificate),
			do("UPDATE certificates SET status = 'current', ended_at = NULL, first_used_at = COALESCE(first_used_at, ?) "+
				"WHERE fingerprint = ?",
				millis(m.At), m.KeepCertificate),
			do("UPDATE liveness SET run_id = '', counter = 0 WHERE node_id = ?", m.NodeID),
			forgetRuns(m.NodeID))
		statements = append(statements, loseClaims(m.NodeID, m.KeepCertificate, m.At, "another certificate of its node had claimed it")...)
	}
	if m.RecoveryUntil != nil {
		statements = append(statements, do("UPDATE nodes SET recovery_until = ? WHERE id = ?", millis(*m.RecoveryUntil), m.NodeID))
	}
	return statements
}

// update sets the state. The index nodes_held_name covers nodes that are not retired or are banned. So retiring a node frees its
// name, and banning keeps it taken.
func (m Move) update() statement {
	retired := flag(m.To == StateRetired)
	return do(`UPDATE nodes SET state_since = CASE WHEN state = ? THEN state_since ELSE ? END, state = ?,
			retired_at = CASE WHEN ? THEN COALESCE(retired_at, ?) END, banned = max(banned, ?),
			recovery_until = CASE WHEN ? THEN NULL ELSE recovery_until END
		WHERE id = ?`, m.To, millis(m.At), m.To, retired, millis(m.At), flag(m.Ban), retired, m.NodeID)
}

// reasons removes and adds reasons. A reason that the node has already keeps its Since, and stays a person's if it is one.
func (m Move) reasons() []statement {
	var statements []statement
	if m.ClearReasons {
		statements = append(statements, do("DELETE FROM reasons WHERE node_id = ?", m.NodeID))
	}
	for _, reason := range m.RemoveReasons {
		statements = append(statements, do("DELETE FROM reasons WHERE node_id = ? AND reason = ?", m.NodeID, reason))
	}
	for _, r := range m.AddReasons {
		since := r.Since
		if since.IsZero() {
			since = m.At
		}
		statements = append(statements, do(`INSERT INTO reasons(node_id, reason, person, since, detail) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET person = max(person, excluded.person)`, m.NodeID, r.Reason, flag(r.Person), millis(since), r.Detail))
	}
	return statements
}
