package account_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// from is a call with an API token from an address.
func (d *fixture) from(address, token string) *httptest.ResponseRecorder {
	d.t.Helper()
	r := request("GET", "/things", "Bearer "+token)
	r.RemoteAddr = address
	w, _ := d.call(r, own(), nil)
	return w
}

func TestRefusalsAreLimited(t *testing.T) {
	d := newFixture(t)
	good := d.account(store.Account{Name: "ops"})
	for i := range 30 {
		want := 401
		if i >= 10 {
			want = 429
		}
		w := d.from("[2001:db8::"+fmt.Sprint(i)+"]:1", "wrong") // one customer's /64
		after := w.Header().Get("Retry-After")
		if w.Code != want || (after == "6" || after == "7") != (want == 429) {
			t.Fatalf("try %d: got %d, Retry-After %q", i, w.Code, after)
		}
	}
	if w := d.from("[2001:db8:1::1]:1", "wrong"); w.Code != 401 {
		t.Errorf("another address got %d", w.Code)
	}
	if w := d.from("[2001:db8::1]:1", good); w.Code != 200 {
		t.Errorf("a good token behind the same address got %d", w.Code)
	}
	d.now = d.now.Add(7 * time.Second)
	if w := d.from("[2001:db8::1]:1", "wrong"); w.Code != 401 {
		t.Errorf("after a while got %d", w.Code)
	}
	if n := len(d.refusals()); n != 12 {
		t.Errorf("%d refusals in the log, want 12", n)
	}
	d.trail.Settle(t.Context(), true)
	events := d.refusals()
	if e := events[0]; len(events) != 13 || e.Detail["more"] != "20" || !strings.HasPrefix(e.Address, "2001:db8::") ||
		e.Outcome != wire.CodeUnauthorized {
		t.Errorf("what was only counted: %+v", e)
	}
}

// TestLimiterIsBounded refuses more addresses than are remembered: those beyond share one count.
func TestLimiterIsBounded(t *testing.T) {
	d := newFixture(t)
	d.store.Close() // events cannot be written, which is not what is asked about here
	limited := 0
	for i := range 4096 + 20 {
		if d.from(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), "wrong").Code == 429 {
			limited++
		}
	}
	if limited != 10 {
		t.Errorf("%d were told to wait, want 10", limited)
	}
}

// TestForbiddenCallsDoNotFillTheLog has an account that keeps asking for what it may not have.
func TestForbiddenCallsDoNotFillTheLog(t *testing.T) {
	d := newFixture(t)
	token := d.account(store.Account{Name: "reader", Scopes: []string{api.ScopeNodesRead}})
	for range 30 {
		if w, code := d.look(token, all(api.ScopePSKWrite)); w.Code != 403 || code != wire.CodeForbidden {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	}
	events := d.refusals()
	if len(events) != 10 || events[0].Actor != "account:reader" || events[0].Detail["scope"] != api.ScopePSKWrite {
		t.Errorf("the log has %d refusals: %+v", len(events), events)
	}
}

// TestRefusedWritesAreBounded: a script that goes wrong in a loop is counted, not told to wait. What was only read is not recorded.
func TestRefusedWritesAreBounded(t *testing.T) {
	d := newFixture(t)
	header := "Bearer " + d.account(store.Account{Name: "ci", Tenant: "platform"})
	missing := wire.Refuse(wire.CodeNotFound, "no node has this name", "")
	for range 100 {
		if w, _ := d.call(request("POST", "/things", header), own(), missing); w.Code != 404 {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
		if w, _ := d.call(request("GET", "/things", header), own(), missing); w.Code != 404 {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	}
	if n := len(d.refusals()); n != 60 {
		t.Errorf("%d events", n)
	}
	d.now = d.now.Add(2 * time.Minute)
	d.trail.Settle(t.Context(), false)
	events := d.refusals()
	if e := events[0]; len(events) != 61 || e.Detail["more"] != "40" || e.Actor != "account:ci" || e.Tenant != "platform" ||
		e.Outcome != wire.CodeNotFound {
		t.Errorf("%d events: %+v", len(events), e)
	}
}

// TestLeakAmongNoise: a token on record that somebody shows is in the log, however many refusals came before it.
func TestLeakAmongNoise(t *testing.T) {
	d := newFixture(t)
	boot := d.bootstrapToken().Reveal()
	for range 30 {
		d.look("wrong", own())
	}
	before := len(d.refusals())
	d.look(boot, own())
	d.call(request("GET", "/things?t="+boot, "Bearer wrong"), own(), nil)
	events := d.refusals()
	if len(events) != before+2 || events[0].Outcome != wire.CodePlaintextSecret || events[1].Outcome != wire.CodeTokenWrongRoute {
		t.Fatalf("%d more events: %+v", len(events)-before, events[0])
	}
	for _, e := range events[:2] {
		if e.NodeName != "gpu-7" {
			t.Errorf("no event says whose it was: %+v", e)
		}
	}
	d.call(request("GET", "/things?t=msb_none1234", "Bearer wrong"), own(), nil) // which may be anything
	if n := len(d.refusals()); n != before+2 {
		t.Errorf("%d events more", n-before-2)
	}
}
