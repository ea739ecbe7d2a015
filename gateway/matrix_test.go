package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/adminapi"
	"muster/gateway/internal/adminapi/metrics"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/nodeapi"
	"muster/gateway/internal/oci"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/task"
	"muster/store"
)

// Tenants. No answer to an account of the second may hold a word of the first.
const (
	ours   = "ours-1729"
	theirs = "theirs"
)

// matrix asks every route, in every way and as every kind of caller, and compares the answer with what the tables say.
type matrix struct {
	t       *testing.T
	gateway *gateway
	visits  visits
	made    int
	asked   int

	token      store.Token // of the nodes that call
	enrolToken sign.Token
	boot       sign.Token
	psk, pskID string
	target     *identity            // a node of the first tenant, which routes are about and which never calls
	worker     *identity            // another one, which tasks are for, and which nobody retires
	shared     map[string]*identity // by state, for calls that are refused
	things     map[string]string    // what paths name
}

// row is a route of one of the tables.
type row struct {
	method, path string
	admin        *adminapi.Route
	node         *nodeapi.Route
	registry     *oci.Route
	metrics      *metrics.Route
}

func (r row) pattern() string { return r.method + " " + r.path }

// takesToken tells whether the route's path holds a bootstrap token.
func (r row) takesToken() bool {
	return r.node != nil && (r.node.Proof == nodeapi.FetchPart || r.node.Proof == nodeapi.WholeToken)
}

// absent tells whether the matrix names something that does not exist in its requests to this route.
func (r row) absent() bool {
	name := r.parameter()
	nothing := name == "credential" || name == "receiver" || name == "shipping" || name == "silence" || name == "root" || name == "key" ||
		name == "digest" || name == "profile" || name == "sku" || name == "allocation" || name == "provider" ||
		name == "rental"
	return nothing || strings.Contains(r.path, "/slot-rules/") || strings.HasSuffix(r.path, "/archive") ||
		strings.Contains(r.path, "{session}") || strings.Contains(samples[r.pattern()].query, "none")
}

// parameter is the name of the first part of the path that stands for something; empty if there is none.
func (r row) parameter() string {
	_, rest, _ := strings.Cut(r.path, "{")
	name, _, _ := strings.Cut(rest, "}")
	return name
}

// samples are what a route is sent where the body {} would be refused too early, or would end what other calls need. Those ask for what
// does not exist. {node} in a body stands for the node that tasks are for.
var samples = map[string]struct{ query, body string }{
	"POST /api/v1/admin/nodes/{node}/labels":   {"", `{"set":{"matrix":"x"}}`},
	"POST /api/v1/admin/nodes/{node}/rename":   {"", `{"name":"matrix-renamed"}`},
	"PATCH /api/v1/admin/accounts/{account}":   {"", `{"scopes":["accounts:write"]}`},
	"PATCH /api/v1/admin/nodes/{node}":         {"", `{"gpus_expected":1}`},
	"DELETE /api/v1/admin/psk":                 {"?keep=psk-none", ""},
	"DELETE /api/v1/admin/health-rules/{rule}": {"?selector=none", ""},
	"GET /api/v1/admin/backup":                 {"?of=nothing", ""},     // it takes as long as all others together
	"GET /api/v1/admin/stream":                 {"?kinds=nothing", ""},  // it would go on
	"GET /api/v1/admin/nodes/{node}/logs":      {"?source=nothing", ""}, // as well: the node would be waited for
	"POST /api/v1/admin/ca/roots":              {"", `{"certificate":"x"}`},
	"POST /api/v1/admin/ca/intermediate":       {"", `{"prepare":true,"certificates":"x"}`},
	"POST /api/v1/admin/tasks":                 {"", `{"node":"{node}","type":"` + taskOfMatrix + `"}`},
	"PUT /api/v1/admin/secrets/{secret}":       {"", `{"value":"x"}`},

	"POST /api/v1/admin/nodes/{node}/sessions":                  {"", `{"type":"` + wire.SessionExec + `","params":{"command":["true"]}}`},
	"GET /api/v1/admin/nodes/{node}/sessions/{session}/stream":  {"?at=0", ""},
	"POST /api/v1/admin/nodes/{node}/sessions/{session}/stream": {"?at=0", "\x00"},

	"GET " + wire.TaskWaitPath("{id}"): {"?" + wire.TaskWaitSeconds + "=0", ""}, // a call that is let in would wait

	"POST /api/v1/admin/node-agent-releases": {"", `{"digest":"` + noRelease + `"}`},
	"PATCH /api/v1/admin/channels/{channel}": {"", `{"digest":"` + noRelease + `"}`},
	"POST /api/v1/admin/pins":                {"", `{"nodes":["{node}"]}`},
	"POST /api/v1/admin/pins/drop":           {"", `{"nodes":["{node}"]}`},

	"PUT /api/v1/admin/slot-rules/{rule}":                {"", `{"selector":"tier=none"}`},
	"PUT /api/v1/admin/quotas/{tenant}":                  {"", `{"gpus":1000}`},
	"POST /api/v1/admin/allocations/{allocation}/extend": {"", `{"seconds":60}`},

	"PUT /api/v1/admin/spending/{tenant}": {"", `{"per_hour":1000}`},
}

