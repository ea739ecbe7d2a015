package store

import (
	"context"
	"time"
)

// ClockStep says that the clock was set back, or that it is behind the clock by which the database was written.
type ClockStep struct {
	Now          time.Time     // by the clock after the step
	By           time.Duration // how far it went back; 0: not known
	RecoveryKind string        // the kind of the events that record an allowed recovery
}

// ahead are the columns that say when something happened. ClockSetBack corrects those that are in the future.
var ahead = [...]struct{ table, column string }{
	{"liveness", "last_seen"}, {"liveness", "reported_at"},
	{"runs", "first_at"}, {"runs", "last_at"}, {"runs", "before_at"},
	{"nodes", "created_at"}, {"nodes", "state_since"}, {"nodes", "enrolled_at"}, {"nodes", "retired_at"}, {"reasons", "since"},
	{"enrolments", "at"}, {"certificates", "first_used_at"}, {"certificates", "ended_at"},
	{"tokens", "revoked_at"}, {"bootstraps", "first_fetch_at"}, {"psks", "created_at"},
	{"accounts", "revoked_at"}, {"accounts", "last_used_at"},
	{"tasks", "created_at"}, {"tasks", "claimed_at"}, {"tasks", "delivered_at"}, {"tasks", "started_at"}, {"tasks", "finished_at"},
	{"tasks", "cancel_asked_at"}, {"lent_secrets", "created_at"}, {"lent_secrets", "changed_at"},
}

// ClockSetBack corrects the times that are later than now. A time at which something happened moves back by the step, and to now if it is
// still later. The end of a thing that lasts for some time from then on (a token, an account, a certificate, an allowed recovery) moves by
// the same amount, so that it lasts as long as before. The column set_back keeps that amount for ClockSetForward. Events stay as they were
// written, and so do the dates inside certificates.
func (s *Store) ClockSetBack(ctx context.Context, b ClockStep, events ...Event) error {
	now := millis(b.Now)
	by := max(b.By, 0).Milliseconds()
	statements := []statement{
		do(`UPDATE nodes SET recovery_until = recovery_until - max(?, (SELECT max(at) FROM events WHERE node_id = nodes.id
			AND kind = ?) - ?)
			WHERE recovery_until > ? AND id IN (SELECT node_id FROM events WHERE at > ? AND kind = ?)`,
			by, b.RecoveryKind, now, now, now, b.RecoveryKind),
		do("UPDATE certificates SET overdue_at = NULL WHERE overdue_at > ?", now),
		do(`UPDATE certificates SET set_back = set_back + max(?, issued_at - ?),
			not_after = not_after - max(?, issued_at - ?),
			issued_at = min(issued_at - ?, ?) WHERE issued_at > ?`, by, now, by, now, by, now, now),
		do(`UPDATE tokens SET set_back = set_back + max(?, created_at - ?), expires_at = expires_at - max(?, created_at - ?),
			created_at = min(created_at - ?, ?) WHERE created_at > ?`, by, now, by, now, by, now, now),
		do(`UPDATE accounts SET set_back = set_back + max(?, created_at - ?), expires_at = expires_at - max(?, created_at - ?),
			created_at = min(created_at - ?, ?) WHERE created_at > ?`, by, now, by, now, by, now, now),
		do(`UPDATE meta SET value = CAST(CAST(value AS INTEGER) - ? AS TEXT) WHERE key = ? AND CAST(value AS INTEGER) > ?
			AND (SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?) > ?`, by, MetaAdoptUntil, now, MetaRestoredAt, now),
		do(`UPDATE meta SET value = CAST(min(CAST(value AS INTEGER) - ?, ?) AS TEXT)
			WHERE (key = ? OR key = ?) AND CAST(value AS INTEGER) > ?`, by, now, MetaAliveAt, MetaBackupAt, now),
	}
	for _, a := range ahead {
		update := "UPDATE " + a.table + " SET " + a.column + " = min(" + a.column + " - ?, ?) WHERE " + a.column + " > ?"
		statements = append(statements, do(update, by, now, now))
	}
	return s.change(ctx, statements, events)
}

// ClockSetForward corrects times after the clock was set forward. The earlier step back may have been the mistake. So ClockSetForward moves
// the ends that ClockSetBack moved by the step, but never beyond their first value. It writes nothing if there is no such end and no event.
func (s *Store) ClockSetForward(ctx context.Context, by time.Duration, events ...Event) error {
	var statements []statement
	if by > 0 {
		found, err := s.db.Query(ctx, do(`SELECT 1 WHERE EXISTS(SELECT 1 FROM certificates WHERE set_back > 0)
			OR EXISTS(SELECT 1 FROM tokens WHERE set_back > 0) OR EXISTS(SELECT 1 FROM accounts WHERE set_back > 0)`))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			statements = setForward(by.Milliseconds())
		}
	}
	return s.change(ctx, statements, events)
}

func setForward(by int64) []statement {
	return []statement{
		do(`UPDATE certificates SET not_after = not_after + min(set_back, ?), issued_at = issued_at + min(set_back, ?), overdue_at = NULL,
			set_back = set_back - min(set_back, ?) WHERE set_back > 0`, by, by, by),
		do(`UPDATE tokens SET expires_at = expires_at + min(set_back, ?), created_at = created_at + min(set_back, ?),
			set_back = set_back - min(set_back, ?) WHERE set_back > 0`, by, by, by),
		do(`UPDATE accounts SET expires_at = expires_at + min(set_back, ?), created_at = created_at + min(set_back, ?),
			set_back = set_back - min(set_back, ?) WHERE set_back > 0`, by, by, by),
	}
}

// ClockAhead reports whether a node was heard, or a token made, later than now. The clock was ahead then.
func (s *Store) ClockAhead(ctx context.Context, now time.Time) (bool, error) {
	return first(ctx, s, (*row).Flag, do(`SELECT EXISTS(SELECT 1 FROM tokens WHERE created_at > ?)
		OR EXISTS(SELECT 1 FROM liveness WHERE last_seen > ?)`,
		millis(now), millis(now)))
}
