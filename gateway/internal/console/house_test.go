package console_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/adminapi"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/artifact/executable"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/console"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/health"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/history"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/logs"
	"muster/gateway/internal/release"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/session"
	"muster/gateway/internal/session/recording"
	"muster/gateway/internal/task"
	"muster/gateway/internal/view"
	"muster/store"
	records "muster/store/health"
	"muster/store/releases"
)

// house is a gateway's insides with the console on top, over TLS.
type house struct {
	t          testing.TB
	store      *store.Store
	logins     *login.Service
	releases   *release.Service
	history    *history.Store // its file is not open before its first turn
	health     *health.Service
	picture    *view.Fleet
	alerts     *alert.Service
	sessions   *session.Service
	recordings *recording.Store
	unwell     []*api.NodeRow // as alerts see the fleet
	desk       *desk          // answers for placement
	now        time.Time
	server     *httptest.Server
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t, now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return h.now }
	quiet := slog.New(slog.DiscardHandler)
	h.store = kit.Store(t, clock)
	nodes, err := fleet.Open(t.Context(), fleet.Config{Store: h.store, Now: clock})
	h.must(err)
	ca, err := authority.Open(t.Context(), authority.Config{Store: h.store, Now: clock, TrustDomain: "muster"})
	h.must(err)
	tasks, err := task.New(t.Context(), task.Config{Store: h.store, Sign: ca.SignTask, Keys: ca.TaskKeys, Now: clock, Logger: quiet})
	h.must(err)
	registry, err := artifact.Open(t.Context(), artifact.Config{Folder: t.TempDir(), Records: h.store.Records(), Now: clock, Logger: quiet})
	h.must(err)
	h.releases, err = release.Open(t.Context(), release.Config{Store: h.store, Artifacts: registry, Sign: ca.SignRelease, Keys: ca.ReleaseKeys,
		Now: clock, Logger: quiet})
	h.must(err)
	h.must(h.releases.Load(t.Context()))
	trail := audit.New(audit.Config{Store: h.store, Now: clock})
	tokens := bootstrap.New(bootstrap.Config{Store: h.store, Now: clock, Audit: trail, Site: site})
	info := &reply.Info{Epoch: "e1", Now: clock, Logger: quiet}
	h.logins = login.New(h.store, clock, quiet)
	proxies, err := origin.NewResolver([]string{"127.0.0.1"}, "")
	h.must(err)
	gate := func(within bool) *account.Gate {
		return account.NewGate(account.Config{Store: h.store, Info: info, Audit: trail, PSKs: tokens, Within: within, Now: clock, Logger: quiet,
			Address: proxies.Address})
	}
	h.history = history.New(history.Config{Path: filepath.Join(t.TempDir(), "history"), Bound: 1 << 30, Now: clock, Logger: quiet})
	h.health, err = health.Open(t.Context(), health.Config{Records: records.New(h.store.Records()), Now: clock, Logger: quiet,
		Ready: func() bool { return true }, Node: func(id string) (*api.NodeRow, bool) { return &api.NodeRow{ID: id}, true },
		Nodes: func() []*api.NodeRow { return nil }})
	h.must(err)
	h.alerts, err = alert.Open(t.Context(), alert.Config{Store: h.store, Now: clock, Ready: func() bool { return true },
		Nodes: func() []*api.NodeRow { return h.unwell }, Node: func(string) (*api.NodeRow, bool) { return nil, false }})
	h.must(err)
	h.recordings, err = recording.Open(recording.Config{Folder: filepath.Join(t.TempDir(), "recordings"), Key: make([]byte, 32), Most: 1 << 20,
		Now: clock, Logger: quiet})
	h.must(err)
	h.sessions, err = session.New(t.Context(), session.Config{Store: h.store, Sign: ca.SignTask, Keys: ca.TaskKeys, Ref: nodes.Ref,
		Record: h.record, Now: clock})
	h.must(err)
	facts := api.Gateway{URL: "https://gw:7443", RootPin: "sha256:00", Version: "test", TrustDomain: "muster"}
	h.picture = view.Open(view.Config{Store: h.store, Ref: nodes.Ref})
	h.picture.Load(t.Context())
	log, err := audit.OpenTail(t.Context(), audit.TailConfig{Store: h.store})
	if err != nil {
		t.Fatal(err)
	}
	api := adminapi.API{Gate: gate(true), Fleet: nodes, Bootstrap: tokens, Tasks: tasks, Releases: h.releases, Store: h.store, Tail: log,
		Logins: h.logins, Overview: h.picture, Authority: ca, Info: info, Now: clock, Logger: quiet,
		Gateway: facts, History: h.history, Health: h.health, Alerts: h.alerts, Sessions: h.sessions, Recordings: h.recordings,
		Logs:    logs.New(logs.Config{Open: h.openLog, Now: clock}),
		Command: func(token, _ string) string { return "join with " + token }}
	h.desk = &desk{info: info, rest: api.Routes()}
	console := console.New(console.Config{API: h.desk, Gate: gate(false), Logins: h.logins, Info: info, Address: proxies.Address,
		Gateway: facts, MAAS: true, Now: clock, Logger: quiet})
	h.server = httptest.NewTLSServer(console)
	t.Cleanup(h.server.Close)
	return h
}

