package store

import (
	"context"
	"time"

	"muster/store/engine"
)

// Login is a browser that is logged in to the console. Cookies and codes are secrets: the database has their hashes alone.
type Login struct {
	Hash      string    `sql:"hash"`    // of its cookie
	Account   string    `sql:"account"` // id
	CreatedAt time.Time `sql:"created_at"`
	SeenAt    time.Time `sql:"seen_at"`
	EndsAt    time.Time `sql:"ends_at"` // however often it is used
	Address   string    `sql:"address"`
	Browser   string    `sql:"browser"` // what it says of itself
}

// LoginCode logs a browser in once.
type LoginCode struct {
	Hash      string    `sql:"hash"`
	Account   string    `sql:"account"` // id
	ExpiresAt time.Time `sql:"expires_at"`
}

var (
	logins     = engine.NewTable[Login]("sessions", "", "")
	loginCodes = engine.NewTable[LoginCode]("login_codes", "", "")
)

// sweepLogins removes the logins and the codes that have ended.
func sweepLogins(now time.Time) []statement {
	return []statement{
		do("DELETE FROM sessions WHERE ends_at <= ?", millis(now)),
		do("DELETE FROM login_codes WHERE expires_at <= ?", millis(now)),
	}
}

// Most logins and codes of an account: a program that logs in again and again must not fill the database. The oldest go.
const (
	MostLogins     = 100
	MostLoginCodes = 20
)

// trimLogins makes room for a new one, which stays whatever the clock says.
func trimLogins(l Login) statement {
	return do("DELETE FROM sessions WHERE account = ? AND hash NOT IN (SELECT hash FROM sessions WHERE account = ? "+
		"ORDER BY hash = ? DESC, seen_at DESC LIMIT ?)", l.Account, l.Account, l.Hash, int64(MostLogins))
}

// AddLoginCode stores a code, and removes the codes that have ended.
func (s *Store) AddLoginCode(ctx context.Context, c LoginCode, now time.Time, events ...Event) error {
	trim := do("DELETE FROM login_codes WHERE account = ? AND hash NOT IN (SELECT hash FROM login_codes WHERE account = ? "+
		"ORDER BY hash = ? DESC, expires_at DESC LIMIT ?)", c.Account, c.Account, c.Hash, int64(MostLoginCodes))
	return s.change(ctx, append(sweepLogins(now), loginCodes.Insert(c, ""), trim), events)
}

// LoginCode returns a code that is good at this time. ErrNotFound if there is none.
func (s *Store) LoginCode(ctx context.Context, hash string, now time.Time) (LoginCode, error) {
	return loginCodes.First(ctx, s.db, "WHERE hash = ? AND expires_at > ?", hash, millis(now))
}

// RedeemLoginCode ends a code and begins a login of its account. ErrNotFound if the code is not good any more: of several callers at once
// one succeeds.
func (s *Store) RedeemLoginCode(ctx context.Context, code string, l Login, events ...Event) error {
	return engine.NotFound(s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM login_codes WHERE hash = ? AND account = ? AND expires_at > ?)", code, l.Account, millis(l.CreatedAt)),
		do("DELETE FROM login_codes WHERE hash = ?", code),
		logins.Insert(l, ""),
		trimLogins(l),
	}, events))
}

// AddLogin begins a login, and removes the logins that have ended.
func (s *Store) AddLogin(ctx context.Context, l Login, events ...Event) error {
	return s.change(ctx, append(sweepLogins(l.CreatedAt), logins.Insert(l, ""), trimLogins(l)), events)
}

// Login returns a login by its cookie's hash, also one that has ended. ErrNotFound if there is none.
func (s *Store) Login(ctx context.Context, hash string) (Login, error) {
	return logins.First(ctx, s.db, "WHERE hash = ?", hash)
}

// Logins returns the logins of an account, the newest first.
func (s *Store) Logins(ctx context.Context, account string) ([]Login, error) {
	return logins.All(ctx, s.db, "WHERE account = ? ORDER BY created_at DESC, hash", account)
}

// TouchLogin notes that a login was used. An older time changes nothing.
func (s *Store) TouchLogin(ctx context.Context, hash string, at time.Time) error {
	return s.change(ctx, []statement{
		do("UPDATE sessions SET seen_at = ? WHERE hash = ? AND seen_at < ?", millis(at), hash, millis(at)),
	}, nil)
}

// EndLogin ends the login of an account whose hash begins with prefix. ErrNotFound if the account has no such login.
func (s *Store) EndLogin(ctx context.Context, account, prefix string, events ...Event) error {
	its := engine.In("sessions", "account = ? AND substr(hash, 1, length(?)) = ?", account, prefix, prefix)
	return engine.NotFound(s.change(ctx, its.Delete(), events))
}
