package ship_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/logs/ship"
	"muster/store"
)

var operator = store.Actor{Name: "account:ops", Address: "192.0.2.7"}

// house is a gateway's part for shipping, with a few nodes.
type house struct {
	t       testing.TB
	store   *store.Store
	service *ship.Service
	path    string
	nodes   map[string]*api.NodeRow
	kill    func()
	said    *bytes.Buffer

	mu      sync.Mutex
	now     time.Time
	longest time.Duration // that the part wanted to wait
}

func newHouse(t testing.TB) *house {
	h := &house{t: t, path: t.TempDir(), said: &bytes.Buffer{}, now: time.Now().UTC(), nodes: map[string]*api.NodeRow{}}
	for _, name := range []string{"gpu-1", "gpu-2", "lab-1"} {
		tenant, tier, _ := strings.Cut(map[string]string{"gpu-1": "a/prod", "gpu-2": "b/prod", "lab-1": "a/lab"}[name], "/")
		h.nodes["n-"+name] = &api.NodeRow{ID: "n-" + name, Name: name, Tenant: tenant, Labels: map[string]string{"tier": tier}}
	}
	var err error
	h.store, err = store.Open(t.Context(), store.Options{Path: filepath.Join(h.path, "muster.db"), MasterKey: bytes.Repeat([]byte{7}, 32)})
	h.must(err)
	t.Cleanup(func() { _ = h.store.Close() })
	h.open()
	return h
}

func (h *house) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// open starts the part. Who calls kill leaves it as a killed process does: nothing is closed.
func (h *house) open() {
	var err error
	h.service, err = ship.Open(h.t.Context(), ship.Config{
		Store: h.store, Folder: filepath.Join(h.path, "logs"), Bound: 1 << 20, Now: h.clock, Rand: func() float64 { return 0 },
		Wait:   h.wait,
		Node:   func(id string) (*api.NodeRow, bool) { n, ok := h.nodes[id]; return n, ok },
		Logger: slog.New(slog.NewTextHandler(h.said, nil)),
	})
	h.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func(d *ship.Service) { defer close(ended); _ = d.Run(ctx) }(h.service)
	h.kill = func() { cancel(); <-ended }
	h.t.Cleanup(func() { h.kill() })
}

// wait waits for a moment, however long the part wants to.
func (h *house) wait(_ context.Context, d time.Duration) {
	h.mu.Lock()
	h.longest = max(h.longest, d)
	h.mu.Unlock()
	time.Sleep(time.Millisecond)
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) rule(name string, q api.LogShippingRequest) {
	h.t.Helper()
	if q.Sources == nil {
		q.Sources = []string{wire.LogAgent}
	}
	h.must(h.service.Put(h.t.Context(), name, q, "", operator))
}

func (h *house) batch(first int64, texts ...string) wire.LogBatch {
	b := wire.LogBatch{Spool: "0123456789abcdef", First: first}
	for _, text := range texts {
		b.Lines = append(b.Lines, wire.LogLine{Time: h.clock(), Source: wire.LogAgent, Level: "info", Message: text})
	}
	return b
}

func (h *house) take(node string, b wire.LogBatch) (wire.LogTaken, error) {
	body, err := json.Marshal(b)
	h.must(err)
	return h.service.Take(h.t.Context(), "n-"+node, body)
}

// until waits for something that another goroutine does.
func (h *house) until(what string, done func() bool) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("%s does not come; %+v; the log: %s", what, h.service.Rules(""), h.said)
		}
	}
}

func (h *house) view(name string) api.LogShipping {
	h.t.Helper()
	for _, r := range h.service.Rules("") {
		if r.Name == name {
			return r
		}
	}
	h.t.Fatalf("there is no rule %s", name)
	return api.LogShipping{}
}

// TestWanted: a node ships what the rules of its tenant and labels say, all together; without rules nothing is looked up.
func TestWanted(t *testing.T) {
	h := newHouse(t)
	if h.service.Wanted("n-gpu-1", nil) != nil {
		t.Error("without a rule something is wanted")
	}
	h.rule("prod", api.LogShippingRequest{To: "http://192.0.2.1", Selector: "tier=prod", Sources: []string{"kernel", "agent"}})
	h.rule("of-a", api.LogShippingRequest{To: "http://192.0.2.1", Tenant: "a", Sources: []string{"boot", "agent"}, BytesPerSecond: 1 << 20})
	for id, want := range map[string]string{"n-gpu-1": "agent,boot,kernel 1048576", "n-gpu-2": "agent,kernel 65536",
		"n-lab-1": "agent,boot 1048576"} {
		got := h.service.Wanted(id, nil)
		if text := fmt.Sprint(strings.Join(got.Sources, ","), " ", got.BytesPerSecond); text != want {
			t.Errorf("%s: %s, want %s", id, text, want)
		}
	}
	if h.service.Wanted("n-unknown", map[string]string{"agent": "no"}) != nil {
		t.Error("an unknown node ships")
	}
}