func site() (bootstrap.Site, error) {
	return bootstrap.Site{NodeURL: "https://gw:7443", FirstHop: "https://gw:7443", FirstHopTrust: bootstrap.SystemTrust, TrustNumber: 2,
		Agents: []wire.Platform{{OS: "linux", Arch: "amd64", SHA256: strings.Repeat("ab", 32), Path: "/agent/linux/amd64"}}}, nil
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// account makes an account and gives its API token.
func (h *house) account(a store.Account) (store.Account, string) {
	h.t.Helper()
	a.CreatedAt = h.now
	token, err := account.Mint(&a, nil)
	h.must(err)
	h.must(h.store.CreateAccount(h.t.Context(), a))
	return a, token.Reveal()
}

// operator is a browser that is logged in as an account with all scopes.
func (h *house) operator() *browser {
	h.t.Helper()
	_, token := h.account(store.Account{Name: "operator", Scopes: []string{api.ScopeAll}})
	return h.browser(token)
}

// browser keeps cookies, and follows no redirect.
type browser struct {
	*house
	http *http.Client
}

// browser is a new one. With a token it logs in.
func (h *house) browser(token string) *browser {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	h.must(err)
	one := *h.server.Client()
	one.Jar = jar
	one.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b := &browser{h, &one}
	if token != "" {
		if got := b.post("/ui/login", "token", token); got.status != http.StatusSeeOther {
			h.t.Fatalf("login: %d %s", got.status, got.body)
		}
	}
	return b
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (b *browser) do(r *http.Request) answer {
	b.t.Helper()
	response, err := b.http.Do(r)
	b.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	b.must(err)
	return answer{response.StatusCode, response.Header, string(body)}
}

func (b *browser) get(path string) answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.server.URL+path, nil)
	b.must(err)
	return b.do(r)
}

var formField = regexp.MustCompile(`name="form" value="([0-9a-f]{64})"`)

// formText is what the forms of the browser's session hold.
func (b *browser) formText() string {
	found := formField.FindStringSubmatch(b.get("/ui/account").body)
	if found == nil {
		return ""
	}
	return found[1]
}

// post sends a form as the console's own page does. Values are names and texts in turn.
func (b *browser) post(path string, values ...string) answer {
	b.t.Helper()
	form := url.Values{}
	if path != "/ui/login" {
		form.Set("form", b.formText())
	}
	for i := 0; i < len(values); i += 2 {
		form.Add(values[i], values[i+1])
	}
	return b.do(b.form(path, form))
}

func (b *browser) form(path string, form url.Values) *http.Request {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.server.URL+path, strings.NewReader(form.Encode()))
	b.must(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

// enrolled makes an active node, which can have tasks.
func (h *house) enrolled(name, tenant string, labels map[string]string) task.Claimer {
	h.t.Helper()
	ctx := h.t.Context()
	c := task.Claimer{NodeID: "id-" + name, Enrolment: "e-" + name, Fingerprint: "print-" + name, Proof: "tls:print-" + name}
	token := store.Token{ID: "mse_" + name, Tenant: tenant, Uses: 1, Labels: labels, Key: []byte("k"), CreatedAt: h.now,
		ExpiresAt: h.now.Add(time.Hour)}
	h.must(errors.Join(h.store.CreateToken(ctx, token), h.store.Enrol(ctx, store.Enrolment{ID: c.Enrolment, Credential: token.ID,
		ConsumeToken: true, KeyHash: "key-" + name, At: h.now, NewNode: true, CredentialLabels: labels,
		Node: store.Node{ID: c.NodeID, Name: name, Tenant: tenant, State: wire.StateEnrolled},
		Certificate: store.Certificate{Fingerprint: c.Fingerprint, KeyHash: "key-" + name, PublicKey: []byte(name), Chain: "chain",
			NotBefore: h.now, NotAfter: h.now.Add(24 * time.Hour), IssuedAt: h.now}})))
	h.must(h.store.MoveNode(ctx, store.Move{NodeID: c.NodeID, From: wire.StateEnrolled, To: wire.StateActive, At: h.now}))
	h.picture.Load(ctx)
	return c
}

// release puts a build of the agent on record, and gives its digest.
func (h *house) release(version string) string {
	h.t.Helper()
	agents := fstest.MapFS{"linux-amd64/muster-agent": {Data: executable.Least("amd64", "")}}
	_, err := h.releases.Import(h.t.Context(), agents, version)
	h.must(err)
	all, err := releases.New(h.store.Records()).Releases(h.t.Context())
	h.must(err)
	at := slices.IndexFunc(all, func(r releases.Release) bool { return r.Version == version }) // two of one moment are in no order
	return all[at].Digest
}

// node is what the database has of one.
func (h *house) node(name string) store.Node {
	h.t.Helper()
	n, err := h.store.Node(h.t.Context(), "", "id-"+name)
	h.must(err)
	return n
}
