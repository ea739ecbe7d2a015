package adminapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/bootstrap"
	"muster/store"
)

// withScripts lets a house render bootstrap scripts.
func (h *house) withScripts() *house {
	h.api.Bootstrap = bootstrap.New(bootstrap.Config{Store: h.store, Now: func() time.Time { return h.now },
		Site: func() (bootstrap.Site, error) {
			return bootstrap.Site{NodeURL: "https://gw:7443", FirstHop: "https://gw:7443", FirstHopTrust: bootstrap.SystemTrust, TrustNumber: 2,
				Agents: []wire.Platform{{OS: "linux", Arch: "amd64", SHA256: "ab", Path: "/agent/linux/amd64"}}}, nil
		}})
	return h
}

func TestCreateNode(t *testing.T) {
	h := newHouse(t).withScripts()
	status, body := h.ask("POST", "nodes", "", `{"name":"gpu-7","tenant":"platform","labels":{"rack":"7"},"gpus":8}`)
	made := decode[api.CreatedNode](t, body)
	if status != 201 || made.Node.Name != "gpu-7" || made.Node.Tenant != "platform" || made.Node.State != "ready" ||
		made.Node.Labels["rack"] != "7" ||
		!made.ExpiresAt.Equal(h.now.Add(15*time.Minute)) || time.Duration(made.FetchWindow) != 15*time.Minute ||
		!strings.HasPrefix(made.BootstrapToken, "msb_") || !strings.HasPrefix(made.BootstrapURL, "https://gw:7443/api/v1/bootstrap/nodes/msb_") {
		t.Fatalf("got %d %s", status, body)
	}
	sum := sha256.Sum256([]byte(made.Script))
	if made.ScriptSHA256 != hex.EncodeToString(sum[:]) || !strings.Contains(made.Script, "NODE_NAME='gpu-7'") || len(made.Packages) != 1 ||
		made.Packages[0].Platform != "linux/amd64" {
		t.Errorf("script %s, packages %+v", made.ScriptSHA256, made.Packages)
	}
	_, secret, _ := strings.Cut(made.BootstrapToken, ".")
	if strings.Contains(made.BootstrapURL, secret) || !strings.Contains(made.Command, "MUSTER_TOKEN="+made.BootstrapToken) {
		t.Errorf("got %s", body)
	}
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"no name":           {`{}`, 400, wire.CodeBadName},
		"a bad name":        {`{"name":"a b"}`, 400, wire.CodeBadName},
		"an id":             {`{"name":"n-0123456789abcdef"}`, 400, wire.CodeBadName},
		"a taken name":      {`{"name":"gpu-7","tenant":"platform"}`, 409, wire.CodeNameInUse},
		"taken elsewhere":   {`{"name":"gpu-7"}`, 409, wire.CodeNameInUse},
		"a price of words":  {`{"name":"x","labels":{"price_per_hour":"cheap"}}`, 400, wire.CodeBadLabel},
		"a bad label":       {`{"name":"x","labels":{"a b":"c"}}`, 400, wire.CodeBadLabel},
		"a bad tenant":      {`{"name":"x","tenant":"a b"}`, 400, wire.CodeBadRequest},
		"too many GPUs":     {`{"name":"x","gpus":1025}`, 400, wire.CodeBadRequest},
		"an unknown mode":   {`{"name":"x","mode":"pxe"}`, 400, wire.CodeBadRequest},
		"too short a life":  {`{"name":"x","ttl":"1s"}`, 400, wire.CodeBadRequest},
		"an unknown field":  {`{"name":"x","script":true}`, 400, wire.CodeBadRequest},
		"no JSON":           {`name=x`, 400, wire.CodeBadRequest},
		"a negative number": {`{"name":"x","gpus":-1}`, 400, wire.CodeBadRequest},
		"a token's name":    {`{"name":"msb_x"}`, 400, wire.CodeBadName},
		"a token":           {`{"name":"mse_abcd1234_0123456789"}`, 400, wire.CodeBadName},
		"a token's label":   {`{"name":"x","labels":{"by":"mse_abcd1234_0123456789"}}`, 400, wire.CodeBadLabel},
	} {
		if status, body := h.ask("POST", "nodes", "", c.body); status != c.status || code(body) != c.code {
			t.Errorf("%s: got %d %s, want %d %s", name, status, body, c.status, c.code)
		}
	}
	if status, body := h.ask("GET", "nodes/x", "", ""); status != 404 {
		t.Errorf("a refusal left a node: %d %s", status, body)
	}
}

