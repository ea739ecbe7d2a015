package bootstrap_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/bootstrap"
	"muster/store"
)

func TestMintToken(t *testing.T) {
	d := newFixture(t)
	secret, row, err := d.MintToken(t.Context(), api.TokenRequest{}, operator)
	if err != nil || secret.Kind != sign.EnrollmentToken || row.ID != secret.Public() || row.Tenant != "default" || row.Uses != 1 ||
		!row.ExpiresAt.Equal(start.Add(time.Hour)) || row.CreatedBy != operator.Name {
		t.Fatalf("got %v %+v, %v", secret, row, err)
	}
	want := api.TokenRequest{
		Tenant: "platform", Uses: 100_000, TTL: api.Duration(720 * time.Hour), Labels: map[string]string{"tier": "sovereign"}, GPUs: 64, BindInstance: true,
		Node: "n-1",
	}
	secret, row, err = d.MintToken(t.Context(), want, operator)
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Credential(t.Context(), row.ID)
	if err != nil || got.Tenant != want.Tenant || got.Uses != want.Uses || got.GPUs != 64 || !got.BindInstance || got.NodeID != "n-1" ||
		!maps.Equal(got.Labels, want.Labels) || !got.ExpiresAt.Equal(start.Add(time.Duration(want.TTL))) {
		t.Errorf("got %+v, %v, want what was asked for", got, err)
	}
	if key, err := sign.EnrollKey(secret.Secret); err != nil || string(got.Key) != string(key) {
		t.Errorf("the key on record is not the secret's: %v", err)
	}
	events := d.events("token.created")
	if len(events) != 2 || events[0].Detail["token"] != row.ID || events[0].Actor != operator.Name || !events[0].Security {
		t.Errorf("got events %+v", events)
	}
	if strings.Contains(fmt.Sprint(events), secret.Secret) {
		t.Error("an event holds the secret")
	}
}

