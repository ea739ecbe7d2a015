package bootstrap_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/bootstrap"
)

const chosen = "correct horse battery staple" // a person's PSK

// TestPSKIn: a PSK is known as a whole text and as a part of one, for as long as it is live, also by another process.
func TestPSKIn(t *testing.T) {
	d := newFixture(t)
	if got := d.PSKIn(t.Context(), chosen); got != "" {
		t.Errorf("without any: %s", got)
	}
	id, err := d.SetPSK(t.Context(), chosen, operator)
	if err != nil {
		t.Fatal(err)
	}
	generated, second, err := d.RotatePSK(t.Context(), "", operator)
	if err != nil || sign.CheckPSK(generated) != nil || !strings.HasPrefix(generated, sign.PSKPrefix) {
		t.Fatalf("generated %d characters, %v", len(generated), err)
	}
	other := bootstrap.New(bootstrap.Config{Store: d.store, Now: func() time.Time { return d.now }})
	for text, want := range map[string]string{
		"": "", "gpu-1": "", chosen: id, " " + chosen + "\n": id, "psk=" + chosen: id, "Bearer " + chosen: id, chosen[1:]: "", chosen + "x": "",
		strings.ToUpper(chosen): "",
		generated:               second, "a/" + generated + "/b": second, `no node is called "` + generated + `"`: second,
		"a=1&psk=" + generated + "&b=2": second, generated[:30]: "",
		"00000000-0000-0000-0000-000000000000": "", strings.Repeat("x", 100): "",
	} {
		if got := d.PSKIn(t.Context(), "gpu-1", text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := other.PSKIn(t.Context(), text); got != want {
			t.Errorf("after a restart, %q: got %q, want %q", text, got, want)
		}
	}
	segments := []string{"", "nodes", chosen, "drain", "x=" + generated, "gpu-1"}
	if got, without := d.PSKInPath(t.Context(), segments); got != second || without != "/nodes/.../drain/.../gpu-1" {
		t.Errorf("a path: %s %s", got, without)
	}
	if got, without := d.PSKInPath(t.Context(), segments[:2]); got != "" || without != "/nodes" {
		t.Errorf("a path without: %s %s", got, without)
	}
	if err := d.ClearPSK(t.Context(), second, operator); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(2 * time.Second)
	for _, b := range []*bootstrap.Bootstrap{d.Bootstrap, other} {
		if got := b.PSKIn(t.Context(), chosen); got != "" {
			t.Errorf("one that ended: %q", got)
		}
	}
	if got := other.PSKIn(t.Context(), generated); got != second {
		t.Errorf("the kept one: %q", got)
	}
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(2 * time.Second)
	if got := other.PSKIn(t.Context(), generated); got != second {
		t.Errorf("without a database, by what was read before: %q", got)
	}
}

// TestPSKThatIsMistyped: a text that begins as a generated PSK has to be one: agents would refuse it.
func TestPSKThatIsMistyped(t *testing.T) {
	d := newFixture(t)
	psk, err := sign.NewPSK(nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{psk: "ok", psk[:31]: wire.CodeWeakSecret, "msk_" + strings.Repeat("a", 28): wire.CodeWeakSecret,
		"msk_ my own long sentence": wire.CodeWeakSecret,
		psk[4:]:                     "ok", chosen: "ok"} {
		if _, err := d.SetPSK(t.Context(), text, operator); code(err) != want || err != nil && strings.Contains(err.Error(), text) {
			t.Errorf("%.6s...: %v, want %s", text, err, want)
		}
	}
	short := bootstrap.New(bootstrap.Config{Store: d.store, Rand: strings.NewReader("few")})
	if _, err := short.SetPSK(t.Context(), chosen, operator); err == nil || code(err) == wire.CodeWeakSecret {
		t.Errorf("a mark without randomness: %v", err)
	}
	if _, _, err := short.GeneratePSK(t.Context(), operator); err == nil || errors.Is(err, sign.ErrMistypedPSK) {
		t.Errorf("a PSK without randomness: %v", err)
	}
}
