package audit_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/kit"
	"muster/store"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is a Trail on a database of its own, with a clock that the test sets.
type fixture struct {
	*audit.Trail
	t     testing.TB
	store *store.Store
	now   time.Time
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	d := &fixture{t: t, now: start}
	clock := func() time.Time { return d.now }
	d.store = kit.Store(t, clock)
	d.Trail = audit.New(audit.Config{Store: d.store, Now: clock})
	return d
}

// tokenID is the id of a bootstrap token on record.
const tokenID = "msb_known1234567"

// withToken is a fixture where a node and its bootstrap token are on record.
func withToken(t testing.TB) (*fixture, store.Node) {
	t.Helper()
	d := newFixture(t)
	node := store.Node{ID: "n-0123456789abcdef", Name: "gpu-7", Tenant: "platform", CreatedAt: start}
	if err := d.store.CreateNode(t.Context(), node, nil); err != nil {
		t.Fatal(err)
	}
	token := store.Token{
		ID: tokenID, Tenant: node.Tenant, NodeID: node.ID, Uses: 1, Key: make([]byte, 32), CreatedAt: start, ExpiresAt: start.Add(time.Hour),
	}
	if err := d.store.CreateToken(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	return d, node
}

func (d *fixture) events(kind string) []store.Event {
	d.t.Helper()
	events, err := d.store.Events(d.t.Context(), store.EventQuery{Kind: kind, Limit: 1000})
	if err != nil {
		d.t.Fatal(err)
	}
	return events
}

// code is the code of a refusal, and the error's text for what is no refusal.
func code(err error) string {
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) {
		return refused.Code
	}
	return err.Error()
}

