package oci_test

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/oci"
	"muster/gateway/internal/reply"
	"muster/store"
)

const repository = "team/app"

// house is a registry behind HTTP, with an account that may do everything.
type house struct {
	t        testing.TB
	store    *store.Store
	passes   *account.Passes
	registry *artifact.Registry
	server   *httptest.Server
	token    string // of the account
	as       string // the header Authorization of every request
	log      bytes.Buffer
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t}
	dir := t.TempDir()
	log := slog.New(slog.NewTextHandler(&h.log, nil))
	var err error
	h.store, err = store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "db"), MasterKey: make([]byte, 32)})
	h.must(err)
	t.Cleanup(func() { h.store.Close() })
	h.passes, err = account.OpenPasses(t.Context(), h.store, nil)
	h.must(err)
	h.registry, err = artifact.Open(t.Context(), artifact.Config{Folder: filepath.Join(dir, "registry"), Records: h.store.Records(),
		MaxBlob: 1 << 20, Quota: 16 << 20, Logger: log})
	h.must(err)
	info := &reply.Info{Logger: log}
	trail := audit.New(audit.Config{Store: h.store, Logger: log})
	routes := &oci.API{Registry: h.registry, Info: info, URL: "https://gw.example:7443", Logger: log,
		Gate: account.NewGate(account.Config{Store: h.store, Info: info, Audit: trail, Address: new(origin.Resolver).Address, Passes: h.passes,
			PSKs: bootstrap.New(bootstrap.Config{Store: h.store, Audit: trail, Logger: log}), Logger: log})}
	h.server = httptest.NewServer(routes.Routes())
	t.Cleanup(h.server.Close)
	h.token = h.account(store.Account{Name: "ci", Scopes: []string{api.ScopeReleasesWrite}})
	h.as = "Bearer " + h.token
	return h
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// account makes an account and gives its API token.
func (h *house) account(a store.Account) string {
	h.t.Helper()
	a.CreatedAt = time.Now()
	token, err := account.Mint(&a, nil)
	h.must(err)
	h.must(h.store.CreateAccount(h.t.Context(), a))
	return token.Reveal()
}

// answer is one answer with all of its body.
type answer struct {
	*http.Response
	text string
}

// code is the code of an error in the form of the specification; empty if the answer is none.
func (a answer) code() string {
	var body struct {
		Errors []struct{ Code, Message string }
	}
	if json.Unmarshal([]byte(a.text), &body) != nil || len(body.Errors) != 1 || body.Errors[0].Message == "" ||
		a.Header.Get("Content-Type") != "application/json" {
		return ""
	}
	return body.Errors[0].Code
}

// ask sends one request below /v2/. The headers are pairs of names and values.
func (h *house) ask(method, path, body string, headers ...string) answer {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.server.URL+"/v2/"+path, strings.NewReader(body))
	h.must(err)
	if h.as != "" {
		r.Header.Set("Authorization", h.as)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := http.DefaultTransport.RoundTrip(r)
	h.must(err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	h.must(err)
	return answer{got, string(text)}
}

// want asks and checks the status.
func (h *house) want(status int, method, path, body string, headers ...string) answer {
	h.t.Helper()
	got := h.ask(method, path, body, headers...)
	if got.StatusCode != status {
		h.t.Fatalf("%s %s: got %d %s, want %d", method, path, got.StatusCode, got.text, status)
	}
	return got
}

// begin begins an upload and gives its path below /v2/.
func (h *house) begin() string {
	h.t.Helper()
	at := h.want(202, "POST", repository+"/blobs/uploads/", "").Header.Get("Location")
	return strings.TrimPrefix(at, "/v2/")
}

// push stores a blob and gives its digest.
func (h *house) push(name, content string) string {
	h.t.Helper()
	digest := artifact.DigestOf([]byte(content))
	h.want(201, "POST", name+"/blobs/uploads/?digest="+digest, content)
	return digest
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// manifest pushes a manifest with one layer under a reference, and gives it with its digest. extra are further members.
func (h *house) manifest(name, reference, extra string) (text, digest string) {
	h.t.Helper()
	config := h.push(name, "{}")
	text = `{"schemaVersion":2,"mediaType":"` + manifestType + `","config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"` +
		config + `","size":2},"layers":[]` + extra + `}`
	digest = artifact.DigestOf([]byte(text))
	if reference == "" {
		reference = digest
	}
	h.want(201, "PUT", name+"/manifests/"+reference, text, "Content-Type", manifestType)
	return text, digest
}

func basic(name, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

func sha512Of(text string) string {
	sum := sha512.Sum512([]byte(text))
	return "sha512:" + hex.EncodeToString(sum[:])
}
