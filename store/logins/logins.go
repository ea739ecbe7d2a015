// Package logins keeps the records of browsers that are logged in to the console, and of the one-time codes that log them in.
//
// Cookies and codes are secrets. The records have their hashes alone. The conditions of every write stand in its SQL.
package logins

import (
	"context"
	"errors"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Session is a browser that is logged in.
type Session struct {
	Hash      string // of its cookie
	Account   string // id
	CreatedAt time.Time
	SeenAt    time.Time
	EndsAt    time.Time // however often it is used
	Address   string
	Browser   string // what it says of itself
}

// Code logs a browser in once.
type Code struct {
	Hash      string
	Account   string // id
	ExpiresAt time.Time
}

// Records is the database, for logins. Its methods may be called from any number of goroutines.
type Records struct{ db store.Records }

// On gives the records in a database.
func On(db store.Records) Records { return Records{db} }

const sessionColumns = "hash, account, created_at, seen_at, ends_at, address, browser"

func readSession(r *engine.Row) Session {
	s := Session{Hash: r.Text(), Account: r.Text(), CreatedAt: r.Time(), SeenAt: r.Time(), EndsAt: r.Time()}
	s.Address = r.Text()
	s.Browser = r.Text()
	return s
}

func insertSession(s Session) engine.Statement {
	return engine.Do("INSERT INTO sessions("+sessionColumns+") VALUES (?, ?, ?, ?, ?, ?, ?)", s.Hash, s.Account,
		engine.Millis(s.CreatedAt), engine.Millis(s.SeenAt), engine.Millis(s.EndsAt), s.Address, s.Browser)
}

// sweep removes the sessions and the codes that have ended.
func sweep(now time.Time) []engine.Statement {
	return []engine.Statement{
		engine.Do("DELETE FROM sessions WHERE ends_at <= ?", engine.Millis(now)),
		engine.Do("DELETE FROM login_codes WHERE expires_at <= ?", engine.Millis(now)),
	}
}

// Most sessions and codes of an account: a program that logs in again and again must not fill the database. The oldest go.
const (
	MostSessions = 100
	MostCodes    = 20
)

// trimSessions makes room for a new one, which stays whatever the clock says.
func trimSessions(s Session) engine.Statement {
	return engine.Do("DELETE FROM sessions WHERE account = ? AND hash NOT IN (SELECT hash FROM sessions WHERE account = ? "+
		"ORDER BY hash = ? DESC, seen_at DESC LIMIT ?)", s.Account, s.Account, s.Hash, int64(MostSessions))
}

func trimCodes(c Code) engine.Statement {
	return engine.Do("DELETE FROM login_codes WHERE account = ? AND hash NOT IN (SELECT hash FROM login_codes WHERE account = ? "+
		"ORDER BY hash = ? DESC, expires_at DESC LIMIT ?)", c.Account, c.Account, c.Hash, int64(MostCodes))
}

// AddCode stores a code, and removes what has ended.
func (r Records) AddCode(ctx context.Context, c Code, now time.Time, events ...store.Event) error {
	return r.db.Change(ctx, append(sweep(now), engine.Do("INSERT INTO login_codes(hash, account, expires_at) VALUES (?, ?, ?)", c.Hash,
		c.Account, engine.Millis(c.ExpiresAt)), trimCodes(c)), events...)
}

// Code returns a code that is good at this time. ErrNotFound if there is none.
func (r Records) Code(ctx context.Context, hash string, now time.Time) (Code, error) {
	return engine.First(ctx, r.db, store.ErrNotFound, func(r *engine.Row) Code {
		return Code{Hash: r.Text(), Account: r.Text(), ExpiresAt: r.Time()}
	}, engine.Do("SELECT hash, account, expires_at FROM login_codes WHERE hash = ? AND expires_at > ?", hash, engine.Millis(now)))
}

// Redeem ends a code and begins a session of its account. ErrNotFound if the code is not good any more: of several callers at once one
// succeeds.
func (r Records) Redeem(ctx context.Context, code string, s Session, events ...store.Event) error {
	return notFound(r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM login_codes WHERE hash = ? AND account = ? AND expires_at > ?)", code, s.Account,
			engine.Millis(s.CreatedAt)),
		engine.Do("DELETE FROM login_codes WHERE hash = ?", code),
		insertSession(s),
		trimSessions(s),
	}, events...))
}

// AddSession begins a session, and removes what has ended.
func (r Records) AddSession(ctx context.Context, s Session, events ...store.Event) error {
	return r.db.Change(ctx, append(sweep(s.CreatedAt), insertSession(s), trimSessions(s)), events...)
}

// Session returns one by its cookie's hash, also one that has ended. ErrNotFound if there is none.
func (r Records) Session(ctx context.Context, hash string) (Session, error) {
	return engine.First(ctx, r.db, store.ErrNotFound, readSession,
		engine.Do("SELECT "+sessionColumns+" FROM sessions WHERE hash = ?", hash))
}

// Sessions returns the sessions of an account, the newest first.
func (r Records) Sessions(ctx context.Context, account string) ([]Session, error) {
	return engine.All(ctx, r.db, readSession,
		engine.Do("SELECT "+sessionColumns+" FROM sessions WHERE account = ? ORDER BY created_at DESC, hash", account))
}

// Touch notes that a session was used. An older time changes nothing.
func (r Records) Touch(ctx context.Context, hash string, at time.Time) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do("UPDATE sessions SET seen_at = ? WHERE hash = ? AND seen_at < ?", engine.Millis(at), hash, engine.Millis(at)),
	})
}

// End ends the session of an account whose hash begins so. ErrNotFound if the account has no such session.
func (r Records) End(ctx context.Context, account, prefix string, events ...store.Event) error {
	const which = "account = ? AND substr(hash, 1, length(?)) = ?"
	return notFound(r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM sessions WHERE "+which+")", account, prefix, prefix),
		engine.Do("DELETE FROM sessions WHERE "+which, account, prefix, prefix),
	}, events...))
}

// notFound is what a guard's ErrConflict means here.
func notFound(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return store.ErrNotFound
	}
	return err
}
