package store_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"muster/store"
)

func account(id, name, tenant string) store.Account {
	return store.Account{ID: id, Name: name, Tenant: tenant, Scopes: []string{"nodes:read", "tokens:write"}, SecretHash: []byte{1, 2, 0xff},
		CreatedAt: day(), ExpiresAt: pointer(after(time.Hour))}
}

func TestAccounts(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	for _, c := range []struct {
		what string
		do   func() error
		want error
		live []string
	}{
		{"create", func() error { return s.CreateAccount(ctx, account("msa_1", "b", "t1")) }, nil, []string{"msa_1"}},
		{"name taken", func() error { return s.CreateAccount(ctx, account("msa_2", "b", "t2")) }, store.ErrConflict, []string{"msa_1"}},
		{"id taken", func() error { return s.CreateAccount(ctx, account("msa_1", "c", "t1")) }, store.ErrConflict, []string{"msa_1"}},
		{"another", func() error { return s.CreateAccount(ctx, account("msa_3", "a", "t2")) }, nil, []string{"msa_3", "msa_1"}},
		{"revoke in another tenant", func() error { return s.RevokeAccount(ctx, "t2", "b", after(1)) }, store.ErrNotFound,
			[]string{"msa_3", "msa_1"}},
		{"revoke none", func() error { return s.RevokeAccount(ctx, "", "nobody", after(1)) }, store.ErrNotFound,
			[]string{"msa_3", "msa_1"}},
		{"revoke by name", func() error { return s.RevokeAccount(ctx, "t1", "b", after(time.Second)) }, nil, []string{"msa_3"}},
		{"revoke again", func() error { return s.RevokeAccount(ctx, "t1", "b", after(time.Second)) }, store.ErrNotFound, []string{"msa_3"}},
		{"name is free", func() error { return s.CreateAccount(ctx, account("msa_4", "b", "")) }, nil, []string{"msa_3", "msa_4"}},
		{"revoke by id", func() error { return s.RevokeAccount(ctx, "", "msa_3", after(time.Second)) }, nil, []string{"msa_4"}},
	} {
		wantError(t, c.do(), c.want)
		accounts, err := s.Accounts(ctx, "")
		must(t, err)
		var live []string
		for _, a := range accounts {
			if a.RevokedAt == nil {
				live = append(live, a.ID)
			}
		}
		if !slices.Equal(live, c.live) {
			t.Errorf("%s: got %v live, want %v", c.what, live, c.live)
		}
	}
	if got, err := s.Accounts(ctx, "t1"); err != nil || len(got) != 1 || got[0].ID != "msa_1" {
		t.Errorf("tenant t1: got %v, %v", got, err)
	}
}

func TestAccount(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	want := account("msa_1", "a", "t1")
	want.CreatedBy = "account:root"
	want.Maker = "msa_0"
	must(t, s.CreateAccount(ctx, want))
	for _, at := range []time.Time{after(2 * time.Second), after(time.Second)} { // the older one changes nothing
		must(t, s.TouchAccount(ctx, "msa_1", at))
	}
	want.LastUsedAt = pointer(after(2 * time.Second))
	got, err := s.Account(ctx, "msa_1")
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	_, err = s.Account(ctx, "msa_2")
	wantError(t, err, store.ErrNotFound)
}

func TestFirstAccount(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	for i, want := range []bool{true, false, false} {
		got, err := s.FirstAccount(ctx, account("msa_"+string(rune('a'+i)), "operator", ""),
			store.Event{At: day(), Kind: "account.created"})
		must(t, err)
		if got != want {
			t.Errorf("call %d: got created %v, want %v", i, got, want)
		}
		if want {
			must(t, s.RevokeAccount(ctx, "", "operator", after(time.Second))) // there has been one all the same
		}
	}
	if got := countEvents(t, s, store.EventQuery{Kind: "account.created"}); got != 1 {
		t.Errorf("got %d events, want 1", got)
	}
}

func TestUpdateAccount(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	was := account("msa_1", "a", "t1")
	must(t, s.CreateAccount(ctx, was))
	event := store.Event{At: day(), Kind: "account.updated"}
	must(t, s.UpdateAccount(ctx, was, "", []string{"*"}, event))
	got, err := s.Account(ctx, "msa_1")
	must(t, err)
	want := was
	want.Tenant = ""
	want.Scopes = []string{"*"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	wantError(t, s.UpdateAccount(ctx, was, "t2", []string{"nodes:read"}, event), store.ErrConflict) // it was changed meanwhile
	other := got
	other.Scopes = nil
	wantError(t, s.UpdateAccount(ctx, other, "t2", []string{"nodes:read"}, event), store.ErrConflict)
	must(t, s.RevokeAccount(ctx, "", "msa_1", after(1)))
	wantError(t, s.UpdateAccount(ctx, got, "t2", []string{"nodes:read"}, event), store.ErrConflict)
	if n := countEvents(t, s, store.EventQuery{Kind: "account.updated"}); n != 1 {
		t.Errorf("got %d events, want 1", n)
	}
}

func TestTenants(t *testing.T) {
	s := enrolled(t, "a", "b", "gone") // of the tenant default
	ctx := t.Context()
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-gone", From: "enrolled", To: "retired", At: day()}))
	must(t, s.CreateAccount(ctx, account("msa_1", "a", "t1")))
	must(t, s.CreateAccount(ctx, account("msa_2", "b", "")))
	must(t, s.CreateAccount(ctx, account("msa_3", "c", "old")))
	must(t, s.RevokeAccount(ctx, "", "c", day()))
	for id, tenant := range map[string]string{"mse_t1": "t1", "mse_t2": "t2", "mse_gone": "gone"} {
		k := token(id, 1)
		k.Tenant = tenant
		must(t, s.CreateToken(ctx, k))
	}
	must(t, s.RevokeToken(ctx, "", "mse_gone", day()))
	want := []store.Tenant{{Name: "default", Nodes: 2, Retired: 1, Tokens: 1}, {Name: "t1", Accounts: 1, Tokens: 1}, {Name: "t2", Tokens: 1}}
	if got, err := s.Tenants(ctx, "", after(time.Minute)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if got, err := s.Tenants(ctx, "t1", after(time.Minute)); err != nil || !reflect.DeepEqual(got, want[1:2]) {
		t.Errorf("of one tenant: got %+v, %v", got, err)
	}
	if got, err := s.Tenants(ctx, "", after(2*time.Hour)); err != nil || len(got) != 1 || got[0].Nodes != 2 || got[0].Tokens != 0 {
		t.Errorf("after all has expired: got %+v, %v", got, err)
	}
	if got, err := s.Tenants(ctx, "nobody", day()); err != nil || len(got) != 0 {
		t.Errorf("of none: got %+v, %v", got, err)
	}
}
