package store_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"muster/store"
)

func TestToken(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	want := token("msb_full", 3)
	want.Labels = map[string]string{"tier": "sovereign", "x'48'": "x'48'"}
	want.GPUs = 8
	want.BindInstance = true
	want.NodeID = "id-n"
	must(t, s.CreateToken(ctx, want, store.Event{At: day(), Kind: "token.created"}))
	got, err := s.Token(ctx, want.ID)
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	wantError(t, s.CreateToken(ctx, want, store.Event{At: day(), Kind: "token.created"}), store.ErrConflict)
	if got := countEvents(t, s, store.EventQuery{Kind: "token.created"}); got != 1 {
		t.Errorf("got %d events, want 1: none of the refused write", got)
	}
	_, err = s.Token(ctx, "mse_none")
	wantError(t, err, store.ErrNotFound)
}

func TestRevokeToken(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	must(t, s.CreateToken(ctx, token("mse_a", 1)))
	for _, c := range []struct {
		tenant, id string
		at         time.Time
		want       error
	}{
		{"other", "mse_a", after(time.Minute), store.ErrNotFound},
		{"", "mse_none", after(time.Minute), store.ErrNotFound},
		{"default", "mse_a", after(2 * time.Minute), nil},
		{"", "mse_a", after(3 * time.Minute), nil}, // twice is fine
	} {
		wantError(t, s.RevokeToken(ctx, c.tenant, c.id, c.at, store.Event{At: c.at, Kind: "token.revoked"}), c.want)
	}
	got, err := s.Token(ctx, "mse_a")
	must(t, err)
	if got.RevokedAt == nil || !got.RevokedAt.Equal(after(2*time.Minute)) {
		t.Errorf("revoked at %v, want the first time", got.RevokedAt)
	}
	if got := countEvents(t, s, store.EventQuery{Kind: "token.revoked"}); got != 2 {
		t.Errorf("got %d events, want 2", got)
	}
}

func TestTokens(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	for i, id := range []string{"mse_open", "mse_used", "mse_expired", "mse_revoked", "mse_half"} {
		tok := token(id, 1)
		tok.CreatedAt = after(time.Duration(i) * time.Second)
		switch id {
		case "mse_half":
			tok.Uses = 2
			tok.Tenant = "other"
		case "mse_expired":
			tok.ExpiresAt = after(time.Minute)
		}
		must(t, s.CreateToken(ctx, tok))
	}
	must(t, s.Enrol(ctx, enrolment("mse_used", "a")))
	half := enrolment("mse_half", "b")
	half.Node.Tenant = "other"
	must(t, s.Enrol(ctx, half))
	must(t, s.RevokeToken(ctx, "", "mse_revoked", after(time.Second)))
	now := after(time.Minute)
	for _, c := range []struct {
		q    store.TokenQuery
		want []string
	}{
		{store.TokenQuery{Now: now}, []string{"mse_half", "mse_open"}},
		{store.TokenQuery{Now: now, Tenant: "default"}, []string{"mse_open"}},
		{store.TokenQuery{Now: now, Tenant: "none"}, nil},
		{store.TokenQuery{All: true}, []string{"mse_half", "mse_revoked", "mse_expired", "mse_used", "mse_open"}},
		{store.TokenQuery{All: true, Tenant: "other"}, []string{"mse_half"}},
	} {
		tokens, err := s.Tokens(ctx, c.q)
		must(t, err)
		var got []string
		for _, tok := range tokens {
			got = append(got, tok.ID)
			if tok.Key != nil {
				t.Errorf("%s: a list shows the key", tok.ID)
			}
			if want := map[string]int{"mse_used": 1, "mse_half": 1}[tok.ID]; tok.Used != want {
				t.Errorf("%s: got %d used, want %d", tok.ID, tok.Used, want)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c.q, got, c.want)
		}
	}
}

func TestPSKs(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	key := func(id string, second int) store.PSK {
		return store.PSK{ID: id, Key: []byte("key " + id), CreatedAt: after(time.Duration(second) * time.Second)}
	}
	for _, c := range []struct {
		what string
		do   func() error
		want error
		ids  []string
	}{
		{"first", func() error { return s.AddPSK(ctx, key("psk-1", 1)) }, nil, []string{"psk-1"}},
		{"second", func() error { return s.AddPSK(ctx, key("psk-2", 2)) }, nil, []string{"psk-2", "psk-1"}},
		{"third", func() error { return s.AddPSK(ctx, key("psk-3", 3)) }, store.ErrConflict, []string{"psk-2", "psk-1"}},
		{"again", func() error { return s.AddPSK(ctx, key("psk-1", 4)) }, nil, []string{"psk-2", "psk-1"}},
		{"keep one", func() error { return s.ClearPSKs(ctx, "psk-1") }, nil, []string{"psk-1"}},
		{"add after", func() error { return s.AddPSK(ctx, key("psk-3", 3)) }, nil, []string{"psk-3", "psk-1"}},
		{"set one that is live", func() error { return s.SetPSK(ctx, key("psk-1", 9)) }, nil, []string{"psk-1"}},
		{"set another", func() error { return s.SetPSK(ctx, key("psk-4", 5)) }, nil, []string{"psk-4"}},
		{"clear", func() error { return s.ClearPSKs(ctx, "", store.Event{At: day(), Kind: "psk.cleared"}) }, nil, nil},
	} {
		wantError(t, c.do(), c.want)
		keys, err := s.PSKs(ctx)
		must(t, err)
		var got []string
		for _, k := range keys {
			got = append(got, k.ID)
			if string(k.Key) != "key "+k.ID {
				t.Errorf("%s: got key %q for %s", c.what, k.Key, k.ID)
			}
		}
		if !slices.Equal(got, c.ids) {
			t.Errorf("%s: got %v, want %v", c.what, got, c.ids)
		}
	}
	if got := countEvents(t, s, store.EventQuery{Kind: "psk.cleared"}); got != 1 {
		t.Errorf("got %d events, want 1", got)
	}
	_, err := s.PSK(ctx, "psk-1")
	wantError(t, err, store.ErrNotFound)
	must(t, s.SetPSK(ctx, key("psk-5", 5)))
	got, err := s.PSK(ctx, "psk-5")
	must(t, err)
	want := key("psk-5", 5)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, mark := range []string{"mark", "", "another"} { // of one that was set before there were marks, and of one that is set again
		again := key("psk-5", 9)
		if again.Mark = []byte(mark); mark == "" {
			again.Mark = nil
		} else {
			want.Mark = again.Mark
		}
		must(t, s.AddPSK(ctx, again))
		got, err := s.PSK(ctx, "psk-5")
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}