// noRelease is the digest of no release.
const noRelease = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// taskOfMatrix is the type of all tasks here. An account that may only give tasks of another type is refused.
const taskOfMatrix = wire.TaskWorkloadStatus

// TestMatrix asks every route of the tables as every kind of caller, on every listener. What has to come follows from the route's
// row, the caller and the way that the request takes; no cell is listed. A new row is in here by itself. A run that looks for races asks
// each pair of route and caller on one listener alone; the run without asks all.
func TestMatrix(t *testing.T) {
	t.Parallel()
	began := time.Now()
	g, faces := matrixGateway(t)
	m := &matrix{t: t, gateway: g, visits: visits{open: map[string]*visitOf{}}, shared: map[string]*identity{}, things: map[string]string{}}
	t.Cleanup(m.visits.close)
	m.furnish()
	rows := m.rows()
	callers := m.callers()
	races := looksForRaces()
	for i, f := range faces {
		for j, c := range callers {
			for k, r := range rows {
				if c.mtls && !f.tls || c.shows.where == inPath && r.parameter() == "" || f.adminOnly && r.node != nil {
					continue // there is no such request, or the answer cannot be another than elsewhere
				}
				if races && (i+j+k)%len(faces) != 0 {
					continue // every caller asks every route once: the same handler races with nothing else on another face
				}
				m.ask(f, r, c)
			}
		}
	}
	t.Logf("%d routes x %d callers in %d ways: %d calls in %s", len(rows), len(callers), len(faces), m.asked,
		time.Since(began).Round(time.Millisecond))
}

// furnish makes what the calls are about.
func (m *matrix) furnish() {
	ctx := m.t.Context()
	by := store.Actor{Name: "test"}
	var err error
	_, m.token, err = m.gateway.bootstrap.MintToken(ctx, api.TokenRequest{Tenant: ours, Uses: 10_000}, by)
	m.must(err)
	m.enrolToken, _, err = m.gateway.bootstrap.MintToken(ctx, api.TokenRequest{Tenant: ours, Uses: 10_000}, by)
	m.must(err)
	m.psk, m.pskID, err = m.gateway.bootstrap.GeneratePSK(ctx, by)
	m.must(err)
	_, m.boot = m.bootstrapToken()
	m.target = m.nodeIn(nodeActive)
	m.worker = m.nodeIn(nodeActive)
}

func (m *matrix) rows() []row {
	var all []row
	for _, route := range adminapi.Table() {
		all = append(all, row{method: route.Method, path: wire.PrefixAdmin + route.Path, admin: &route})
	}
	for _, route := range newHandlers(m.gateway).nodes.Table() {
		all = append(all, row{method: route.Method, path: route.Path, node: &route})
	}
	for _, route := range oci.Table() {
		all = append(all, row{method: route.Method, path: wire.PathRegistry + route.Path, registry: &route})
	}
	for _, route := range metrics.Table() {
		all = append(all, row{method: route.Method, path: route.Path, metrics: &route})
	}
	return all
}