// TestWithheld: a rule says how many of its nodes do not ship what it wants, and why one does not, until they do or it is not theirs.
func TestWithheld(t *testing.T) {
	h := newHouse(t)
	h.rule("prod", api.LogShippingRequest{To: "http://192.0.2.1", Selector: "tier=prod", Sources: []string{"kernel", "agent"}})
	h.rule("of-a", api.LogShippingRequest{To: "http://192.0.2.1", Tenant: "a", Sources: []string{"agent"}})
	const no = "the policy of this node forbids session.logs"
	check := func(rule string, nodes int, why string) {
		t.Helper()
		if v := h.view(rule); v.Withheld != nodes || v.WithheldWhy != why {
			t.Errorf("%s: %d nodes, %q", rule, v.Withheld, v.WithheldWhy)
		}
	}
	check("prod", 0, "")
	h.service.Wanted("n-gpu-2", map[string]string{"agent": no, "kernel": no})
	h.service.Wanted("n-gpu-1", map[string]string{"kernel": strings.Repeat("x", 199) + "é", "boot": no})
	check("prod", 2, "gpu-1 does not ship kernel: "+strings.Repeat("x", 199))
	check("of-a", 0, "")
	h.service.Wanted("n-gpu-1", nil)
	check("prod", 1, "gpu-2 does not ship agent: "+no)
	h.service.Wanted("n-lab-1", map[string]string{"agent": no})
	check("of-a", 1, "lab-1 does not ship agent: "+no)
	delete(h.nodes, "n-lab-1")
	check("of-a", 0, "")
}

// TestShipped: lines come to the sink with few labels, what is of the line as metadata, gzip, and the header of the tenant.
func TestShipped(t *testing.T) {
	h := newHouse(t)
	l := newLoki(t, h.clock)
	h.rule("prod", api.LogShippingRequest{To: l.URL, Selector: "tier=prod", Sources: []string{"agent", "kernel"},
		Basic: "user:pass-5d4c", TenantID: "fleet"})
	b := h.batch(1, "one", "two")
	b.Lines[0].Fields = map[string]string{"unit.name": "x", "9": "y", "node_id": "forged"}
	b.Lines[1].Time = h.clock().Add(-30 * 24 * time.Hour)
	b.Lines = append(b.Lines, wire.LogLine{Time: h.clock().Add(time.Hour), Source: "kernel", Message: strings.Repeat("k", 300<<10)})
	b.Lines = append(b.Lines, wire.LogLine{Time: h.clock(), Source: "boot", Message: "nobody asked for this"})
	taken, err := h.take("gpu-1", b)
	if err != nil || taken.Next != 5 {
		t.Fatalf("%+v, %v", taken, err)
	}
	h.until("the lines", func() bool { return h.view("prod").Sent == 3 })
	if got := l.of("a/gpu-1/agent"); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("%q", got)
	}
	if got := l.of("a/gpu-1/kernel"); len(got) != 1 || len(got[0]) != wire.MaxLogLine || len(l.lines) != 2 {
		t.Errorf("%d kernel lines, streams %d", len(got), len(l.lines))
	}
	if m := l.meta[0]; m["unit_name"] != "x" || m["_9"] != "y" || m["node_id"] != "n-gpu-1" || m["level"] != "info" {
		t.Errorf("metadata %v", m)
	}
	if m := l.meta[1]; m["node_time"] == "" || !l.times[1].Equal(h.clock()) {
		t.Errorf("a line of last month: %v at %s", m, l.times[1])
	}
	if l.meta[2]["cut_bytes"] == "" || l.header.Get("X-Scope-OrgID") != "fleet" || l.header.Get("Authorization") == "" {
		t.Errorf("metadata %v, header %v", l.meta[2], l.header)
	}
	h.until("an empty buffer", func() bool { return h.view("prod").Waiting == 0 && h.view("prod").LagSeconds == 0 })
}

// TestOnce: a batch that comes again is not taken again, nor is a part of one. Another spool begins anew.
func TestOnce(t *testing.T) {
	h := newHouse(t)
	l := newLoki(t, h.clock)
	h.rule("prod", api.LogShippingRequest{To: l.URL})
	for range 3 {
		taken, err := h.take("gpu-1", h.batch(1, "one", "two"))
		if err != nil || taken.Next != 3 {
			t.Fatalf("%+v, %v", taken, err)
		}
	}
	_, err := h.take("gpu-1", h.batch(2, "two", "three"))
	h.must(err)
	other := h.batch(1, "four")
	other.Spool = "fedcba9876543210"
	_, err = h.take("gpu-1", other)
	h.must(err)
	h.until("the lines", func() bool { return h.view("prod").Sent == 4 })
	if got := l.lines["a/gpu-1/agent"]; !slices.Equal(got, []string{"one", "two", "three", "four"}) {
		t.Errorf("%q", got)
	}
}

