package bootstrap_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/bootstrap"
	"muster/store"
)

// TestMisused: beyond a number refusals are counted, and the count is an event when the minute is over.
func TestMisused(t *testing.T) {
	d := newDesk(t)
	refused := wire.Refuse(wire.CodeTokenWrongRoute, "x", "y")
	misuse := func(n int) string { // from another address of the same network each time
		e := store.Event{Actor: "unknown", Address: fmt.Sprintf("2001:db8::%x", n), Detail: map[string]string{"path": "/x", "method": "GET"}}
		return code(d.Misused(t.Context(), refused, []string{"msb_unknown1"}, e))
	}
	for n := range 20 {
		if got := misuse(n); got != wire.CodeTokenWrongRoute {
			t.Fatalf("got %s", got)
		}
	}
	for n := range 15 {
		if got := misuse(n); got != wire.CodeTooManyRequests {
			t.Errorf("got %s", got)
		}
	}
	if e := d.events("bootstrap.refused"); len(e) != 20 || !e[0].Security || e[0].Outcome != wire.CodeTokenWrongRoute || e[0].Detail["token"] != "msb_unknown1" || e[0].Tenant != "" {
		t.Errorf("%d events: %+v", len(e), e[0])
	}
	d.Settle(t.Context(), false)
	if e := d.events("bootstrap.refused"); len(e) != 20 {
		t.Errorf("settled before its time: %d events", len(e))
	}
	d.now = d.now.Add(time.Minute)
	d.Settle(t.Context(), false)
	d.Settle(t.Context(), true) // nothing is left
	e := d.events("bootstrap.refused")
	if len(e) != 21 || e[0].Detail["more"] != "15" || e[0].Outcome != wire.CodeTokenWrongRoute || e[0].Address != "2001:db8::0" || !e[0].Security ||
		e[0].Detail["path"] != "" || e[0].Detail["token"] != "" || e[0].Detail["since"] == "" || !e[0].At.Equal(d.now) {
		t.Errorf("%d events: %+v", len(e), e[0])
	}
	if err := d.Misused(t.Context(), errors.New("disk"), nil, store.Event{}); code(err) != "disk" {
		t.Errorf("a fault: %v", err)
	}
}

