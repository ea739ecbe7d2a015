package account_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/store"
)

// TestMake: nobody makes an account that may more, or lives longer, than their own.
func TestMake(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	soon := now.Add(time.Hour)
	operator := account.Caller{Actor: store.Actor{Name: "operator:socket"}, Scopes: everything()}
	ci := account.Caller{Actor: store.Actor{Name: "account:ci"}, Account: store.Account{ID: "msa_ci", ExpiresAt: &soon}, Tenant: "platform",
		Scopes: []string{api.ScopeAccountsWrite, api.ScopeNodesRead, api.ScopeTokensRead, api.ScopeEventsRead}}
	for _, c := range []struct {
		name         string
		who          account.Caller
		q            api.AccountRequest
		code         string // of the refusal; empty: it is made, with what follows
		scopes, tent string
		until        time.Duration // 0: for ever
	}{
		{"the usual", operator, api.AccountRequest{Name: "a"}, "", "events:read nodes:read tokens:read", "", 0},
		{"everything", operator, api.AccountRequest{Name: "a", Scopes: []string{"*"}}, "", "*", "", 0},
		{"one scope, twice", operator, api.AccountRequest{Name: "a", Scopes: []string{"psk:write", "psk:write"}}, "", "psk:write", "", 0},
		{"of a tenant", operator, api.AccountRequest{Name: "a", Tenant: "research"}, "", "events:read nodes:read tokens:read", "research", 0},
		{"for a day", operator, api.AccountRequest{Name: "a", TTL: day}, "", "events:read nodes:read tokens:read", "", 24 * time.Hour},
		{"of one with an end", ci, api.AccountRequest{Name: "a"}, "", "events:read nodes:read tokens:read", "platform", time.Hour},
		{"of one with an end, shorter", ci, api.AccountRequest{Name: "a", TTL: minute}, "", "events:read nodes:read tokens:read", "platform",
			time.Minute},
		{"no name", operator, api.AccountRequest{}, wire.CodeBadName, "", "", 0},
		{"a token's name", operator, api.AccountRequest{Name: "msa_ab12"}, wire.CodeBadName, "", "", 0},
		{"a bad tenant", operator, api.AccountRequest{Name: "a", Tenant: "a b"}, wire.CodeBadRequest, "", "", 0},
		{"an unknown scope", operator, api.AccountRequest{Name: "a", Scopes: []string{"nodes:fly"}}, wire.CodeBadRequest, "", "", 0},
		{"for a moment", operator, api.AccountRequest{Name: "a", TTL: minute - 1}, wire.CodeBadRequest, "", "", 0},
		{"for less than nothing", operator, api.AccountRequest{Name: "a", TTL: -1}, wire.CodeBadRequest, "", "", 0},
		{"of another tenant", ci, api.AccountRequest{Name: "a", Tenant: "research"}, wire.CodeForbidden, "", "", 0},
		{"with more scopes", ci, api.AccountRequest{Name: "a", Scopes: []string{api.ScopeNodesWrite}}, wire.CodeForbidden, "", "", 0},
		{"with all scopes", ci, api.AccountRequest{Name: "a", Scopes: everything()}, wire.CodeForbidden, "", "", 0},
		{"that lives longer", ci, api.AccountRequest{Name: "a", TTL: day}, wire.CodeForbidden, "", "", 0},
	} {
		got, err := c.who.Make(c.q, now)
		var refused *wire.ErrorDetail
		errors.As(err, &refused)
		switch {
		case c.code != "" && (refused == nil || refused.Code != c.code):
			t.Errorf("%s: got %+v, %v; want %s", c.name, got, err, c.code)
		case c.code != "":
		case err != nil || strings.Join(got.Scopes, " ") != c.scopes || got.Tenant != c.tent:
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		case got.CreatedBy != c.who.Actor.Name || got.Maker != c.who.Account.ID || !got.CreatedAt.Equal(now):
			t.Errorf("%s: it does not say who made it: %+v", c.name, got)
		case (got.ExpiresAt == nil) != (c.until == 0) || got.ExpiresAt != nil && !got.ExpiresAt.Equal(now.Add(c.until)):
			t.Errorf("%s: it ends at %v", c.name, got.ExpiresAt)
		}
	}
}

const (
	day    = api.Duration(24 * time.Hour)
	minute = api.Duration(time.Minute)
)

// TestFirst: only a gateway without any account makes the first one, which may everything.
func TestFirst(t *testing.T) {
	d := newFixture(t)
	token, made, err := account.First(t.Context(), d.store, d.now)
	if err != nil || !made {
		t.Fatalf("made %v, %v", made, err)
	}
	if w, _ := d.look(token.Reveal(), all(api.ScopeKeysWrite, api.ScopeBackupRead)); w.Code != 200 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if _, again, err := account.First(t.Context(), d.store, d.now); err != nil || again {
		t.Errorf("made again: %v, %v", again, err)
	}
	if events, err := d.store.Events(t.Context(), store.EventQuery{Kind: "account.created"}); err != nil || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
	d.store.Close()
	if _, made, err := account.First(t.Context(), d.store, d.now); err == nil || made {
		t.Error("a broken store made one")
	}
}
