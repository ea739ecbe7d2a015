// Package login lets people into the console: it mints one-time codes, turns a code or an account into a session, and knows whose
// session a cookie is.
//
// A cookie and a code are random texts of 130 bits. The database has their hashes. A session ends after idleLimit without use, after
// OuterLimit in any case, by a logout, and with its account.
package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/secret"
	"muster/store"
)

const (
	codeLife   = 2 * time.Minute
	idleLimit  = 12 * time.Hour
	touchEvery = time.Minute // how exact the time of the last use is
	idLength   = 12          // of the hash's characters, which name a session; they do not help to guess the cookie
	longest    = 200         // characters of what a browser says of itself
)

// OuterLimit is how long a session lasts at most.
const OuterLimit = 7 * 24 * time.Hour

// ErrNone is for a cookie of no session, and for one of a session that has ended.
var ErrNone = errors.New("no session has this cookie")

// Service hands out sessions. It is safe for concurrent use.
type Service struct {
	store *store.Store
	now   func() time.Time
	log   *slog.Logger
}

// New makes a Service. A nil now is time.Now.
func New(s *store.Store, now func() time.Time, log *slog.Logger) *Service {
	if now == nil {
		now = time.Now
	}
	return &Service{store: s, now: now, log: log}
}

// Visitor is where a login comes from.
type Visitor struct {
	Address string
	Browser string // what it says of itself
}

// Session is a browser that is logged in.
type Session struct {
	ID        string // of this account's sessions; no secret
	Account   store.Account
	CreatedAt time.Time
	SeenAt    time.Time
	EndsAt    time.Time // however often it is used
	Visitor
}

// Mint makes a code for an account. It is shown once.
func (d *Service) Mint(ctx context.Context, a store.Account, by store.Actor) (code string, expires time.Time, err error) {
	now := d.now().UTC()
	expires = now.Add(codeLife)
	code = rand.Text()
	e := d.event("console.code", a, by)
	return code, expires, d.store.AddLoginCode(ctx, store.LoginCode{Hash: hash(code), Account: a.ID, ExpiresAt: expires}, now, e)
}

// Account returns the account whose session a code would begin. The code can still be used after that.
func (d *Service) Account(ctx context.Context, code string) (store.Account, error) {
	_, a, err := d.code(ctx, code)
	return a, err
}

func (d *Service) code(ctx context.Context, code string) (found store.LoginCode, a store.Account, err error) {
	found, err = d.store.LoginCode(ctx, hash(strings.ToUpper(strings.TrimSpace(code))), d.now())
	if err == nil {
		a, err = d.live(ctx, found.Account)
	}
	return found, a, err
}

// Redeem begins a session with a code. The code cannot be used again. The cookie is returned once.
func (d *Service) Redeem(ctx context.Context, code string, from Visitor) (cookie string, a store.Account, err error) {
	found, a, err := d.code(ctx, code)
	if err == nil {
		cookie, err = d.begin(a, from, "code", func(s store.Login, e store.Event) error {
			return d.store.RedeemLoginCode(ctx, found.Hash, s, e)
		})
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrNone) {
		return "", a, wire.Refuse(wire.CodeUnauthorized, "this code is not good, or not any more",
			"a code is good once and for two minutes: make another with muster login")
	}
	return cookie, a, err
}

// Begin begins a session of an account that has proven itself. The cookie is returned once.
func (d *Service) Begin(ctx context.Context, a store.Account, from Visitor) (cookie string, err error) {
	return d.begin(a, from, "token", func(s store.Login, e store.Event) error { return d.store.AddLogin(ctx, s, e) })
}

func (d *Service) begin(a store.Account, from Visitor, by string, add func(store.Login, store.Event) error) (string, error) {
	now := d.now().UTC()
	cookie := rand.Text()
	ends := now.Add(OuterLimit)
	if a.ExpiresAt != nil && a.ExpiresAt.Before(ends) {
		ends = *a.ExpiresAt
	}
	from.Browser = browser(from.Browser)
	e := d.event("console.login", a, store.Actor{Name: account.ActorName(a), Address: from.Address})
	e.Detail["by"] = by
	e.Detail["browser"] = from.Browser
	return cookie, add(store.Login{Hash: hash(cookie), Account: a.ID, CreatedAt: now, SeenAt: now, EndsAt: ends, Address: from.Address,
		Browser: from.Browser}, e)
}

// Session returns the session of a cookie. The error is ErrNone if the session or its account has ended.
func (d *Service) Session(ctx context.Context, cookie string) (Session, error) {
	found, err := d.store.Login(ctx, hash(cookie))
	if errors.Is(err, store.ErrNotFound) {
		return Session{}, ErrNone
	}
	if err != nil {
		return Session{}, fmt.Errorf("look up a session: %w", err)
	}
	now := d.now().UTC()
	if over(found, now) {
		return Session{}, ErrNone
	}
	a, err := d.live(ctx, found.Account)
	if err != nil {
		return Session{}, err
	}
	if now.Sub(found.SeenAt) >= touchEvery {
		if err := d.store.TouchLogin(ctx, found.Hash, now); err != nil {
			d.log.Warn("cannot note that a session was used", "account", a.Name, "error", err)
		}
	}
	return shape(found, a), nil
}

func over(s store.Login, now time.Time) bool {
	return !now.Before(s.EndsAt) || now.Sub(s.SeenAt) >= idleLimit
}

// live is an account that has not ended, or ErrNone.
func (d *Service) live(ctx context.Context, id string) (store.Account, error) {
	a, err := d.store.Account(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && account.Status(a, d.now()) != api.StatusLive {
		return a, ErrNone
	}
	return a, err
}

// Sessions lists the sessions of an account that have not ended, the newest first.
func (d *Service) Sessions(ctx context.Context, a store.Account) ([]Session, error) {
	found, err := d.store.Logins(ctx, a.ID)
	now := d.now()
	var all []Session
	for _, s := range found {
		if !over(s, now) {
			all = append(all, shape(s, a))
		}
	}
	return all, err
}

// End ends one session of an account.
func (d *Service) End(ctx context.Context, a store.Account, id, address string) error {
	if len(id) != idLength {
		return noSession()
	}
	err := d.store.EndLogin(ctx, a.ID, id, d.event("console.logout", a, store.Actor{Name: account.ActorName(a), Address: address}))
	if errors.Is(err, store.ErrNotFound) {
		return noSession()
	}
	return err
}

func noSession() error {
	return wire.Refuse(wire.CodeNotFound, "this account has no such session", "it may have ended: look at the list again")
}

func (d *Service) event(kind string, a store.Account, by store.Actor) store.Event {
	return store.Event{At: d.now().UTC(), Kind: kind, Actor: by.Name, Tenant: a.Tenant, Address: by.Address, Outcome: store.OutcomeOK,
		Security: true, Detail: map[string]string{"account": a.Name}}
}

func shape(s store.Login, a store.Account) Session {
	return Session{ID: s.Hash[:idLength], Account: a, CreatedAt: s.CreatedAt.UTC(), SeenAt: s.SeenAt.UTC(), EndsAt: s.EndsAt.UTC(),
		Visitor: Visitor{Address: s.Address, Browser: s.Browser}}
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// browser cuts what a browser says of itself to a length for lists. Others may see it, so it holds no token.
func browser(text string) string {
	text = secret.Redact(strings.ToValidUTF8(text, "?"))
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "")
	}
	return text
}