func TestMintTokenBounds(t *testing.T) {
	d := newFixture(t)
	for _, c := range []struct {
		name string
		q    api.TokenRequest
		want string
	}{
		{"one second", api.TokenRequest{TTL: api.Duration(time.Second)}, "ok"},
		{"less than a second", api.TokenRequest{TTL: api.Duration(time.Second - 1)}, wire.CodeBadRequest},
		{"more than 30 days", api.TokenRequest{TTL: api.Duration(720*time.Hour + 1)}, wire.CodeBadRequest},
		{"a time in the past", api.TokenRequest{TTL: api.Duration(-time.Hour)}, wire.CodeBadRequest},
		{"too many uses", api.TokenRequest{Uses: 100_001}, wire.CodeBadRequest},
		{"less than no use", api.TokenRequest{Uses: -1}, wire.CodeBadRequest},
		{"too many GPUs", api.TokenRequest{GPUs: 1025}, wire.CodeBadRequest},
		{"less than no GPU", api.TokenRequest{GPUs: -1}, wire.CodeBadRequest},
		{"no tenant's name", api.TokenRequest{Tenant: "a b"}, wire.CodeBadRequest},
		{"a reserved label", api.TokenRequest{Labels: map[string]string{"state": "active"}}, wire.CodeReservedKey},
		{"no label", api.TokenRequest{Labels: map[string]string{"tier": "a,b"}}, wire.CodeBadLabel},
	} {
		if _, _, err := d.MintToken(t.Context(), c.q, operator); code(err) != c.want {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	if tokens, err := d.Tokens(t.Context(), "", true); err != nil || len(tokens) != 1 {
		t.Errorf("%d tokens on record, %v, want the one that was not refused", len(tokens), err)
	}
}

func TestMintTokenWithoutRandomness(t *testing.T) {
	d := newFixture(t)
	broken := bootstrap.New(bootstrap.Config{Store: d.store, Rand: iotest.ErrReader(errors.New("no randomness"))})
	if token, _, err := broken.MintToken(t.Context(), api.TokenRequest{}, operator); err == nil {
		t.Errorf("got %v", token)
	}
	if _, id, err := broken.GeneratePSK(t.Context(), operator); err == nil {
		t.Errorf("got %v", id)
	}
	if _, id, err := broken.RotatePSK(t.Context(), "", operator); err == nil {
		t.Errorf("got %v", id)
	}
}

func TestTokens(t *testing.T) {
	d := newFixture(t)
	mint := func(tenant string, ttl time.Duration) string {
		d.now = d.now.Add(time.Second)
		_, row, err := d.MintToken(t.Context(), api.TokenRequest{Tenant: tenant, TTL: api.Duration(ttl)}, operator)
		if err != nil {
			t.Fatal(err)
		}
		return row.ID
	}
	short := mint("platform", time.Minute)
	platform := mint("platform", 0)
	rival := mint("rival", 0)
	revoked := mint("platform", 0)
	if err := d.RevokeToken(t.Context(), "platform", revoked, operator); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(time.Minute)
	for _, c := range []struct {
		tenant string
		all    bool
		want   []string
	}{
		{"platform", false, []string{platform}},
		{"", false, []string{rival, platform}},
		{"", true, []string{revoked, rival, platform, short}},
		{"rival", true, []string{rival}},
		{"nobody", true, nil},
	} {
		tokens, err := d.Tokens(t.Context(), c.tenant, c.all)
		var got []string
		for _, token := range tokens {
			got = append(got, token.ID)
			if len(token.Key) > 0 {
				t.Errorf("the list holds the key of %s", token.ID)
			}
		}
		if err != nil || strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("tenant %q, all %v: got %v, %v, want %v", c.tenant, c.all, got, err, c.want)
		}
	}
}

// TestRevokePasted: a pasted whole token, mistyped or not, stands for its id, and no answer repeats the secret.
func TestRevokePasted(t *testing.T) {
	d := newFixture(t)
	secret, row, err := d.MintToken(t.Context(), api.TokenRequest{Tenant: "platform"}, operator)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.RevokeToken(t.Context(), "rival", row.ID, operator); code(err) != wire.CodeNotFound {
		t.Errorf("another tenant's: got %v, want not_found", err)
	}
	for _, text := range []string{secret.Reveal(), " " + secret.Reveal() + "\n", secret.Reveal()[:30], row.ID} {
		if err := d.RevokeToken(t.Context(), "platform", text, operator); err != nil {
			t.Errorf("%.12s of %d characters: got %v", text, len(text), err)
		}
	}
	if got, err := d.Credential(t.Context(), row.ID); err != nil || got.RevokedAt == nil {
		t.Errorf("got %+v, %v, want it found and revoked", got, err)
	}
	foreign := "mse_nobody_" + secret.Secret
	err = d.RevokeToken(t.Context(), "", foreign, operator)
	if code(err) != wire.CodeNotFound || strings.Contains(err.Error(), secret.Secret[:6]) {
		t.Errorf("got %v, want not_found without the secret", err)
	}
	for _, e := range d.events("token.revoked") {
		if e.Detail["token"] != row.ID {
			t.Errorf("got event %+v, want the id alone", e)
		}
	}
}

func TestCredential(t *testing.T) {
	d := newFixture(t)
	_, row, err := d.MintToken(t.Context(), api.TokenRequest{TTL: api.Duration(time.Second)}, operator)
	if err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(time.Hour)
	if got, err := d.Credential(t.Context(), row.ID); err != nil || got.ID != row.ID {
		t.Errorf("an expired token: got %+v, %v, want it found", got, err)
	}
	for _, id := range []string{"mse_nobody", "psk-00000000", "", "msb_nobody"} {
		if got, err := d.Credential(t.Context(), id); code(err) != wire.CodeUnknownCredential || len(got.Key) > 0 {
			t.Errorf("%q: got %+v, %v, want unknown_credential", id, got, err)
		}
	}
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(time.Hour)
	if _, err := d.Credential(t.Context(), row.ID); err == nil || errors.As(err, new(*wire.ErrorDetail)) || errors.Is(err, store.ErrNotFound) {
		t.Errorf("without a database: got %v, want an error that is no refusal", err)
	}
}
