// Package setback corrects the times in the database after the clock was set.
package setback

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Records is the database, for its times.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

// Step says that the clock was set back, or that it is behind the clock by which the database was written.
type Step struct {
	Now          time.Time     // by the clock after the step
	By           time.Duration // how far it went back; 0: not known
	RecoveryKind string        // the kind of the events that record an allowed recovery
}

// ahead are the columns that say when something happened. SetBack corrects those that are in the future.
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

// SetBack corrects the times that are later than now. A time at which something happened moves back by the step, and to now if it is
// still later. What lasts for some time from then on (a token, an account, a certificate, an allowed recovery) lasts as long as
// before: its end moves by the same amount. The column set_back keeps that amount for SetForward. Events stay as they were written,
// and so do the dates inside certificates.
func (r Records) SetBack(ctx context.Context, b Step, events ...store.Event) error {
	now := engine.Millis(b.Now)
	by := max(b.By, 0).Milliseconds()
	statements := []engine.Statement{
		engine.Do(`UPDATE nodes SET recovery_until = recovery_until - max(?, (SELECT max(at) FROM events WHERE node_id = nodes.id
			AND kind = ?) - ?)
			WHERE recovery_until > ? AND id IN (SELECT node_id FROM events WHERE at > ? AND kind = ?)`,
			by, b.RecoveryKind, now, now, now, b.RecoveryKind),
		engine.Do("UPDATE certificates SET overdue_at = NULL WHERE overdue_at > ?", now),
		engine.Do(`UPDATE certificates SET set_back = set_back + max(?, issued_at - ?), not_after = not_after - max(?, issued_at - ?),
			issued_at = min(issued_at - ?, ?) WHERE issued_at > ?`, by, now, by, now, by, now, now),
		engine.Do(`UPDATE bootstraps SET outer_at = outer_at - max(?, (SELECT created_at FROM tokens WHERE id = token) - ?)
			WHERE token IN (SELECT id FROM tokens WHERE created_at > ?)`, by, now, now),
		engine.Do(`UPDATE tokens SET set_back = set_back + max(?, created_at - ?), expires_at = expires_at - max(?, created_at - ?),
			created_at = min(created_at - ?, ?) WHERE created_at > ?`, by, now, by, now, by, now, now),
		engine.Do(`UPDATE accounts SET set_back = set_back + max(?, created_at - ?), expires_at = expires_at - max(?, created_at - ?),
			created_at = min(created_at - ?, ?) WHERE created_at > ?`, by, now, by, now, by, now, now),
		engine.Do(`UPDATE meta SET value = CAST(CAST(value AS INTEGER) - ? AS TEXT) WHERE key = ? AND CAST(value AS INTEGER) > ?
			AND (SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?) > ?`, by, store.MetaAdoptUntil, now, store.MetaRestoredAt, now),
		engine.Do(`UPDATE meta SET value = CAST(min(CAST(value AS INTEGER) - ?, ?) AS TEXT)
			WHERE (key = ? OR key = ?) AND CAST(value AS INTEGER) > ?`, by, now, store.MetaAliveAt, store.MetaBackupAt, now),
	}
	for _, a := range ahead {
		update := "UPDATE " + a.table + " SET " + a.column + " = min(" + a.column + " - ?, ?) WHERE " + a.column + " > ?"
		statements = append(statements, engine.Do(update, by, now, now))
	}
	return r.db.Change(ctx, statements, events...)
}

// SetForward corrects times after the clock was set forward. The earlier step back may have been the mistake, and not the time
// before it. So SetForward moves the ends that SetBack moved by the step, but never beyond their first value. It writes nothing if
// there is no such end and no event.
func (r Records) SetForward(ctx context.Context, by time.Duration, events ...store.Event) error {
	var statements []engine.Statement
	if by > 0 {
		found, err := r.db.Query(ctx, engine.Do(`SELECT 1 WHERE EXISTS(SELECT 1 FROM certificates WHERE set_back > 0)
			OR EXISTS(SELECT 1 FROM tokens WHERE set_back > 0) OR EXISTS(SELECT 1 FROM accounts WHERE set_back > 0)`))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			statements = setForward(by.Milliseconds())
		}
	}
	return r.db.Change(ctx, statements, events...)
}

func setForward(by int64) []engine.Statement {
	return []engine.Statement{
		engine.Do(`UPDATE bootstraps SET outer_at = outer_at + (SELECT min(set_back, ?) FROM tokens WHERE id = token)
			WHERE token IN (SELECT id FROM tokens WHERE set_back > 0)`, by),
		engine.Do(`UPDATE certificates SET not_after = not_after + min(set_back, ?), issued_at = issued_at + min(set_back, ?), overdue_at = NULL,
			set_back = set_back - min(set_back, ?) WHERE set_back > 0`, by, by, by),
		engine.Do(`UPDATE tokens SET expires_at = expires_at + min(set_back, ?), created_at = created_at + min(set_back, ?),
			set_back = set_back - min(set_back, ?) WHERE set_back > 0`, by, by, by),
		engine.Do(`UPDATE accounts SET expires_at = expires_at + min(set_back, ?), created_at = created_at + min(set_back, ?),
			set_back = set_back - min(set_back, ?) WHERE set_back > 0`, by, by, by),
	}
}

// Ahead is true if a node was heard or a token made later than now. The clock was ahead then.
func (r Records) Ahead(ctx context.Context, now time.Time) (bool, error) {
	rows, err := r.db.Query(ctx, engine.Do(`SELECT EXISTS(SELECT 1 FROM tokens WHERE created_at > ?)
		OR EXISTS(SELECT 1 FROM liveness WHERE last_seen > ?)`,
		engine.Millis(now), engine.Millis(now)))
	if err != nil {
		return false, err
	}
	row := engine.Row{Values: rows[0]}
	return row.Flag(), row.Err
}
