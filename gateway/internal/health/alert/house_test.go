package alert_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/health/condition"
	"muster/store"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// house is a desk with a fleet, a clock and a database of the test's own.
type house struct {
	t      *testing.T
	path   string
	store  *store.Store
	desk   *alert.Service
	config alert.Config
	log    bytes.Buffer
	by     store.Actor

	mu    sync.Mutex
	now   time.Time
	nodes []*api.NodeRow
	facts []alert.Fact
	ready bool
}

func newHouse(t *testing.T, nodes ...*api.NodeRow) *house {
	t.Helper()
	h := &house{t: t, path: filepath.Join(t.TempDir(), "db"), now: start, nodes: nodes, ready: true, by: store.Actor{Name: "account:ops"}}
	h.openStore()
	h.config = alert.Config{
		Ready: func() bool { return h.ready }, Nodes: func() []*api.NodeRow { return h.nodes }, Node: h.node,
		Facts: func() []alert.Fact { return h.facts }, URL: func() string { return "https://gw.example" },
		Rand: func() float64 { return 1 }, Now: h.clock, Logger: slog.New(slog.NewTextHandler(&h.log, nil)),
	}
	h.open()
	return h
}

func (h *house) openStore() {
	h.t.Helper()
	s, err := store.Open(h.t.Context(), store.Options{Path: h.path, MasterKey: make([]byte, 32), Now: h.clock})
	h.must(err)
	h.store = s
	h.t.Cleanup(func() { _ = s.Close() })
}

// open makes a desk anew on the same database, as a start of the gateway does.
func (h *house) open() {
	h.t.Helper()
	var err error
	h.config.Store = h.store
	h.desk, err = alert.Open(h.t.Context(), h.config)
	h.must(err)
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *house) node(id string) (*api.NodeRow, bool) {
	at := slices.IndexFunc(h.nodes, func(n *api.NodeRow) bool { return n.ID == id })
	if at < 0 {
		return nil, false
	}
	return h.nodes[at], true
}

// pass lets time pass in steps of five seconds, with a round and all deliveries after each.
func (h *house) pass(d time.Duration) {
	h.t.Helper()
	for end := h.clock().Add(d); h.clock().Before(end); {
		h.mu.Lock()
		h.now = h.now.Add(min(5*time.Second, end.Sub(h.now)))
		h.mu.Unlock()
		h.step()
	}
}

func (h *house) step() {
	h.t.Helper()
	h.desk.Round()
	h.desk.Flush(h.t.Context())
	h.desk.Send(h.t.Context())
	h.desk.Flush(h.t.Context())
}

// firing are the causes and subjects that are open, sorted.
func (h *house) firing() string {
	var all []string
	for _, a := range h.desk.List(alert.Query{}) {
		subject := a.Subject
		if a.Node != "" {
			subject = a.Node
		}
		if len(a.NodeIDs) > 0 {
			subject = fmt.Sprintf("%d nodes", len(a.NodeIDs))
		}
		all = append(all, a.Cause+" "+subject)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (h *house) want(when, want string) {
	h.t.Helper()
	if got := h.firing(); got != want {
		h.t.Errorf("%s: %q fires, want %q", when, got, want)
	}
}

// count counts events of a kind.
func (h *house) count(kind string) int {
	h.t.Helper()
	events, err := h.store.Events(h.t.Context(), store.EventQuery{Kind: kind, Limit: 1000})
	h.must(err)
	return len(events)
}

// gpu is a node that is well.
func gpu(name string) *api.NodeRow {
	seen := start
	two := 2
	return &api.NodeRow{ID: "id-" + name, Name: name, Tenant: "platform", State: wire.StateActive, Status: wire.StatusOnline, Fresh: true,
		LastSeen: &seen, StateSince: start, GPUsExpected: &two, GPUs: make([]api.GPU, 2), Labels: map[string]string{"tier": "lab"}}
}

// halt is a rollout on a channel that was halted.
func halt(channel string) []alert.Fact {
	return []alert.Fact{{Condition: condition.RolloutHalted, Subject: channel, Text: "2 of 2 failed"}}
}

// outage is of the database.
func outage(since time.Time) []alert.Fact {
	return []alert.Fact{{Condition: condition.GatewayCannotWrite, Subject: "database", Since: since, Text: "disk full"}}
}

func stale(n *api.NodeRow) { n.Status = wire.StatusStale }

// back lets a node be heard of again.
func (h *house) back(n *api.NodeRow) {
	at := h.clock()
	n.LastSeen = &at
	n.Status = wire.StatusOnline
}

// hook is a receiver: a real server.
type hook struct {
	*httptest.Server
	mu      sync.Mutex
	got     []got
	answer  func(w http.ResponseWriter, r *http.Request)
	release chan struct{} // nil: it answers at once
}

type got struct {
	header http.Header
	path   string
	body   string
	alert  map[string]any
}

func newHook(t *testing.T) *hook {
	t.Helper()
	k := &hook{}
	k.Server = httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.Close)
	return k
}

func (k *hook) serve(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	one := got{header: r.Header.Clone(), path: r.URL.Path, body: string(raw)}
	_ = json.Unmarshal(raw, &one.alert)
	k.mu.Lock()
	k.got = append(k.got, one)
	answer, release := k.answer, k.release
	k.mu.Unlock()
	if release != nil {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	if answer != nil {
		answer(w, r)
	}
}

func (k *hook) answers(answer func(w http.ResponseWriter, r *http.Request)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answer = answer
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func (k *hook) all() []got {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.got)
}

// states are the states that a webhook heard, in order.
func (k *hook) states() string {
	var all []string
	for _, one := range k.all() {
		all = append(all, fmt.Sprint(one.alert["state"]))
	}
	return strings.Join(all, " ")
}

// set adds or changes a receiver, and gives the secret that is shown once.
func (h *house) set(name string, q api.AlertReceiverRequest) (string, error) {
	made, err := h.desk.SetReceiver(context.Background(), name, q, h.by)
	return made.Secret, err
}

// webhook adds a receiver of a kind at a hook, and gives its secret.
func (h *house) receiver(kind, name string, k *hook) string {
	h.t.Helper()
	secret, err := h.set(name, api.AlertReceiverRequest{Kind: kind, URL: k.URL + "/path-9f8e7d"})
	h.must(err)
	return secret
}

func (h *house) contact(name string) api.AlertReceiver {
	h.t.Helper()
	for _, r := range h.desk.Receivers() {
		if r.Name == name {
			return r
		}
	}
	h.t.Fatalf("there is no receiver %s", name)
	return api.AlertReceiver{}
}

func (h *house) silence(q api.AlertSilenceRequest) api.AlertSilence {
	h.t.Helper()
	s, err := h.desk.Silence(h.t.Context(), q, h.by)
	h.must(err)
	return s
}