// ask sends one request and judges the answer.
func (m *matrix) ask(f face, r row, c caller) {
	m.t.Helper()
	m.asked++
	want := m.want(f, r, c)
	self := m.self(r, c, want)
	body := m.body(r, c, self)
	q, err := http.NewRequestWithContext(m.t.Context(), r.method, f.base()+m.path(r, c, self, want), bytes.NewReader(body))
	m.must(err)
	m.visits.forward(f, q)
	who := m.another(c)
	m.dress(q, who, self, body)
	name := ""
	var certificate *tls.Certificate
	if c.mtls {
		name = self.signer.Fingerprint
		certificate = self.certificate()
	}
	answer, err := m.visits.to(f, certificate, name).Do(q)
	if err != nil {
		m.t.Fatalf("%s, %s, %s: %v", f.name, r.pattern(), c.name, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	m.must(err)
	code := refusalIn(text, want)
	switch {
	case want == granted && r.refused(code):
		m.t.Errorf("%s, %s, %s: got %d %.200s, want to be let in", f.name, r.pattern(), c.name, answer.StatusCode, text)
	case want != granted && (code != want || answer.StatusCode != reply.Status(want)):
		m.t.Errorf("%s, %s, %s: got %d %.200s, want %d %s", f.name, r.pattern(), c.name, answer.StatusCode, text, reply.Status(want), want)
	case !f.socket() && who.account != nil && who.account.Tenant == theirs && bytes.Contains(text, []byte(ours)):
		m.t.Errorf("%s, %s, %s: the answer speaks of another tenant: %.300s", f.name, r.pattern(), c.name, text)
	}
}

// refusalIn is the code of a refusal. The registry has codes of its own: where one stands for the refusal that is wanted, it is that.
func refusalIn(text []byte, want string) string {
	var refused struct {
		wire.Error
		Errors []struct{ Code string }
	}
	_ = json.Unmarshal(text, &refused)
	if len(refused.Errors) == 0 {
		return refused.Error.Error.Code
	}
	if want != granted && registryCodes[reply.Status(want)] == refused.Errors[0].Code {
		return want
	}
	return refused.Errors[0].Code
}

// refused tells whether a code says of a call to this route that its caller is not let in.
func (r row) refused(code string) bool {
	switch code {
	case wire.CodeUnauthorized, wire.CodeForbidden, wire.CodePlaintextSecret, wire.CodeTokenWrongRoute, wire.CodeTLSRequired,
		wire.CodeTooManyRequests, wire.CodeMethodNotAllowed, wire.CodeInternal:
		return true
	case "UNAUTHORIZED", "DENIED", "UNSUPPORTED", "TOOMANYREQUESTS", "UNKNOWN":
		return true
	case wire.CodeNotFound:
		return !r.absent()
	case wire.CodeNoIdentity, wire.CodeUnknownCertificate, wire.CodeIdentityMismatch, wire.CodeWrongNode, wire.CodeBanned, wire.CodeRetired,
		wire.CodeExpired, wire.CodeSuperseded, wire.CodeSupersededRetry, wire.CodeRevoked, wire.CodeIdentityConflict, wire.CodeBadSignature,
		wire.CodeStaleNonce, wire.CodeReplayed, wire.CodeClockSkew, wire.CodeBadAuthorization, wire.CodeUnknownCredential, wire.CodeBadMAC:
		return r.node != nil // an admin route says such things of the node that it is about
	}
	return false
}

// self is the node that calls. A call that is let in may change its node, so each such call has a node of its own. So has a superseded
// node: a call more than a minute after its successor's first use would be evidence of a copy.
func (m *matrix) self(r row, c caller, want string) *identity {
	switch {
	case c.node == "":
		return nil
	case want == granted, c.node == nodeSuperseded && r.node != nil && r.node.Proof == nodeapi.Identity:
		return m.nodeIn(c.node)
	case m.shared[c.node] == nil:
		m.shared[c.node] = m.nodeIn(c.node)
	}
	return m.shared[c.node]
}

// another is the caller with an account of its own where too many refusals of one would be answered in another way.
func (m *matrix) another(c caller) caller {
	if c.account == nil || account.Status(*c.account, time.Now()) == api.StatusLive {
		return c
	}
	var token string
	c.account, token = m.accountOf(*c.account)
	c.shows.text = token
	return c
}

// about is the node that a call is about.
func (m *matrix) about(c caller, self *identity) *identity {
	if self == nil || c.other {
		return m.target
	}
	return self
}

func (m *matrix) path(r row, c caller, self *identity, want string) string {
	path := r.path
	for name := r.parameter(); name != ""; {
		value := m.thing(name, c, self, want)
		if c.shows.where == inPath && !strings.Contains(path, c.shows.text) {
			value = c.shows.text
		}
		path = strings.Replace(path, "{"+name+"}", url.PathEscape(value), 1)
		name = row{path: path}.parameter()
	}
	path += samples[r.pattern()].query
	if c.shows.where == inQuery {
		path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "t=" + c.shows.text
	}
	return path
}

// thing is what a part of a path names: something of the first tenant, or something that does not exist. A call that is let in may end
// it, so each such call gets a thing of its own.
func (m *matrix) thing(parameter string, c caller, self *identity, want string) string {
	m.t.Helper()
	switch parameter {
	case "node":
		return m.target.id
	case "id":
		return m.about(c, self).id
	case "account", "token", "task", "secret":
		if want == granted {
			return m.fresh(parameter)
		}
		if m.things[parameter] == "" {
			m.things[parameter] = m.fresh(parameter)
		}
		return m.things[parameter]
	case "os":
		return "linux"
	case "arch":
		return "amd64"
	case "root", "key":
		return "0123456789abcdef"
	case "name":
		return wire.AgentRepository
	case "digest", "upload", "release":
		return noRelease
	case "reference":
		return "latest"
	case "channel":
		return wire.DefaultChannel
	case "credential", "receiver", "shipping", "silence", "profile", "sku", "provider", "instance", "machine":
		return "none"
	case "tenant":
		return ours
	case "allocation", "rental":
		return "aaaaaaaaaaaaaaaa"
	case "rule":
		return condition.GPUHot
	case "session":
		return "s-aaaaaaaaaaaaaaaa"
	}
	m.t.Fatalf("say what stands for {%s} in a path", parameter)
	return ""
}

// fresh makes an account, a token, a task or a secret of the first tenant, and gives its name. An account of all tenants who names none
// asks for a secret of the usual tenant, so the secret is there too.
func (m *matrix) fresh(kind string) string {
	ctx := m.t.Context()
	by := store.Actor{Name: "test"}
	switch kind {
	case "account":
		made, _ := m.accountOf(store.Account{Tenant: ours})
		return made.ID
	case "task":
		made, _, err := m.gateway.tasks.Create(ctx, ours, task.Request{Node: m.worker.id, Type: taskOfMatrix}, by)
		m.must(err)
		return made.ID
	case "secret":
		name := m.name(kind)
		for _, tenant := range []string{ours, store.DefaultTenant} {
			m.must(m.gateway.store.SetLentSecret(ctx, store.LentSecret{Tenant: tenant, Name: name, ChangedAt: time.Now()}, []byte("x")))
		}
		return name
	}
	token, _, err := m.gateway.bootstrap.MintToken(ctx, api.TokenRequest{Tenant: ours}, by)
	m.must(err)
	return token.Public()
}

func (m *matrix) body(r row, c caller, self *identity) []byte {
	switch {
	case r.method == http.MethodGet || r.method == http.MethodDelete:
		return nil
	case r.node != nil && r.node.Proof == nodeapi.Credential && c.enrols != nil:
		return c.enrols.body()
	case r.node != nil && r.node.Proof == nodeapi.Certificate:
		body, err := json.Marshal(wire.AdoptRequest{Certificate: m.about(c, self).chain, Generation: 1})
		m.must(err)
		return body
	case samples[r.pattern()].body != "":
		return []byte(strings.ReplaceAll(samples[r.pattern()].body, "{node}", m.worker.id))
	}
	return []byte("{}")
}

// TestServedRoutes: whatever a mux of the gateway is given comes from a table, but for the few places that are listed here.
func TestServedRoutes(t *testing.T) {
	want := []string{
		"internal/adminapi/adminapi.go",        // the table's
		"internal/adminapi/metrics/metrics.go", // the table's
		"internal/console/web.go",              // the table's
		"internal/nodeapi/route.go",            // the table's
		"internal/reply/strict.go",             // for requests that no route takes
		"routes.go",                            // the admin API as a whole, on the socket
		"routes.go",                            // the metrics, on the socket
		"routes.go",                            // what lies below them
		"routes.go",                            // the registry as a whole, on the socket
		"routes.go",                            // the admin API as a whole
		"routes.go",                            // the metrics
		"routes.go",                            // what lies below them
		"routes.go",                            // the console as a whole
		"routes.go",                            // the console's front door
		"routes.go",                            // the registry as a whole
	}
	if got := handling(t); !slices.Equal(got, want) {
		t.Errorf("muxes are given handlers in %q, want in %q", got, want)
	}
}
