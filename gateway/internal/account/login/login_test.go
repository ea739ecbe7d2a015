package login_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/kit"
	"muster/store"
)

// TestDesk: cookies and codes are in no record, a session knows its account and its end, and an account that ends soon bounds it.
func TestDesk(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s := kit.Store(t, nil)
	soon := now.Add(time.Hour)
	a := store.Account{ID: "msa_a", Name: "alice", Scopes: []string{api.ScopeAll}, CreatedAt: now, ExpiresAt: &soon}
	if err := s.CreateAccount(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	d := login.New(s, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	cookie, err := d.Begin(t.Context(), a, login.Visitor{Address: "192.0.2.1", Browser: "x msa_0123456789ab_" + strings.Repeat("s", 300)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Session(t.Context(), cookie)
	if err != nil || got.Account.Name != "alice" || !got.EndsAt.Equal(soon) || got.Address != "192.0.2.1" ||
		strings.Contains(got.ID, cookie) || len(got.Browser) > 200 || strings.Contains(got.Browser, "sss") {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, other := range []string{"", cookie[1:], strings.ToLower(cookie)} {
		if _, err := d.Session(t.Context(), other); !errors.Is(err, login.ErrNone) {
			t.Errorf("%q: %v", other, err)
		}
	}
	now = now.Add(10 * time.Minute)
	if got, err = d.Session(t.Context(), cookie); err == nil {
		got, err = d.Session(t.Context(), cookie)
	}
	if err != nil || !got.SeenAt.Equal(now) {
		t.Errorf("used at %s, %v", got.SeenAt, err)
	}
	now = soon
	if _, err := d.Session(t.Context(), cookie); !errors.Is(err, login.ErrNone) {
		t.Errorf("after its account: %v", err)
	}
	if all, err := d.Sessions(t.Context(), a); err != nil || len(all) != 0 {
		t.Errorf("got %+v, %v", all, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Session(t.Context(), cookie); err == nil || errors.Is(err, login.ErrNone) {
		t.Errorf("without a database: %v", err)
	}
}
