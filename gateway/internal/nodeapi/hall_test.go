package nodeapi_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/nodeapi"
	"muster/store"
)

// hall is a site whose scripts are rendered and whose doors are guarded, with one node that waits.
type hall struct {
	*site
	handler http.Handler
	scripts *bootstrap.Bootstrap
	node    fleet.Node
}

func newHall(t testing.TB) *hall {
	t.Helper()
	h := &hall{}
	h.site = newSite(t, func(c *nodeapi.Config) {
		h.scripts = bootstrap.New(bootstrap.Config{Store: c.Store, Now: c.Now, Site: func() (bootstrap.Site, error) {
			return bootstrap.Site{NodeURL: "https://gw:7443", FirstHop: "https://gw:7443", FirstHopTrust: bootstrap.SystemTrust,
				Registry: "registry.example",
				Agents:   []wire.Platform{{OS: "linux", Arch: "amd64", SHA256: "ab", Path: "/agent/linux/amd64"}}}, nil
		}})
		c.Bootstrap = h.scripts
	})
	nodes := nodeapi.New(h.config)
	mux := http.NewServeMux()
	nodes.Routes(mux)
	mux.HandleFunc("GET /api/v1/admin/nodes", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	h.handler = nodes.Guard(h.config.Info.Strict(mux), nodeapi.Doors{
		Admin: func(r *http.Request) bool {
			return r.TLS != nil && r.Method == "GET" && r.URL.Path == "/api/v1/admin/nodes"
		},
		Proxied: func(r *http.Request) bool { return r.Header.Get("X-Test-Proxied") != "" },
		Open:    func(r *http.Request) bool { return r.Header.Get("X-Test-Open") != "" },
	})
	var err error
	if h.node, err = h.fleet.Create(t.Context(), api.CreateNodeRequest{Name: "gpu-7"}, store.Actor{Name: "operator:socket"}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hall) mint(ttl time.Duration) bootstrap.Minted {
	h.t.Helper()
	row, err := h.store.Node(h.t.Context(), "", h.node.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	m, err := h.scripts.MintNodeToken(h.t.Context(), bootstrap.NodeTokenRequest{Node: row, TTL: ttl}, store.Actor{Name: "operator:socket"})
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

// ask sends one request, over TLS or without.
func (h *hall) ask(method, target string, secure bool, header ...string) answer {
	r := httptest.NewRequest(method, target, nil)
	if r.TLS = nil; secure {
		r.TLS = &tls.ConnectionState{}
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	if a.status >= 400 {
		_ = json.Unmarshal(a.body, &a.Error)
	}
	return a
}

func basic(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }

func hexSum(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