// TestBadBatch: what is no batch is refused, and what a node says of its lines is kept within bounds.
func TestBadBatch(t *testing.T) {
	h := newHouse(t)
	l := newLoki(t, h.clock)
	h.rule("prod", api.LogShippingRequest{To: l.URL})
	for _, body := range []string{"", "{", `{"spool":"","first":1}`, `{"spool":"a/../b","first":1}`,
		`{"spool":"a","first":0}`, `{"spool":"a","first":"1"}`} {
		if _, err := h.service.Take(t.Context(), "n-gpu-1", []byte(body)); code(err) != wire.CodeBadRequest {
			t.Errorf("%q: %v", body, err)
		}
	}
	if _, err := h.take("unknown", h.batch(1, "x")); code(err) != wire.CodeUnavailable {
		t.Errorf("an unknown node: %v", err)
	}
	b := h.batch(1, "a line")
	b.Lines[0] = wire.LogLine{Source: "agent", Level: "loud", Message: "x", Dropped: 7, Cut: -1, Fields: map[string]string{}}
	for i := range 100 {
		b.Lines[0].Fields[fmt.Sprint(i)] = "y"
	}
	_, err := h.take("gpu-1", b)
	h.must(err)
	h.until("the line", func() bool { return h.view("prod").Sent == 1 })
	if h.view("prod").Dropped[ship.ReasonNode] != 7 || l.meta[0]["dropped_lines"] != "7" || l.meta[0]["level"] != "" || len(l.meta[0]) > wire.MaxLogFields+2 {
		t.Errorf("%v, dropped %v", l.meta[0], h.view("prod").Dropped)
	}
}

