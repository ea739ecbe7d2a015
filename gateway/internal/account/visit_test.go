package account_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/reply"
	"muster/store"
)

// TestWithin: a gate for calls from within takes the account of the context, and nothing that a request says. Every other gate takes no
// account of a context.
func TestWithin(t *testing.T) {
	s := kit.Store(t, nil)
	a := store.Account{Name: "alice", Tenant: "platform", Scopes: []string{api.ScopeNodesRead}, CreatedAt: time.Now()}
	token, err := account.Mint(&a, nil)
	if err == nil {
		err = s.CreateAccount(t.Context(), a)
	}
	if err != nil {
		t.Fatal(err)
	}
	gate := func(within bool) *account.Gate {
		return account.NewGate(account.Config{Store: s, Info: &reply.Info{}, Audit: audit.New(audit.Config{Store: s}),
			PSKs: bootstrap.New(bootstrap.Config{Store: s}), Address: new(origin.Resolver).Address, Within: within})
	}
	ask := func(g *account.Gate, ctx context.Context, bearer string) (account.Caller, error) {
		r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/admin/nodes", nil)
		if bearer != "" {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		return g.Admit(r, account.Need{Scopes: []string{api.ScopeNodesRead}, Reach: account.OwnTenant})
	}
	entered := account.Enter(t.Context(), account.Visit{AccountID: a.ID, Address: "192.0.2.1 (console)"})
	who, err := ask(gate(true), entered, "")
	if err != nil || who.Actor.Name != "account:alice" || who.Tenant != "platform" || who.Actor.Address != "192.0.2.1 (console)" ||
		!who.May(api.ScopeNodesRead) || who.May(api.ScopeTokensRead) {
		t.Errorf("got %+v, %v", who, err)
	}
	if of := account.Of(a); of.Tenant != who.Tenant || !of.May(api.ScopeNodesRead) || of.May(api.ScopeTokensRead) {
		t.Errorf("got %+v", of)
	}
	for what, err := range map[string]error{
		"nobody, within":                       second(ask(gate(true), t.Context(), "")),
		"a token, within":                      second(ask(gate(true), t.Context(), token.Reveal())),
		"an account of the context, elsewhere": second(ask(gate(false), entered, "")),
		"an unknown account":                   second(ask(gate(true), account.Enter(t.Context(), account.Visit{AccountID: "msa_none"}), "")),
	} {
		if err == nil {
			t.Errorf("%s: is let in", what)
		}
	}
	if err := s.RevokeAccount(t.Context(), "", a.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(gate(true), entered, ""); err == nil {
		t.Error("an account that was revoked is let in")
	}
}

func second(_ account.Caller, err error) error { return err }