// TestRefusedByAll: however many addresses there are, the events of a minute are bounded, each refusal is in a number of one, and
// noise takes no place from what names a token on record.
func TestRefusedByAll(t *testing.T) {
	d, node := bootstraps(t, "", site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	const addresses = 3000
	refused := wire.Refuse(wire.CodeTokenWrongRoute, "x", "y")
	misuse := func(address, token string) {
		if got := code(d.Misused(t.Context(), refused, []string{token}, store.Event{Actor: "unknown", Address: address})); got != wire.CodeTokenWrongRoute {
			t.Fatalf("got %s", got)
		}
	}
	for n := range addresses {
		misuse(fmt.Sprintf("2001:db8:0:%x::1", n), "msb_unknown1")
	}
	misuse("192.0.2.9", m.Token.Public())
	if e := d.events("bootstrap.refused"); len(e) != 121 || e[0].Detail["token"] != m.Token.Public() || e[0].NodeID == "" {
		t.Errorf("%d events, the last one %+v", len(e), e[0])
	}
	d.now = d.now.Add(time.Minute)
	d.Settle(t.Context(), false)
	sum := 0
	events := d.events("bootstrap.refused")
	for _, e := range events {
		n, err := strconv.Atoi(cmp.Or(e.Detail["more"], "1"))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if len(events) != 121+101 || sum != addresses+1 {
		t.Errorf("%d events for %d refusals, want 222 for %d", len(events), sum, addresses+1)
	}
	d.now = d.now.Add(time.Second)
	misuse("2001:db8::1", "msb_unknown1")
	if n := len(d.events("bootstrap.refused")); n != 223 {
		t.Errorf("%d events after the minute, want one more", n)
	}
}

// TestWhoHangsUpIsRecorded: a refusal is an event, with whose token it was, and the numbers of others are not lost, where the caller
// did not wait for the answer.
func TestWhoHangsUpIsRecorded(t *testing.T) {
	d, node := bootstraps(t, "", site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		d.CountMore(t.Context(), store.Event{Kind: "admin.refused", Outcome: wire.CodeUnauthorized, Address: "192.0.2.1", Security: true})
	}
	d.now = d.now.Add(2 * time.Minute)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	refused := wire.Refuse(wire.CodePlaintextSecret, "x", "y")
	_ = d.Misused(gone, refused, []string{m.Token.Public()}, store.Event{Actor: "unknown", Address: "192.0.2.9"})
	if e := d.events("bootstrap.refused"); len(e) != 1 || e[0].NodeID != node.ID || e[0].NodeName == "" {
		t.Errorf("events are %+v, want one that names the node", e)
	}
	d.CountMore(gone, store.Event{Kind: "admin.refused", Outcome: wire.CodeUnauthorized, Address: "192.0.2.9", Security: true})
	if e := d.events("admin.refused"); len(e) != 1 || e[0].Detail["more"] != "40" {
		t.Errorf("events are %+v, want one of 40 more", e)
	}
}

// TestMisusedLeak: noise from an address hides no token that is on record, and the events say whose it is.
func TestMisusedLeak(t *testing.T) {
	d, node := bootstraps(t, "", site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	account := store.Account{ID: "msa_abcd1234", Name: "ci", Tenant: "research", CreatedAt: d.now}
	if err := d.store.CreateAccount(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	misuse := func(what, claimed string) string {
		return code(d.Misused(t.Context(), wire.Refuse(what, "x", "y"), []string{"msb_none0000", claimed}, store.Event{Actor: "unknown", Address: "192.0.2.9"}))
	}
	for range 40 {
		misuse(wire.CodeTokenWrongRoute, "")
	}
	for _, c := range []struct{ code, claimed, want string }{
		{wire.CodeTLSRequired, m.Token.Public(), wire.CodeTLSRequired}, {wire.CodePlaintextSecret, m.Token.Public(), wire.CodePlaintextSecret},
		{wire.CodePlaintextSecret, "msa_abcd1234", wire.CodePlaintextSecret}, {wire.CodeUnknownCredential, m.Token.Public(), wire.CodeTooManyRequests},
		{wire.CodePlaintextSecret, "msb_none1234", wire.CodeTooManyRequests}, {wire.CodePlaintextSecret, "msa_none1234", wire.CodeTooManyRequests},
	} {
		if got := misuse(c.code, c.claimed); got != c.want {
			t.Errorf("%s of %s: got %s, want %s", c.code, c.claimed, got, c.want)
		}
	}
	e := d.events("bootstrap.refused")
	if len(e) != 23 || e[2].NodeName != "gpu-7" || e[2].NodeID != node.ID || e[2].Tenant != "platform" || e[2].Detail["token"] != m.Token.Public() ||
		e[0].Tenant != "research" || e[0].Detail["account"] != "ci" {
		t.Fatalf("%d events: %+v", len(e), e[0])
	}
	for range 40 { // whoever has a real one cannot fill the log with it either
		if got := misuse(wire.CodeTLSRequired, m.Token.Public()); got != wire.CodeTLSRequired {
			t.Fatalf("got %s", got)
		}
	}
	d.Settle(t.Context(), true)
	more := 0
	for _, e := range d.events("bootstrap.refused") {
		if e.Detail["more"] != "" && e.Detail["token"] == m.Token.Public() && e.Outcome == wire.CodeTLSRequired && e.NodeName == "gpu-7" {
			more++
		}
	}
	if more != 1 {
		t.Errorf("%d events of what was only counted", more)
	}
}

// TestFetchedOften: who has the fetch part alone cannot fill the log: one event a minute for each address, with a count.
func TestFetchedOften(t *testing.T) {
	d, node := bootstraps(t, "", site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(address string) {
		t.Helper()
		v, err := d.Visited(t.Context(), m.Token, false)
		if err == nil {
			err = d.Fetched(t.Context(), v, node, address)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 400 {
		fetch("192.0.2.9")
	}
	fetch("192.0.2.10")
	if e := d.events("bootstrap.fetched"); len(e) != 2 {
		t.Errorf("%d events", len(e))
	}
	d.now = d.now.Add(2 * time.Minute)
	fetch("192.0.2.9")
	fetch("192.0.2.9") // this one finds that the count is due
	e := d.events("bootstrap.fetched")
	if len(e) != 4 || e[0].Detail["more"] != "399" || e[0].Address != "192.0.2.9" || e[0].NodeName != "gpu-7" || e[0].Detail["part"] != "fetch" {
		t.Errorf("%d events: %+v", len(e), e)
	}
}

// TestLentOften: nor can who has the whole one.
func TestLentOften(t *testing.T) {
	d, node := bootstraps(t, "", site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.Visited(t.Context(), m.Token, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"192.0.2.9", "192.0.2.9", "192.0.2.10", "192.0.2.9"} {
		if _, _, err := d.Lend(t.Context(), v, node, address); err != nil {
			t.Fatal(err)
		}
	}
	if e := d.events("bootstrap.credential"); len(e) != 2 {
		t.Errorf("%d events", len(e))
	}
	d.Settle(t.Context(), true)
	if e := d.events("bootstrap.credential"); len(e) != 3 || e[0].Detail["more"] != "2" || e[0].Address != "192.0.2.9" || e[0].NodeName != "gpu-7" || e[0].Outcome != "none" {
		t.Errorf("events: %+v", e)
	}
}

// TestCountAgain: what differs in credential, network or outcome is another event, and has a sum of its own.
func TestCountAgain(t *testing.T) {
	d := newDesk(t)
	count := func(credential, address, outcome string) bool {
		return d.CountAgain(t.Context(), store.Event{Kind: "enrol.refused", Actor: "token:" + credential, Tenant: "default", Address: address, Outcome: outcome,
			Detail: map[string]string{"credential": credential, "name": "box"}})
	}
	for _, c := range []struct {
		credential, address, outcome string
		want                         bool
	}{
		{"mse_a", "2001:db8::1", "token_used", false}, {"mse_a", "2001:db8::2", "token_used", true}, {"mse_a", "2001:db8:0:1::1", "token_used", false},
		{"mse_a", "2001:db8::1", "name_in_use", false}, {"mse_b", "2001:db8::1", "token_used", false}, {"mse_b", "2001:db8::1", "token_used", true},
	} {
		if got := count(c.credential, c.address, c.outcome); got != c.want {
			t.Errorf("%v: got %v", c, got)
		}
	}
	d.Settle(t.Context(), true)
	e := d.events("enrol.refused")
	if len(e) != 2 || e[0].Detail["credential"] == e[1].Detail["credential"] || e[0].Detail["more"] != "1" || e[0].Detail["name"] != "" {
		t.Errorf("events: %+v", e)
	}
	d.now = d.now.Add(2 * time.Minute)
	if count("mse_a", "2001:db8::1", "token_used") {
		t.Error("counted in the next minute too")
	}
}

// TestWrongProofs: each credential that is tried with a wrong secret is an event, and the others are counted.
func TestWrongProofs(t *testing.T) {
	d, node := bootstraps(t, "", site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	free, _, err := d.MintToken(t.Context(), bootstrap.TokenRequest{Tenant: "research"}, operator)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{m.Token.Public(), free.Public()} {
		token, err := d.Credential(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := d.Proven(t.Context(), sign.Presented{CredentialID: id}, token, []byte("{}"), "192.0.2.9"); code(err) != wire.CodeBadMAC {
				t.Fatal(err)
			}
		}
	}
	d.Settle(t.Context(), true)
	seen := map[string]store.Event{}
	for _, e := range d.events("enrol.refused") {
		seen[e.Detail["credential"]+e.Detail["more"]] = e
	}
	for id, tenant := range map[string]string{m.Token.Public(): "platform", free.Public(): "research"} {
		if first, more := seen[id], seen[id+"4"]; first.Tenant != tenant || more.Tenant != tenant || more.Outcome != wire.CodeBadMAC {
			t.Errorf("%s: %+v and %+v", id, first, more)
		}
	}
	if e := seen[m.Token.Public()]; e.NodeID != node.ID || e.NodeName != "gpu-7" {
		t.Errorf("whose it is: %+v", e)
	}
}