func TestBootstrapScript(t *testing.T) {
	h := newHouse(t).withScripts()
	made := decode[api.CreatedNode](t, second(h.ask("POST", "nodes", "", `{"name":"gpu-7"}`)))
	for _, c := range []struct {
		query, mode string
		ends        time.Duration
	}{
		{"", "manual", 15 * time.Minute}, {"?mode=manual&ttl=2h", "manual", 2 * time.Hour}, {"?mode=cloud_init", "cloud_init", 24 * time.Hour},
		{"?mode=cloud-init&ttl=7d", "cloud_init", 7 * 24 * time.Hour}, {"?again=true&format=json", "manual", 15 * time.Minute},
	} {
		status, body := h.ask("POST", "nodes/gpu-7/bootstrap-script"+c.query, "", "")
		got := decode[api.BootstrapScript](t, body)
		sum := sha256.Sum256([]byte(got.Script))
		if status != 200 || got.NodeID != made.Node.ID || got.Mode != c.mode || !got.ExpiresAt.Equal(h.now.Add(c.ends)) ||
			got.ScriptSHA256 != hex.EncodeToString(sum[:]) ||
			!strings.HasPrefix(got.Script, "#!/bin/sh\n") || got.Metadata.TrustBundleVersion != "v2" ||
			got.Metadata.PackageRef != "https://gw:7443/agent/linux/amd64" ||
			got.Metadata.PackageDigest != "sha256:ab" || (got.UserData != "") != (c.mode == "cloud_init") || len(got.FetchSHA256) != 64 {
			t.Errorf("%s: got %d %s", c.query, status, body)
		}
	}
	for _, accept := range []string{"", "text/x-shellscript"} {
		r := httptest.NewRequest("POST", "/api/v1/admin/nodes/gpu-7/bootstrap-script", nil)
		if r.Header.Set("Accept", accept); accept == "" {
			r.URL.RawQuery = "format=script"
		}
		w := httptest.NewRecorder()
		h.routes(true).ServeHTTP(w, r)
		if w.Code != 200 || !strings.HasPrefix(w.Body.String(), "#!/bin/sh\n") ||
			!strings.HasPrefix(w.Header().Get("Content-Type"), "text/x-shellscript") ||
			w.Header().Get("Cache-Control") == "" || !strings.HasSuffix(w.Body.String(), "{ main \"$@\"; }\n") {
			t.Errorf("accept %q: got %d %.60s", accept, w.Code, w.Body)
		}
	}
	for _, accept := range []string{"text/x-shellscriptXYZ", "text/x-shellscript-x", "application/json, text/x-shellscript"} {
		r := httptest.NewRequest("POST", "/api/v1/admin/nodes/gpu-7/bootstrap-script", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		if h.routes(true).ServeHTTP(w, r); w.Code != 200 || !strings.HasPrefix(w.Body.String(), "{") {
			t.Errorf("accept %q: got %d %.60s", accept, w.Code, w.Body)
		}
	}
	for query, want := range map[string]string{"?mode=pxe": wire.CodeBadRequest, "?ttl=soon": wire.CodeBadRequest,
		"?ttl=-1h": wire.CodeBadRequest, "?again=perhaps": wire.CodeBadRequest,
		"?format=exe": wire.CodeBadRequest, "?x=1": wire.CodeBadRequest} {
		if status, body := h.ask("POST", "nodes/gpu-7/bootstrap-script"+query, "", ""); status != 400 || code(body) != want {
			t.Errorf("%s: got %d %s", query, status, body)
		}
	}
}

// TestScriptInJSON: an answer with a script in it is one line, begins with a hint, and holds nothing that a shell would run. What it
// says is the script all the same.
func TestScriptInJSON(t *testing.T) {
	h := newHouse(t).withScripts()
	made := second(h.ask("POST", "nodes", "", `{"name":"gpu-7","mode":"cloud_init"}`))
	for path, body := range map[string][]byte{"nodes": made, "script": second(h.ask("POST", "nodes/gpu-7/bootstrap-script", "", "")),
		"user-data": second(h.ask("POST", "nodes/gpu-7/bootstrap-script?mode=cloud_init&format=json", "", ""))} {
		text := string(body)
		if !strings.HasPrefix(text, `{"hint":"this answer is JSON, which no shell can run: `) || strings.Count(text, "\n") != 1 ||
			strings.ContainsAny(text, "$`;|&<>()'!#*?~^") {
			t.Errorf("%s: %.300s", path, text)
		}
		got := decode[struct {
			Hint, Command, Script string
			Sum                   string `json:"script_sha256"`
		}](t, body)
		sum := sha256.Sum256([]byte(got.Script))
		if got.Sum != hex.EncodeToString(sum[:]) || !strings.Contains(got.Hint, "format=script") ||
			!strings.Contains(got.Command, "MUSTER_TOKEN=msb_") {
			t.Errorf("%s: %.300s", path, text)
		}
	}
}

func second(_ int, body []byte) []byte { return body }

// TestBootstrapStates: what a node is decides whether it may be bootstrapped.
func TestBootstrapStates(t *testing.T) {
	h := newHouse(t).withScripts()
	for name, verb := range map[string]string{"waits": "", "gone": "retire", "banned": "ban"} {
		h.ask("POST", "nodes", "", `{"name":"`+name+`"}`)
		if verb != "" {
			h.ask("POST", "nodes/"+name+"/"+verb, "", "")
		}
	}
	active := store.Node{ID: "n-active", Name: "active", Tenant: "default", State: "enrolled"}
	err := h.store.CreateToken(t.Context(), store.Token{ID: "mse_x", Tenant: "default", Uses: 1, CreatedAt: h.now,
		ExpiresAt: h.now.Add(time.Hour)})
	if err == nil {
		err = h.store.Enrol(t.Context(), store.Enrolment{ID: "e-1", Credential: "mse_x", ConsumeToken: true, KeyHash: "k", At: h.now,
			Node: active, NewNode: true,
			Certificate: store.Certificate{Fingerprint: "f", NotBefore: h.now, NotAfter: h.now.Add(time.Hour), IssuedAt: h.now}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		"waits": {200, ""}, "gone": {403, wire.CodeRetired}, "gone?again=true": {403, wire.CodeRetired}, "banned": {403, wire.CodeBanned},
		"nobody": {404, wire.CodeNotFound},
		"active": {409, wire.CodeIllegalMove}, "active?again=false": {409, wire.CodeIllegalMove}, "active?again=true": {200, ""},
	} {
		node, query, _ := strings.Cut(path, "?")
		if status, body := h.ask("POST", "nodes/"+node+"/bootstrap-script?"+query, "", ""); status != want.status || code(body) != want.code {
			t.Errorf("%s: got %d %.300s, want %d %s", path, status, body, want.status, want.code)
		}
	}
	if status, body := h.ask("POST", "nodes", "", `{"name":"banned"}`); status != 403 || code(body) != wire.CodeBanned {
		t.Errorf("a banned name: got %d %s", status, body)
	}
}

// TestBootstrapTenants: an account of one tenant makes and bootstraps that tenant's nodes, and learns nothing of others'.
func TestBootstrapTenants(t *testing.T) {
	h := newHouse(t).withScripts()
	one := h.account("one", "one", api.ScopeNodesWrite, api.ScopeTokensWrite)
	two := h.account("two", "two", api.ScopeNodesWrite, api.ScopeTokensWrite)
	if status, body := h.ask("POST", "nodes", one, `{"name":"gpu-1"}`); status != 201 ||
		decode[api.CreatedNode](t, body).Node.Tenant != "one" {
		t.Fatalf("got %d %s", status, body)
	}
	for name, c := range map[string]struct {
		path, token, body string
		status            int
		code              string
	}{
		"a node of another tenant":   {"nodes", two, `{"name":"gpu-2","tenant":"one"}`, 403, wire.CodeForbidden},
		"a name that another has":    {"nodes", two, `{"name":"gpu-1"}`, 409, wire.CodeNameInUse},
		"bootstrap of another's":     {"nodes/gpu-1/bootstrap-script", two, "", 404, wire.CodeNotFound},
		"bootstrap of its own":       {"nodes/gpu-1/bootstrap-script", one, "", 200, ""},
		"an account that only reads": {"nodes", h.account("reader", "one", api.ScopeNodesRead), `{"name":"gpu-3"}`, 403, wire.CodeForbidden},
	} {
		status, body := h.ask("POST", c.path, c.token, c.body)
		if status != c.status || code(body) != c.code || c.status >= 400 && strings.Contains(string(body), "tenant one") && c.token == two &&
			c.code != wire.CodeForbidden {
			t.Errorf("%s: got %d %.300s", name, status, body)
		}
	}
}

// TestBootstrapScopes: a bootstrap of a live node needs the scope for nodes and the scope for tokens. One of them is not enough.
func TestBootstrapScopes(t *testing.T) {
	h := newHouse(t).withScripts()
	h.ask("POST", "nodes", "", `{"name":"gpu-7"}`)
	nodes := h.account("nodes", "", api.ScopeNodesWrite, api.ScopeTokensRead)
	tokens := h.account("tokens", "", api.ScopeTokensWrite)
	both := h.account("both", "", api.ScopeNodesWrite, api.ScopeTokensWrite)
	for _, c := range []struct {
		path, body, token string
		status            int
		says              string
	}{
		{"nodes", `{"name":"gpu-8"}`, nodes, 403, "lacks the scope tokens:write"},
		{"nodes", `{"name":"gpu-8"}`, tokens, 403, "lacks the scope nodes:write"},
		{"nodes/gpu-7/bootstrap-script?again=true", "", nodes, 403, "lacks the scope tokens:write"},
		{"nodes/gpu-7/bootstrap-script", "", tokens, 403, "lacks the scope nodes:write"},
		{"nodes", `{"name":"gpu-8"}`, both, 201, ""}, {"nodes/gpu-7/bootstrap-script?again=true", "", both, 200, ""},
	} {
		if status, body := h.ask("POST", c.path, c.token, c.body); status != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: got %d %.300s", c.path, status, body)
		}
	}
}

// TestNoAgents: a gateway that carries no agent makes neither a token nor a node.
func TestNoAgents(t *testing.T) {
	h := newHouse(t)
	h.api.Bootstrap = bootstrap.New(bootstrap.Config{Store: h.store,
		Site: func() (bootstrap.Site, error) { return bootstrap.Site{NodeURL: "https://gw:7443"}, nil }})
	if status, body := h.ask("POST", "nodes", "", `{"name":"gpu-7"}`); status != 503 || code(body) != wire.CodeUnavailable ||
		!strings.Contains(string(body), "make build") {
		t.Errorf("got %d %s", status, body)
	}
	if status, body := h.ask("GET", "nodes/gpu-7", "", ""); status != 404 {
		t.Errorf("a refusal left a node: %d %s", status, body)
	}
}

// TestBootstrapTokenAsAPIToken: a bootstrap token is no API token. Using it as one is a security event.
func TestBootstrapTokenAsAPIToken(t *testing.T) {
	h := newHouse(t).withScripts()
	made := decode[api.CreatedNode](t, second(h.ask("POST", "nodes", "", `{"name":"gpu-7"}`)))
	if status, body := h.ask("GET", "nodes", made.BootstrapToken, ""); status != 403 || code(body) != wire.CodeTokenWrongRoute {
		t.Errorf("in the header: got %d %s", status, body)
	}
	if status, body := h.ask("GET", "nodes?token="+made.BootstrapToken, "", ""); status != 400 || code(body) != wire.CodePlaintextSecret {
		t.Errorf("in the query: got %d %s", status, body)
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "admin.refused"})
	if err != nil || len(events) != 2 || events[0].Outcome != wire.CodePlaintextSecret || events[1].Outcome != wire.CodeTokenWrongRoute {
		t.Fatalf("events: %+v, %v", events, err)
	}
	for _, e := range events {
		if public, _, _ := strings.Cut(made.BootstrapToken[4:], "_"); e.NodeName != "gpu-7" || e.Tenant != "default" ||
			e.Detail["token"] != "msb_"+public {
			t.Errorf("whose it is: %+v", e)
		}
	}
}
