package account_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/reply"
	"muster/store"
)

// fixture is a gate with a database of accounts behind it.
type fixture struct {
	t     testing.TB
	now   time.Time
	store *store.Store
	trail *audit.Trail
	psks  *bootstrap.Bootstrap
	gate  *account.Gate
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	d := &fixture{t: t, now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
	d.store = kit.Store(t, d.clock)
	d.trail = audit.New(audit.Config{Store: d.store, Now: d.clock, Logger: d.quiet()})
	d.psks = bootstrap.New(bootstrap.Config{Store: d.store, Now: d.clock, Audit: d.trail, Logger: d.quiet()})
	d.gate = d.open(false)
	return d
}

func (d *fixture) clock() time.Time { return d.now }

func (d *fixture) quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// open makes a gate that has refused nobody yet.
func (d *fixture) open(socket bool) *account.Gate {
	return account.NewGate(account.Config{Store: d.store, Info: &reply.Info{Now: d.clock, Logger: d.quiet()}, Audit: d.trail, PSKs: d.psks,
		Address: new(origin.Resolver).Address, Socket: socket, Now: d.clock, Logger: d.quiet()})
}

// account makes an account and gives its API token.
func (d *fixture) account(a store.Account) string {
	d.t.Helper()
	a.CreatedAt = d.now
	token, err := account.Mint(&a, nil)
	if err == nil {
		err = d.store.CreateAccount(d.t.Context(), a)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return token.Reveal()
}

// request is a call of a path, with what stands in its Authorization headers.
func request(method, path string, authorization ...string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.Header["Authorization"] = authorization
	return r
}

// call passes a request through the gate to a route that answers with the actor's name, or refuses with an error.
func (d *fixture) call(r *http.Request, need account.Need, refuses error) (*httptest.ResponseRecorder, string) {
	d.t.Helper()
	w := httptest.NewRecorder()
	who, err := d.gate.Admit(r, need)
	if err == nil {
		err = refuses
	}
	if err != nil {
		d.gate.Refuse(w, r, who, need, err)
	} else {
		reply.Write(w, http.StatusOK, reply.JSON(who.Actor.Name))
	}
	var refused wire.Error
	_ = json.Unmarshal(w.Body.Bytes(), &refused)
	return w, refused.Error.Code
}

// look is a call that reads, with one API token.
func (d *fixture) look(token string, need account.Need) (*httptest.ResponseRecorder, string) {
	d.t.Helper()
	return d.call(request("GET", "/things", "Bearer "+token), need, nil)
}

func (d *fixture) refusals() []store.Event {
	d.t.Helper()
	events, err := d.store.Events(d.t.Context(), store.EventQuery{Kind: "admin.refused"})
	if err != nil {
		d.t.Fatal(err)
	}
	return events
}

// bootstrapToken is one that is on record for the node gpu-7.
func (d *fixture) bootstrapToken() sign.Token {
	d.t.Helper()
	token, err := sign.NewToken(sign.BootstrapToken, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	key, err := sign.EnrollKey(token.Secret)
	err = errors.Join(err, d.store.CreateNode(d.t.Context(),
		store.Node{ID: "n-7", Name: "gpu-7", Tenant: "platform", CreatedAt: d.now, StateSince: d.now}, nil))
	err = errors.Join(err, d.store.CreateToken(d.t.Context(),
		store.Token{ID: token.Public(), Tenant: "platform", NodeID: "n-7", Key: key, Uses: 1,
			CreatedAt: d.now, ExpiresAt: d.now.Add(time.Hour)}))
	if err != nil {
		d.t.Fatal(err)
	}
	return token
}

func all(scopes ...string) account.Need {
	return account.Need{Scopes: scopes, Reach: account.WholeFleet}
}

func own(scopes ...string) account.Need {
	return account.Need{Scopes: scopes, Reach: account.OwnTenant}
}

// everything are the scopes of an account that may do everything.
func everything() []string { return []string{api.ScopeAll} }
