package bootstrap_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
)

func TestPSKLife(t *testing.T) {
	d := newFixture(t)
	first, firstID, err := d.GeneratePSK(t.Context(), operator)
	if err != nil || len(first) < 22 {
		t.Fatalf("got %d characters, %v, want 131 bits", len(first), err)
	}
	got, err := d.Credential(t.Context(), firstID)
	if err != nil || got.Tenant != "default" || got.Uses != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	if key, err := sign.PSKKey(first); err != nil || string(key) != string(got.Key) || sign.PSKID(key) != firstID {
		t.Errorf("the key on record is not the secret's: %v", err)
	}
	second, secondID, err := d.RotatePSK(t.Context(), "", operator)
	if err != nil || second == first || secondID == firstID {
		t.Fatalf("got %s, %v, want another one", secondID, err)
	}
	if _, _, err := d.RotatePSK(t.Context(), "", operator); code(err) != wire.CodePSKLimit {
		t.Errorf("a third: got %v, want psk_limit", err)
	}
	if shown, id, err := d.RotatePSK(t.Context(), second, operator); err != nil || id != secondID || shown != second {
		t.Errorf("the second again: got %s, %v", id, err)
	}
	if live, err := d.PSKs(t.Context()); err != nil || len(live) != 2 {
		t.Errorf("%d live, %v, want 2", len(live), err)
	}
	err = d.ClearPSK(t.Context(), first, operator) // the secret where its id belongs
	if code(err) != wire.CodeNotFound || strings.Contains(err.Error(), first[:6]) {
		t.Errorf("got %v, want not_found without the secret", err)
	}
	if err := d.ClearPSK(t.Context(), secondID, operator); err != nil {
		t.Error(err)
	}
	if _, err := d.Credential(t.Context(), firstID); code(err) != wire.CodeUnknownCredential {
		t.Errorf("the cleared one: got %v, want unknown_credential", err)
	}
	if _, err := d.Credential(t.Context(), secondID); err != nil {
		t.Errorf("the kept one: got %v", err)
	}
	if err := d.ClearPSK(t.Context(), "", operator); err != nil {
		t.Error(err)
	}
	if live, err := d.PSKs(t.Context()); err != nil || len(live) != 0 {
		t.Errorf("%d live, %v, want none", len(live), err)
	}
	d.wantNoSecret(first, second)
}

func (d *fixture) wantNoSecret(secrets ...string) {
	d.t.Helper()
	all := fmt.Sprint(d.events("psk.set"), d.events("psk.rotated"), d.events("psk.cleared"))
	for kind, want := range map[string]int{"psk.set": 1, "psk.rotated": 2, "psk.cleared": 2} {
		if got := d.events(kind); len(got) != want || !got[0].Security || got[0].Actor != operator.Name {
			d.t.Errorf("got %d events %s, want %d", len(got), kind, want)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(all, secret) {
			d.t.Error("an event holds a secret")
		}
	}
}

func TestSetPSK(t *testing.T) {
	d := newFixture(t)
	token, err := sign.NewToken(sign.EnrollmentToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, secret, want string }{
		{"20 letters", "äöüßabcdefghijklmnop", "ok"},
		{"19 characters", "abcdefghijklmnopqrs", wire.CodeWeakSecret},
		{"19 letters of two bytes", strings.Repeat("ä", 19), wire.CodeWeakSecret},
		{"19 characters between blanks", " abcdefghijklmnopqrs\n", wire.CodeWeakSecret},
		{"nothing", "", wire.CodeWeakSecret},
		{"a token", token.Reveal(), wire.CodeWeakSecret},
		{"a mistyped token", token.Reveal()[:40], wire.CodeWeakSecret},
	} {
		_, err := d.SetPSK(t.Context(), c.secret, operator)
		if code(err) != c.want {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
		if err != nil && c.secret != "" && strings.Contains(err.Error(), c.secret) {
			t.Errorf("%s: the error repeats it", c.name)
		}
	}
	if _, _, err := d.RotatePSK(t.Context(), "short", operator); code(err) != wire.CodeWeakSecret {
		t.Errorf("rotating to a short one: got %v, want weak_secret", err)
	}
	if live, err := d.PSKs(t.Context()); err != nil || len(live) != 1 {
		t.Errorf("%d live, %v, want the one that was not refused", len(live), err)
	}
}

// TestPSKBetweenBlanks: an agent cuts white space off what it is given, so the gateway does so too.
func TestPSKBetweenBlanks(t *testing.T) {
	d := newFixture(t)
	const chosen = "a person chose this secret"
	key, err := sign.PSKKey(chosen)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{chosen, "  " + chosen + " ", chosen + "\r\n", "\ufeff\t" + chosen, "\u00a0" + chosen + "\u00a0"} {
		if id, err := d.SetPSK(t.Context(), text, operator); err != nil || id != sign.PSKID(key) {
			t.Errorf("set %q: got %s, %v", text, id, err)
		}
		if _, id, err := d.RotatePSK(t.Context(), text, operator); err != nil || id != sign.PSKID(key) {
			t.Errorf("rotate %q: got %s, %v", text, id, err)
		}
	}
}

func TestPSKWithoutADatabase(t *testing.T) {
	d := newFixture(t)
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.ClearPSK(t.Context(), "psk-00000000", operator); err == nil || errors.As(err, new(*wire.ErrorDetail)) {
		t.Errorf("got %v, want an error that is no refusal: nothing is known of what is kept", err)
	}
	if _, err := d.SetPSK(t.Context(), strings.Repeat("x", 20), operator); err == nil {
		t.Error("got no error")
	}
}