func code(err error) string {
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// TestRates: a node above its rate is asked to wait, and its lines are taken later. One tenant's nodes leave others their room.
func TestRates(t *testing.T) {
	h := newHouse(t)
	l := newLoki(t, h.clock)
	h.rule("prod", api.LogShippingRequest{To: l.URL, BytesPerSecond: 1 << 10})
	first := int64(1)
	paused := 0
	for range 20 {
		taken, err := h.take("gpu-1", h.batch(first, numbered(int(first), int(first)+10)...))
		h.must(err)
		if taken.PauseSeconds > 0 {
			paused++
			if taken.Next != first {
				t.Fatalf("%+v", taken)
			}
			h.mu.Lock()
			h.now = h.now.Add(time.Duration(taken.PauseSeconds) * time.Second)
			h.mu.Unlock()
			continue
		}
		first += 10
	}
	if paused < 3 || h.service.Held()["a"] != int64(paused) || first < 50 {
		t.Errorf("%d pauses, %v held, number %d", paused, h.service.Held(), first)
	}
	if taken, err := h.take("gpu-2", h.batch(1, "another node")); err != nil || taken.PauseSeconds != 0 {
		t.Errorf("%+v, %v", taken, err)
	}
}

// TestTrouble: whatever the sink answers, and wherever the gateway is killed, every line comes at least once and in order, or is counted.
func TestTrouble(t *testing.T) {
	h := newHouse(t)
	l := newLoki(t, h.clock)
	l.next(says(429, "text/plain", "rate limit"), says(500, "text/plain", "broken"), says(200, "text/html", "<html>"), nothing,
		says(260, "text/plain", ""), http.RedirectHandler("http://192.0.2.1/", http.StatusTemporaryRedirect).ServeHTTP)
	h.rule("prod", api.LogShippingRequest{To: l.URL})
	all := numbered(0, 400)
	for at := 0; at < len(all); at += 40 {
		taken, err := h.take("gpu-1", h.batch(int64(at+1), all[at:at+40]...))
		if err != nil || taken.Next != int64(at+41) {
			t.Fatalf("%+v, %v", taken, err)
		}
		if at%120 == 0 {
			h.kill()
			h.open()
			taken, err = h.take("gpu-1", h.batch(int64(at+1), all[at:at+40]...)) // the answer was lost: it comes again
			if err != nil || taken.Next != int64(at+41) {
				t.Fatalf("%+v, %v", taken, err)
			}
		}
	}
	h.until("the lines", func() bool { return len(l.of("a/gpu-1/agent")) == 400 && h.view("prod").Waiting == 0 })
	if got := l.of("a/gpu-1/agent"); !slices.Equal(got, all) {
		t.Errorf("the order is lost: %q", got)
	}
	if v := h.view("prod"); v.FailingSince != nil || v.Error != "" || len(v.Dropped) > 1 {
		t.Errorf("%+v", v)
	}
	l.next(says(400, "text/plain", "entry too far behind\x1b[2J, for stream {x}"))
	_, err := h.take("gpu-1", h.batch(401, "refused"))
	h.must(err)
	h.until("the refusal", func() bool { return h.view("prod").Dropped[ship.ReasonRefused] == 1 })
	const named = "status 400: it refuses lines: entry too far behind [2J, for stream {x}"
	if v := h.view("prod"); !strings.Contains(v.Error, named) || v.FailingSince == nil {
		t.Errorf("%+v", v)
	}
	_, err = h.take("gpu-1", h.batch(402, "taken"))
	h.must(err)
	h.until("a good push", func() bool { return h.view("prod").FailingSince == nil })
}

// TestSinkAsksToWait: a sink that says how long it takes nothing is left alone for so long.
func TestSinkAsksToWait(t *testing.T) {
	h := newHouse(t)
	l := newLoki(t, h.clock)
	l.next(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	h.rule("prod", api.LogShippingRequest{To: l.URL})
	_, err := h.take("gpu-1", h.batch(1, "one"))
	h.must(err)
	h.until("the line", func() bool { return h.view("prod").Sent == 1 })
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.longest != 2*time.Minute {
		t.Errorf("it waited for %v", h.longest)
	}
}

// TestFailing: while a sink fails it is said since when and why, and the buffer bounds what is kept; another sink goes on.
func TestFailing(t *testing.T) {
	h := newHouse(t)
	down := newLoki(t, h.clock)
	down.Close()
	l := newLoki(t, h.clock)
	h.rule("down", api.LogShippingRequest{To: down.URL})
	h.rule("up", api.LogShippingRequest{To: l.URL, BytesPerSecond: 1 << 20})
	for at := range 3 {
		var texts []string
		for i := range 12 {
			texts = append(texts, fmt.Sprint(at*12+i, " ", strings.Repeat("z", 60<<10)))
		}
		_, err := h.take("gpu-1", h.batch(int64(at*12+1), texts...))
		h.must(err)
		h.until("the lines", func() bool { return len(l.of("a/gpu-1/agent")) == at*12+12 })
	}
	h.until("the failure", func() bool { return h.view("down").FailingSince != nil })
	v := h.view("down")
	if !strings.Contains(v.Error, "nothing listens") || v.Dropped[ship.ReasonBuffer] == 0 || v.BufferBytes > 1<<20 || v.Sent != 0 {
		t.Errorf("%+v", v)
	}
}

// TestTest: a test line tells what the sink answers, with what to do.
func TestTest(t *testing.T) {
	h := newHouse(t)
	l := newLoki(t, h.clock)
	h.rule("prod", api.LogShippingRequest{To: l.URL})
	if got, err := h.service.Test(t.Context(), "prod", "", operator); err != nil || got.Error != "" || got.Status != 204 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, answer := range []http.HandlerFunc{says(401, "text/plain", ""), says(404, "text/plain", ""), says(302, "text/plain", ""),
		says(503, "text/plain", ""), says(418, "text/plain", ""), says(200, "text/plain", "ok"), nothing} {
		l.next(answer)
		got, err := h.service.Test(t.Context(), "prod", "", operator)
		if err != nil || got.Error == "" || got.Next == "" || strings.Contains(got.Error, "loki/api") {
			t.Errorf("%+v, %v", got, err)
		}
	}
	h.rule("meta", api.LogShippingRequest{To: "http://169.254.169.254"})
	if got, err := h.service.Test(t.Context(), "meta", "", operator); err != nil || !strings.Contains(got.Error, "pushes nothing") {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzTake: whatever a node sends, it is refused or taken, and what is taken can be pushed.
func FuzzTake(f *testing.F) {
	f.Add([]byte(`{"spool":"a","first":1,"lines":[{"time":"2026-01-01T00:00:00Z","source":"agent","message":"x","dropped":1}]}`))
	f.Add([]byte(`{"spool":"a","first":9007199254740991,"lines":[{},{}]}`))
	h := newHouse(f)
	l := newLoki(f, h.clock)
	h.rule("prod", api.LogShippingRequest{To: l.URL, BytesPerSecond: 64 << 20})
	f.Fuzz(func(t *testing.T, body []byte) {
		taken, err := h.service.Take(t.Context(), "n-gpu-1", body)
		if err == nil && taken.Next < 1 {
			t.Errorf("%+v", taken)
		}
	})
}