// TestMisused: beyond a number refusals are counted, and the count is an event when the minute is over.
func TestMisused(t *testing.T) {
	d := newFixture(t)
	refused := wire.Refuse(wire.CodeTokenWrongRoute, "x", "y")
	misuse := func(n int) string { // from another address of the same network each time
		e := store.Event{Actor: "unknown", Address: fmt.Sprintf("2001:db8::%x", n)}
		e.Detail = map[string]string{"path": "/x", "method": "GET"}
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
	if e := d.events("bootstrap.refused"); len(e) != 20 || !e[0].Security || e[0].Outcome != wire.CodeTokenWrongRoute ||
		e[0].Detail["token"] != "msb_unknown1" || e[0].Tenant != "" {
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
	if len(e) != 21 || e[0].Detail["more"] != "15" || e[0].Outcome != wire.CodeTokenWrongRoute ||
		e[0].Address != "2001:db8::0" || !e[0].Security ||
		e[0].Detail["path"] != "" || e[0].Detail["token"] != "" || e[0].Detail["since"] == "" || !e[0].At.Equal(d.now) {
		t.Errorf("%d events: %+v", len(e), e[0])
	}
	if err := d.Misused(t.Context(), errors.New("disk"), nil, store.Event{}); code(err) != "disk" {
		t.Errorf("a fault: %v", err)
	}
}

// TestRefusedByAll: however many addresses there are, the events of a minute are bounded. Each further refusal is counted, and refusals
// with invented names leave room for those that name a token on record.
func TestRefusedByAll(t *testing.T) {
	d, _ := withToken(t)
	const addresses = 3000
	refused := wire.Refuse(wire.CodeTokenWrongRoute, "x", "y")
	misuse := func(address, token string) {
		e := store.Event{Actor: "unknown", Address: address}
		if got := code(d.Misused(t.Context(), refused, []string{token}, e)); got != wire.CodeTokenWrongRoute {
			t.Fatalf("got %s", got)
		}
	}
	for n := range addresses {
		misuse(fmt.Sprintf("2001:db8:0:%x::1", n), "msb_unknown1")
	}
	misuse("192.0.2.9", tokenID)
	if e := d.events("bootstrap.refused"); len(e) != 121 || e[0].Detail["token"] != tokenID || e[0].NodeID == "" {
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

// TestWhoHangsUpIsRecorded: a refusal is an event that names the token's owner, and the numbers of others are recorded, also if the caller
// did not wait for the answer.
func TestWhoHangsUpIsRecorded(t *testing.T) {
	d, node := withToken(t)
	for range 40 {
		d.Count(t.Context(), store.Event{Kind: "admin.refused", Outcome: wire.CodeUnauthorized, Address: "192.0.2.1", Security: true})
	}
	d.now = d.now.Add(2 * time.Minute)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	refused := wire.Refuse(wire.CodePlaintextSecret, "x", "y")
	_ = d.Misused(gone, refused, []string{tokenID}, store.Event{Actor: "unknown", Address: "192.0.2.9"})
	if e := d.events("bootstrap.refused"); len(e) != 1 || e[0].NodeID != node.ID || e[0].NodeName == "" {
		t.Errorf("events are %+v, want one that names the node", e)
	}
	d.Count(gone, store.Event{Kind: "admin.refused", Outcome: wire.CodeUnauthorized, Address: "192.0.2.9", Security: true})
	if e := d.events("admin.refused"); len(e) != 1 || e[0].Detail["more"] != "40" {
		t.Errorf("events are %+v, want one of 40 more", e)
	}
}

// TestMisusedLeak: noise from an address hides no token that is on record, and the events say whose it is.
func TestMisusedLeak(t *testing.T) {
	d, node := withToken(t)
	account := store.Account{ID: "msa_abcd1234", Name: "ci", Tenant: "research", CreatedAt: d.now}
	if err := d.store.CreateAccount(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	misuse := func(what, claimed string) string {
		e := store.Event{Actor: "unknown", Address: "192.0.2.9"}
		return code(d.Misused(t.Context(), wire.Refuse(what, "x", "y"), []string{"msb_none0000", claimed}, e))
	}
	for range 40 {
		misuse(wire.CodeTokenWrongRoute, "")
	}
	for _, c := range []struct{ code, claimed, want string }{
		{wire.CodeTLSRequired, tokenID, wire.CodeTLSRequired}, {wire.CodePlaintextSecret, tokenID, wire.CodePlaintextSecret},
		{wire.CodePlaintextSecret, "msa_abcd1234", wire.CodePlaintextSecret}, {wire.CodeUnknownCredential, tokenID, wire.CodeTooManyRequests},
		{wire.CodePlaintextSecret, "msb_none1234", wire.CodeTooManyRequests},
		{wire.CodePlaintextSecret, "msa_none1234", wire.CodeTooManyRequests},
	} {
		if got := misuse(c.code, c.claimed); got != c.want {
			t.Errorf("%s of %s: got %s, want %s", c.code, c.claimed, got, c.want)
		}
	}
	e := d.events("bootstrap.refused")
	if len(e) != 23 || e[2].NodeName != "gpu-7" || e[2].NodeID != node.ID || e[2].Tenant != "platform" || e[2].Detail["token"] != tokenID ||
		e[0].Tenant != "research" || e[0].Detail["account"] != "ci" {
		t.Fatalf("%d events: %+v", len(e), e[0])
	}
	for range 40 { // whoever has a real one cannot fill the log with it either
		if got := misuse(wire.CodeTLSRequired, tokenID); got != wire.CodeTLSRequired {
			t.Fatalf("got %s", got)
		}
	}
	d.Settle(t.Context(), true)
	more := 0
	for _, e := range d.events("bootstrap.refused") {
		if e.Detail["more"] != "" && e.Detail["token"] == tokenID && e.Outcome == wire.CodeTLSRequired && e.NodeName == "gpu-7" {
			more++
		}
	}
	if more != 1 {
		t.Errorf("%d events of what was only counted", more)
	}
}

// TestLeakOfAllTenants: the token of an account of all tenants is named although strangers used up what is recorded of theirs, and
// what is counted of it keeps its name.
func TestLeakOfAllTenants(t *testing.T) {
	d := newFixture(t)
	operator := store.Account{ID: "msa_abcd1234", Name: "operator", CreatedAt: d.now}
	if err := d.store.CreateAccount(t.Context(), operator); err != nil {
		t.Fatal(err)
	}
	refused := wire.Refuse(wire.CodePlaintextSecret, "x", "y")
	misuse := func(address, token string) {
		_ = d.Misused(t.Context(), refused, []string{token}, store.Event{Actor: "unknown", Address: address})
	}
	for n := range 300 {
		misuse(fmt.Sprintf("2001:db8:0:%x::1", n), "msa_unknown1")
	}
	const leaks = 30
	for range leaks {
		misuse("192.0.2.9", operator.ID)
	}
	d.Settle(t.Context(), true)
	named := 0
	for _, e := range d.events("bootstrap.refused") {
		if e.Detail["token"] == operator.ID && e.Detail["account"] == "operator" && e.Address == "192.0.2.9" {
			n, err := strconv.Atoi(cmp.Or(e.Detail["more"], "1"))
			if err != nil {
				t.Fatal(err)
			}
			named += n
		}
	}
	if named != leaks {
		t.Errorf("%d of %d leaks are recorded with the token and its account", named, leaks)
	}
}

// TestCountedByActor: refusals of two accounts at one address are not counted as those of one.
func TestCountedByActor(t *testing.T) {
	d := newFixture(t)
	for _, actor := range []string{"account:ci", "account:operator", "account:operator"} {
		d.Refused(t.Context(), store.Event{Kind: "admin.refused", Actor: actor, Address: "192.0.2.9", Outcome: "forbidden"}, true)
	}
	d.Settle(t.Context(), true)
	more := map[string]string{}
	for _, e := range d.events("admin.refused") {
		more[e.Actor] = e.Detail["more"]
	}
	if len(more) != 2 || more["account:ci"] != "1" || more["account:operator"] != "2" {
		t.Errorf("counted by actor: %v", more)
	}
}

// TestRepeated: what differs in credential, network or outcome is another event, and has a sum of its own.
func TestRepeated(t *testing.T) {
	d := newFixture(t)
	count := func(credential, address, outcome string) bool {
		e := store.Event{Kind: "enrol.refused", Actor: "token:" + credential, Tenant: "default", Address: address, Outcome: outcome}
		e.Detail = map[string]string{"credential": credential, "name": "box"}
		return d.Repeated(t.Context(), e)
	}
	for _, c := range []struct {
		credential, address, outcome string
		want                         bool
	}{
		{"mse_a", "2001:db8::1", "token_used", false}, {"mse_a", "2001:db8::2", "token_used", true},
		{"mse_a", "2001:db8:0:1::1", "token_used", false},
		{"mse_a", "2001:db8::1", "name_in_use", false},
		{"mse_b", "2001:db8::1", "token_used", false}, {"mse_b", "2001:db8::1", "token_used", true},
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

// TestSaid: what a node said in a refused result is not lost behind refused calls that said nothing, or something else.
func TestSaid(t *testing.T) {
	d := newFixture(t)
	for _, said := range []string{"", "", "", "completed", "failed", "completed"} {
		e := store.Event{Kind: "task.result_refused", Actor: "node:n", NodeID: "n", Tenant: "default", Address: "192.0.2.7",
			Outcome: "claim_mismatch", Detail: map[string]string{"said": said}}
		if !d.Repeated(t.Context(), e) {
			d.Record(t.Context(), e)
		}
	}
	d.Settle(t.Context(), true)
	got := map[string]int{}
	for _, e := range d.events("task.result_refused") {
		got[e.Detail["said"]+" "+e.Detail["more"]]++
	}
	want := map[string]int{" ": 1, " 2": 1, "completed ": 1, "failed ": 1, "completed 1": 1}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestNameOwner: an event names the owner of the first id on record, and nobody if none is.
func TestNameOwner(t *testing.T) {
	d, node := withToken(t)
	if err := d.store.SetPSK(t.Context(), store.PSK{ID: "psk-00c0ffee", Key: make([]byte, 32), CreatedAt: start}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ids           []string
		known, detail string
		tenant        string
		node          string
	}{
		{nil, "", "", "", ""}, {[]string{"mse_none", "msa_none", "psk-none"}, "", "mse_none", "", ""},
		{[]string{"mse_none", "psk-00c0ffee"}, "psk-00c0ffee", "psk-00c0ffee", "default", ""},
		{[]string{tokenID, "psk-00c0ffee"}, tokenID, tokenID, "platform", node.ID},
	} {
		shared := map[string]string{"method": "GET"}
		e := store.Event{Detail: shared}
		known := d.NameOwner(t.Context(), c.ids, &e)
		if known != c.known || e.Detail["token"] != c.detail || e.Tenant != c.tenant || e.NodeID != c.node || e.Detail["method"] != "GET" {
			t.Errorf("%q: %q, %+v", c.ids, known, e)
		}
		if len(shared) != 1 {
			t.Errorf("%q: the caller's detail is %v now", c.ids, shared)
		}
	}
}

// TestNotRecorded: an event that the database does not take is in the log, by its kind alone.
func TestNotRecorded(t *testing.T) {
	d := newFixture(t)
	var log bytes.Buffer
	trail := audit.New(audit.Config{Store: d.store, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	trail.Record(t.Context())
	if log.Len() != 0 {
		t.Errorf("nothing to record: %s", log.String())
	}
	trail.Refused(t.Context(), store.Event{Kind: "admin.refused", Detail: map[string]string{"path": "/private"}}, false)
	if !strings.Contains(log.String(), "admin.refused") || strings.Contains(log.String(), "/private") {
		t.Errorf("the log is %q", log.String())
	}
}
