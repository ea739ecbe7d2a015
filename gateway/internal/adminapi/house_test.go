package adminapi_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/adminapi"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/history/cost"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/placement"
	"muster/gateway/internal/placement/inventory"
	"muster/gateway/internal/placement/usage"
	"muster/gateway/internal/release"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/session"
	"muster/gateway/internal/task"
	"muster/gateway/internal/view"
	"muster/gateway/internal/view/reading"
	"muster/store"
	"muster/store/costs"
	slots "muster/store/placement"
)

// house is a gateway's insides with the admin API on top.
type house struct {
	t     testing.TB
	store *store.Store
	audit *audit.Trail
	api   adminapi.API
	now   time.Time

	setting   sync.Mutex // held while now changes beside a stream
	artifacts *artifact.Registry
}

func (h *house) clock() time.Time {
	h.setting.Lock()
	defer h.setting.Unlock()
	return h.now
}

// later lets time pass beside a stream.
func (h *house) later(d time.Duration) {
	h.setting.Lock()
	defer h.setting.Unlock()
	h.now = h.now.Add(d)
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t, now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
	clock := h.clock
	var err error
	h.store = kit.Store(t, clock)
	reg, err := fleet.Open(t.Context(), fleet.Config{Store: h.store, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := authority.Open(t.Context(), authority.Config{Store: h.store, Now: clock, TrustDomain: "muster"})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	desk, err := task.New(t.Context(), task.Config{Store: h.store, Sign: ca.SignTask, Keys: ca.TaskKeys, Now: clock, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	live, err := session.New(t.Context(), session.Config{Store: h.store, Sign: ca.SignTask, Keys: ca.TaskKeys, Ref: reg.Ref, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := artifact.Open(t.Context(), artifact.Config{Folder: t.TempDir(), Records: h.store.Records(), Now: clock, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	releases, err := release.Open(t.Context(), release.Config{Store: h.store, Artifacts: registry, Sign: ca.SignRelease, Keys: ca.ReleaseKeys,
		Now: clock, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if err := releases.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.artifacts = registry
	h.audit = audit.New(audit.Config{Store: h.store, Now: clock})
	h.api = adminapi.API{
		Fleet: reg, Bootstrap: bootstrap.New(bootstrap.Config{Store: h.store, Now: clock}), Tasks: desk, Sessions: live, Releases: releases,
		Store:     h.store,
		Overview:  view.Open(view.Config{Store: h.store, Ref: reg.Ref}),
		Logins:    login.New(h.store, clock, quiet),
		Authority: ca,
		Scratch:   t.TempDir(),
		Info:      &reply.Info{Epoch: "e1", Now: clock, Logger: quiet}, Now: clock, Logger: quiet,
		Gateway: api.Gateway{URL: "https://gw:7443", RootPin: "sha256:00", Version: "test", TrustDomain: "muster"},
		Command: func(token, at string) string { return "join with " + token + at },
	}
	h.api.Costs = cost.New(cost.Config{Records: costs.New(h.store.Records()), Ready: h.api.Overview.Ready, Nodes: h.rows, Now: clock})
	h.api.Overview.ShowCosts(h.api.Costs.Today)
	h.api.Placement, err = placement.Open(t.Context(), placement.Config{Config: inventory.Config{Store: h.store,
		Records: slots.New(h.store.Records()),
		Ready:   h.api.Overview.Ready, Node: h.api.Overview.Row, Nodes: h.rows, Placed: h.api.Overview.Placed, Now: clock,
		Taken: func(*api.NodeRow) []string { return nil },
		Send:  func(context.Context, inventory.Order) error { return nil }}})
	if err != nil {
		t.Fatal(err)
	}
	h.api.Usage, err = usage.Open(t.Context(), usage.Config{Records: slots.New(h.store.Records()), Holds: h.api.Placement.Holds,
		Node: h.api.Overview.Row, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	h.api.Overview.Load(t.Context())
	if h.api.Tail, err = audit.OpenTail(t.Context(), audit.TailConfig{Store: h.store}); err != nil {
		t.Fatal(err)
	}
	h.api.Tail.Add(h.api.Overview.Changed)
	return h
}

func (h *house) rows() []*api.NodeRow {
	rows, _ := h.api.Overview.Rows(view.Query{})
	return rows
}

// routes are the API's on a listener: on TLS, or on the socket. Each time they begin with nobody refused.
func (h *house) routes(socket bool) *adminapi.Handler {
	api := h.api
	api.Gate = account.NewGate(account.Config{Store: h.store, Info: api.Info, Audit: h.audit, PSKs: api.Bootstrap, Socket: socket,
		Now: api.Now, Logger: api.Logger,
		Address: new(origin.Resolver).Address})
	return api.Routes()
}

// account makes an account and gives its API token.
func (h *house) account(name, tenant string, scopes ...string) string {
	h.t.Helper()
	return h.accountWith(store.Account{Name: name, Tenant: tenant, Scopes: scopes})
}

func (h *house) accountWith(a store.Account) string {
	h.t.Helper()
	a.CreatedAt = h.now
	token, err := account.Mint(&a, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.store.CreateAccount(h.t.Context(), a); err != nil {
		h.t.Fatal(err)
	}
	return token.Reveal()
}

// node makes an active node that was heard from just now.
func (h *house) node(name, tenant, hardware string) string {
	h.t.Helper()
	ctx := h.t.Context()
	id := "id-" + name
	err := h.store.CreateNode(ctx, store.Node{ID: id, Name: name, Tenant: tenant, CreatedAt: h.now, StateSince: h.now},
		map[string]string{"tier": "sovereign"}, store.Event{At: h.now, Kind: "node.created", NodeID: id, NodeName: name, Tenant: tenant,
			Outcome: "ok"})
	if err == nil {
		err = h.store.MoveNode(ctx, store.Move{NodeID: id, From: "ready", To: "active", At: h.now})
	}
	if err == nil && hardware != "" {
		err = h.store.SaveBeats(ctx, []store.Beat{{NodeID: id, At: h.now, RunID: "r", Counter: 1, Interval: 30 * time.Second,
			Address: "192.0.2.7", Agent: `{"version":"1.2.3","os":"linux","arch":"amd64"}`, Hardware: written(h.t, hardware)}}, h.now)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// written is a reading as the node API decodes it and the fleet writes it.
func written(t testing.TB, hardware string) string {
	t.Helper()
	b, err := reading.ParseHeartbeat([]byte(`{"run_id":"run00001","interval_seconds":30,"hardware":` + hardware + `}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(b.Hardware)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ask sends one request to the TLS face of the API, with a token, or to the socket's without.
func (h *house) ask(method, path, token string, body string) (int, []byte) {
	h.t.Helper()
	return serve(h.t, h.routes(token == ""), method, path, token, body)
}

func serve(t testing.TB, handler http.Handler, method, path, token, body string) (int, []byte) {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, "/api/v1/admin/"+path, bytes.NewReader([]byte(body)))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

func code(body []byte) string {
	var e wire.Error
	_ = json.Unmarshal(body, &e)
	return e.Error.Code
}

func decode[T any](t testing.TB, body []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

// rootOf is the certificate of a new authority, in DER.
func rootOf(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another root"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
