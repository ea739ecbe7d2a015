package bootstrap_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

func TestTimely(t *testing.T) {
	for _, c := range []struct {
		off  time.Duration
		want string
	}{
		{0, "ok"},
		{5 * time.Minute, "ok"},
		{-5 * time.Minute, "ok"},
		{5*time.Minute + time.Second, wire.CodeClockSkew},
		{-5*time.Minute - time.Second, wire.CodeClockSkew},
		{290 * 365 * 24 * time.Hour, wire.CodeClockSkew}, // about as much as a Duration holds
		{-290 * 365 * 24 * time.Hour, wire.CodeClockSkew},
	} {
		if err := newFixture(t).Timely("mse_a", "nonce", start.Add(c.off)); code(err) != c.want {
			t.Errorf("off by %v: got %v, want %s", c.off, err, c.want)
		}
	}
	if err := newFixture(t).Timely("mse_a", "nonce", time.Time{}); code(err) != wire.CodeClockSkew {
		t.Errorf("no time at all: got %v, want clock_skew", err)
	}
}

// TestNonceMemory: a nonce is known for as long as its request could be accepted again.
func TestNonceMemory(t *testing.T) {
	d := newFixture(t)
	ahead := start.Add(5 * time.Minute) // of a clock that runs five minutes fast
	take := func(credential, nonce string) string { return code(d.Timely(credential, nonce, ahead)) }
	if got := take("mse_a", "1"); got != "ok" {
		t.Fatal(got)
	}
	for _, c := range []struct{ credential, nonce, want string }{
		{"mse_a", "1", wire.CodeReplayed}, {"mse_b", "1", "ok"}, {"mse_a", "2", "ok"}, {"mse_a", "", "ok"},
	} {
		if got := take(c.credential, c.nonce); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.credential, c.nonce, got, c.want)
		}
	}
	for range 11 { // others come and go, so that the memory is cleaned up
		d.now = d.now.Add(time.Minute)
		if d.now.After(start.Add(10 * time.Minute)) {
			break
		}
		if got := code(d.Timely("mse_c", d.now.String(), d.now)); got != "ok" {
			t.Error(got)
		}
		if got := take("mse_a", "1"); got != wire.CodeReplayed {
			t.Errorf("after %v: got %s, want replayed", d.now.Sub(start), got)
		}
	}
	if got := take("mse_a", "1"); got != wire.CodeClockSkew {
		t.Errorf("after its window: got %s, want clock_skew", got)
	}
}

// TestSkewTakesNoNonce: the agent corrects its clock and may send the same nonce again.
func TestSkewTakesNoNonce(t *testing.T) {
	d := newFixture(t)
	if err := d.Timely("mse_a", "1", start.Add(time.Hour)); code(err) != wire.CodeClockSkew {
		t.Fatal(err)
	}
	if err := d.Timely("mse_a", "1", start); err != nil {
		t.Errorf("got %v", err)
	}
}

// proof is what a register request presents for a body.
func proof(t *testing.T, id string, key, body []byte) sign.Presented {
	t.Helper()
	p, err := sign.ParseAuthorization(sign.Authorization(id, key, body))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestProven: wrong proofs are limited by address, a right one is never held up.
func TestProven(t *testing.T) {
	d := newFixture(t)
	_, token, err := d.MintToken(t.Context(), api.TokenRequest{Tenant: "platform"}, operator)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"name":"box"}`)
	right := proof(t, token.ID, token.Key, body)
	wrong := proof(t, token.ID, make([]byte, 32), body)
	check := func(p sign.Presented, body, address, want string) {
		t.Helper()
		if err := d.Proven(t.Context(), p, token, []byte(body), address); code(err) != want {
			t.Errorf("from %s: got %v, want %s", address, err, want)
		}
	}
	check(right, string(body), "a", "ok")
	check(right, string(body)+" ", "a", wire.CodeBadMAC)
	for range 19 {
		check(wrong, string(body), "a", wire.CodeBadMAC)
	}
	check(wrong, string(body), "a", wire.CodeTooManyRequests)
	check(right, string(body), "a", "ok")
	check(wrong, string(body), "b", wire.CodeBadMAC)
	d.now = d.now.Add(time.Minute + time.Second)
	check(wrong, string(body), "a", wire.CodeBadMAC)
	d.wantFailures(token)
}

// wantFailures: one event for each address and minute, so that failing costs the log nothing.
func (d *fixture) wantFailures(token store.Token) {
	d.t.Helper()
	got := ""
	for _, e := range d.events("enrol.refused") {
		if e.Outcome != wire.CodeBadMAC || !e.Security || e.Tenant != "platform" || e.Actor != "credential:"+token.ID {
			d.t.Errorf("got event %+v", e)
		}
		got += e.Address
	}
	if got != "aba" {
		d.t.Errorf("got events from %q, want from a, b and a", got)
	}
}

func TestProvenWithoutADatabase(t *testing.T) {
	d := newFixture(t)
	token := store.Token{ID: "mse_abcd", Key: make([]byte, 32)}
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Proven(t.Context(), proof(t, "mse_abcd", []byte{1}, nil), token, nil, "a"); code(err) != wire.CodeBadMAC {
		t.Errorf("got %v, want bad_mac all the same", err)
	}
}

// TestReplayAfterTheClockWasSet: a request that was used is not taken again when the clock was ahead for a while and is right again.
func TestReplayAfterTheClockWasSet(t *testing.T) {
	d := newFixture(t)
	if err := d.Timely("mse_a", "1", start); err != nil {
		t.Fatal(err)
	}
	d.now = start.Add(10 * time.Hour)
	if err := d.Timely("mse_a", "2", d.now); err != nil {
		t.Fatal(err)
	}
	d.now = start.Add(time.Minute)
	if err := d.Timely("mse_a", "1", start); code(err) != wire.CodeReplayed {
		t.Errorf("got %v, want replayed", err)
	}
	if err := d.Timely("mse_a", "3", d.now); err != nil {
		t.Errorf("a new one: %v", err)
	}
}

// TestTooManyNonces: beyond a bound nothing is taken, until the memory of the first ones is over.
func TestTooManyNonces(t *testing.T) {
	d := newFixture(t)
	refused := 0
	for i := range 1_000_000 + 7 {
		if code(d.Timely("mse_a", strconv.Itoa(i), start)) == wire.CodeTooManyRequests {
			refused++
		}
	}
	if refused != 7 {
		t.Errorf("%d are refused, want 7", refused)
	}
	d.now = start.Add(10*time.Minute + time.Second)
	if err := d.Timely("mse_a", "one more", d.now); err != nil {
		t.Errorf("when they are forgotten: %v", err)
	}
}

// FuzzTimely: whatever a holder of a credential sends is accepted once at most.
func FuzzTimely(f *testing.F) {
	f.Add("mse_a", "AAAAAAAAAAAAAAAAAAAAAA==", int64(0))
	f.Add("", "", int64(300))
	f.Add("psk-00c0ffee", "\x00 \n", int64(-301))
	d := newFixture(f)
	seen := map[string]bool{}
	f.Fuzz(func(t *testing.T, credential, nonce string, off int64) {
		key := fmt.Sprintf("%s %s", credential, nonce)
		err := d.Timely(credential, nonce, start.Add(time.Duration(off%1000)*time.Second))
		late := off%1000 > 300 || off%1000 < -300
		if late != (code(err) == wire.CodeClockSkew) || !late && seen[key] != (code(err) == wire.CodeReplayed) {
			t.Errorf("%q, off by %d s, seen %v: got %v", key, off%1000, seen[key], err)
		}
		seen[key] = seen[key] || err == nil
	})
}
