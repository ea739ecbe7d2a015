package build_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/release/build"
)

const (
	password = "s3cret-of-the-operator"
	index    = `{"schemaVersion":2,"manifests":[]}`
)

// registry is a registry elsewhere. Its hosts are names that the test's transport knows.
type registry struct {
	mu      sync.Mutex
	tokens  string                                       // host that gives out tokens; "": the registry is open
	basic   bool                                         // it takes static credentials alone
	life    int                                          // seconds of a token
	answer  func(w http.ResponseWriter, r *http.Request) // instead of content
	seen    []string                                     // host, path and the scheme of the authorization
	secrets []string                                     // hosts that were given the password
}

const (
	here     = "registry.example"
	tokens   = "tokens.example"
	download = "download.example"
)

func digestOf(content string) string {
	s := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(s[:])
}

// RoundTrip answers without a network.
func (g *registry) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, errors.New("this is not https")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	g.seen = append(g.seen, r.URL.Host+r.URL.Path+" "+scheme)
	if _, secret, ok := r.BasicAuth(); ok && secret == password {
		g.secrets = append(g.secrets, r.URL.Host)
	}
	w := httptest.NewRecorder()
	g.serve(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func (g *registry) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Host == tokens || r.URL.Host == here && r.URL.Path == "/token":
		fmt.Fprintf(w, `{"token":"short-lived","expires_in":%d,"for":%q}`, g.life, r.URL.Query().Get("scope"))
	case r.URL.Host == download:
		io.WriteString(w, index)
	case g.basic && r.Header.Get("Authorization") == "":
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	case g.tokens != "" && r.Header.Get("Authorization") != "Bearer short-lived":
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+g.tokens+`/token",service="registry",scope="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/v2/":
	case g.answer != nil:
		g.answer(w, r)
	default:
		w.Header().Set("Content-Type", wire.MediaIndex+"; charset=utf-8")
		io.WriteString(w, index)
	}
}

// clock is a time that tests set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func (g *registry) repository(t testing.TB, c build.Credential) (*build.Repository, *clock) {
	t.Helper()
	at := &clock{time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	r, err := build.NewRemote(build.RemoteConfig{Transport: g, Now: at.now}).Repository(here+"/team/agent", c)
	if err != nil {
		t.Fatal(err)
	}
	return r, at
}

func credential(realm string) build.Credential {
	return build.Credential{Name: "ci", Host: here, Realm: realm, Username: "puller", Password: password}
}

func wantRefused(t *testing.T, err error, code string, want string) {
	t.Helper()
	var detail *wire.ErrorDetail
	if !errors.As(err, &detail) || detail.Code != code || !strings.Contains(detail.Message, want) {
		t.Errorf("got %v, want %s with %q", err, code, want)
	}
	if err != nil && (strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "short-lived")) {
		t.Errorf("the refusal tells a secret: %v", err)
	}
}

// TestRead: a manifest and a blob, from a registry that is open, that gives out tokens, and that takes static credentials.
func TestRead(t *testing.T) {
	for name, g := range map[string]*registry{"open": {}, "tokens": {tokens: here, life: 300}, "static": {basic: true}} {
		r, _ := g.repository(t, credential(""))
		mediaType, body, err := r.Manifest(t.Context(), digestOf(index))
		if err != nil || mediaType != wire.MediaIndex || string(body) != index {
			t.Errorf("%s: %q, %q, %v", name, mediaType, body, err)
		}
		blob, err := r.Blob(t.Context(), digestOf(index))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		content, err := io.ReadAll(blob)
		if err != nil || string(content) != index || blob.Close() != nil {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
}

// TestCredentialStays: the credential goes to its registry, and to the host for tokens that the operator has named; no redirect gets it.
func TestCredentialStays(t *testing.T) {
	g := &registry{tokens: tokens, life: 300}
	r, _ := g.repository(t, credential(""))
	_, _, err := r.Manifest(t.Context(), digestOf(index))
	wantRefused(t, err, wire.CodeReleaseUnusable, "wants the credential sent to "+tokens)
	if len(g.secrets) != 0 {
		t.Errorf("it went to %q", g.secrets)
	}
	r, _ = g.repository(t, credential(tokens))
	if _, _, err := r.Manifest(t.Context(), digestOf(index)); err != nil || len(g.secrets) != 1 || g.secrets[0] != tokens {
		t.Errorf("it went to %q: %v", g.secrets, err)
	}
	g = &registry{basic: true}
	g.answer = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+download+"/x?signature=y", http.StatusTemporaryRedirect)
	}
	r, _ = g.repository(t, credential(""))
	_, _, err = r.Manifest(t.Context(), digestOf(index))
	wantRefused(t, err, wire.CodeReleaseUnusable, "not followed")
	blob, err := r.Blob(t.Context(), digestOf(index))
	if err != nil {
		t.Fatal(err)
	}
	defer blob.Close()
	if last := g.seen[len(g.seen)-1]; last != download+"/x " {
		t.Errorf("the layer's reader was at %q", last)
	}
	for _, host := range g.secrets {
		if host != here {
			t.Errorf("the credential went to %s", host)
		}
	}
}

// TestRedirects: of a layer, to https alone, and not for ever.
func TestRedirects(t *testing.T) {
	for name, to := range map[string]string{"plain": "http://download.example/x", "itself": "", "a file": "file:///etc/passwd"} {
		g := &registry{}
		g.answer = func(w http.ResponseWriter, r *http.Request) {
			at := to
			if at == "" {
				at = r.URL.String()
			}
			http.Redirect(w, r, at, http.StatusFound)
		}
		r, _ := g.repository(t, build.Credential{})
		_, err := r.Blob(t.Context(), digestOf(index))
		if err == nil {
			t.Errorf("%s is followed", name)
			continue
		}
		wantRefused(t, err, wire.CodeReleaseUnusable, "not followed")
		if len(g.seen) > 10 {
			t.Errorf("%s: asked %d times", name, len(g.seen))
		}
	}
}

// TestOddAnswers: each is a refusal that says what to do.
func TestOddAnswers(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for want, answer := range map[string]func(http.ResponseWriter, *http.Request){
		`answers with "text/html" instead`: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>please log in</html>")
		},
		"a manifest of more than": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", wire.MediaIndex)
			io.WriteString(w, strings.Repeat(" ", 1<<20+1))
		},
		"has no such content":           status(http.StatusNotFound),
		"does not let the gateway read": status(http.StatusForbidden),
		"answers with the status 500":   status(http.StatusInternalServerError),
	} {
		r, _ := (&registry{answer: answer}).repository(t, build.Credential{})
		_, _, err := r.Manifest(t.Context(), digestOf(index))
		wantRefused(t, err, wire.CodeReleaseUnusable, want)
	}
	r, _ := (&registry{basic: true}).repository(t, build.Credential{})
	_, _, err := r.Manifest(t.Context(), digestOf(index))
	wantRefused(t, err, wire.CodeReleaseUnusable, "wants a credential")
	g := &registry{tokens: "tokens.example:x y", life: 60}
	r, _ = g.repository(t, credential(""))
	_, _, err = r.Manifest(t.Context(), digestOf(index))
	wantRefused(t, err, wire.CodeReleaseUnusable, "no https URL")
	client := build.NewRemote(build.RemoteConfig{Transport: g})
	for _, reference := range []string{"", here, here + "/", "/team", here + "/a b", here + "/../x", here + "/a//b", here + "/a?x", "a b/c",
		"u@h/x", here + "/A"} {
		if _, err := client.Repository(reference, build.Credential{}); err == nil {
			t.Errorf("%q is taken", reference)
		}
	}
	if _, err := client.Repository("other.example/team/agent", credential("")); err == nil {
		t.Error("a credential is taken for another host")
	}
}

// TestHints: each refusal leads to its own next step.
func TestHints(t *testing.T) {
	answers := func(code int) *registry {
		return &registry{answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }}
	}
	for _, c := range []struct {
		name       string
		registry   *registry
		credential build.Credential
		want       string
	}{
		{"nothing there", answers(404), build.Credential{}, "check the repository and the digest"},
		{"closed", answers(403), build.Credential{}, "muster release login NAME " + here + "; then add --credential NAME"},
		{"closed to this credential", answers(401), credential(""), "the credential ci is wrong, has ended, or may not read it"},
		{"out of order", answers(503), build.Credential{}, "try again later"},
		{"too many", answers(429), build.Credential{}, "try again later"},
		{"elsewhere", answers(302), build.Credential{}, "something between"},
		{"no credential", &registry{basic: true}, build.Credential{}, "then add --credential NAME"},
		{"tokens elsewhere", &registry{tokens: "tokens.example", life: 60}, credential(""), "release login ci " + here + " --realm HOST"},
		{"no place for tokens", &registry{tokens: "tokens.example:x y", life: 60}, credential(""), "no OCI registry at all"},
	} {
		r, _ := c.registry.repository(t, c.credential)
		_, _, err := r.Manifest(t.Context(), digestOf(index))
		var detail *wire.ErrorDetail
		if !errors.As(err, &detail) || !strings.Contains(detail.Hint, c.want) {
			t.Errorf("%s: %v, want the hint %q", c.name, err, c.want)
		}
	}
}

// TestLend: a node gets a token that ends soon, the same while it lasts, and no static credential.
func TestLend(t *testing.T) {
	g := &registry{tokens: here, life: 300}
	r, at := g.repository(t, credential(""))
	for range 5 {
		url, authorization, err := r.Lend(t.Context(), digestOf(index))
		if err != nil || authorization != "Bearer short-lived" || url != "https://"+here+"/v2/team/agent/blobs/"+digestOf(index) {
			t.Errorf("got %q, %q, %v", url, authorization, err)
		}
	}
	if len(g.secrets) != 1 {
		t.Errorf("it asked for %d tokens", len(g.secrets))
	}
	at.at = at.at.Add(281 * time.Second)
	if _, _, err := r.Lend(t.Context(), digestOf(index)); err != nil || len(g.secrets) != 2 {
		t.Errorf("near its end: %d tokens, %v", len(g.secrets), err)
	}
	r, _ = (&registry{}).repository(t, build.Credential{})
	if _, authorization, err := r.Lend(t.Context(), digestOf(index)); err != nil || authorization != "" {
		t.Errorf("got %q, %v", authorization, err)
	}
	r, _ = (&registry{basic: true}).repository(t, credential(""))
	_, authorization, err := r.Lend(t.Context(), digestOf(index))
	wantRefused(t, err, wire.CodeReleaseUnusable, "static credential")
	if authorization != "" {
		t.Error("a node gets the static credential")
	}
	r, _ = (&registry{tokens: here, life: 86400}).repository(t, credential(""))
	_, _, err = r.Lend(t.Context(), digestOf(index))
	wantRefused(t, err, wire.CodeReleaseUnusable, "gives out tokens for 24h")
}

// stalled is a registry that never answers.
type stalled struct{ asked int }

func (s *stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked++
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestStalls: a registry that does not answer holds nobody for long, and is not asked again by each node.
func TestStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stalled{}
		r, err := build.NewRemote(build.RemoteConfig{Transport: s}).Repository(here+"/team/agent", build.Credential{})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, _, err = r.Manifest(context.Background(), digestOf(index))
		wantRefused(t, err, wire.CodeUnavailable, "does not answer in time")
		if took := time.Since(begin); took > 31*time.Second {
			t.Errorf("it took %s", took)
		}
		for range 100 {
			_, _, err = r.Lend(context.Background(), digestOf(index))
			wantRefused(t, err, wire.CodeUnavailable, "does not answer in time")
		}
		if s.asked != 1 {
			t.Errorf("it was asked %d times", s.asked)
		}
	})
}

// slow is a registry whose blob stops in the middle.
type slow struct{ registry }

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.registry.RoundTrip(r)
	if err == nil && strings.Contains(r.URL.Path, "/blobs/") {
		response.Body = io.NopCloser(io.MultiReader(strings.NewReader("begin"), waiting{r.Context()}))
	}
	return response, err
}

type waiting struct{ context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.Done()
	return 0, w.Err()
}

// TestBlobStalls: a layer that stops in the middle ends too.
func TestBlobStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := build.NewRemote(build.RemoteConfig{Transport: &slow{}}).Repository(here+"/team/agent", build.Credential{})
		if err != nil {
			t.Fatal(err)
		}
		blob, err := r.Blob(context.Background(), digestOf(index))
		if err != nil {
			t.Fatal(err)
		}
		defer blob.Close()
		_, err = io.ReadAll(blob)
		wantRefused(t, err, wire.CodeUnavailable, "does not answer in time")
	})
}

// TestTag: the digest of a tag is that of what the registry gives for it.
func TestTag(t *testing.T) {
	g := &registry{tokens: here, life: 300}
	r, _ := g.repository(t, build.Credential{})
	digest, err := r.Tag(t.Context(), "1.2")
	if err != nil || digest != digestOf(index) {
		t.Errorf("%s, %v", digest, err)
	}
	if last := g.seen[len(g.seen)-1]; last != here+"/v2/team/agent/manifests/1.2 Bearer" {
		t.Errorf("asked for %s", last)
	}
	g.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	if digest, err := r.Tag(t.Context(), "gone"); err == nil {
		t.Errorf("%s", digest)
	}
}
