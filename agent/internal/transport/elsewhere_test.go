package transport_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
)

// registry is a server that is not the gateway, and what it was asked.
type registry struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // path, authorization, range
}

func newRegistry(t *testing.T, public *gatewaytest.CA, host string, answer http.HandlerFunc) *registry {
	t.Helper()
	r := &registry{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.asked = append(r.asked, q.URL.RequestURI()+" "+q.Header.Get("Authorization")+" "+q.Header.Get("Range"))
		r.mu.Unlock()
		answer(w, q)
	}))
	certificate := public.Server(t, time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1), host)
	r.Config.ErrorLog = nil
	r.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	r.StartTLS()
	t.Cleanup(r.Close)
	r.URL = strings.Replace(r.URL, "127.0.0.1", host, 1)
	return r
}

func (r *registry) heard() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.asked, "\n")
}

// elsewhere runs a test on both ways.
func elsewhere(t *testing.T, test func(t *testing.T, public *gatewaytest.CA, client *transport.Client)) {
	for _, way := range []transport.Way{transport.Direct, transport.Curl} {
		t.Run(string(way), func(t *testing.T) {
			public := gatewaytest.NewCA(t, time.Now())
			client := curlClient(t, "https://127.0.0.1:1", public, func(cfg *transport.Config) { cfg.Way = way })
			test(t, public, client)
		})
	}
}

const secretHeader = "Bearer s3cret"

func TestElsewhereGivesTheRest(t *testing.T) {
	content := noise(300_000)
	elsewhere(t, func(t *testing.T, public *gatewaytest.CA, client *transport.Client) {
		serve := func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/whole" { // it knows no ranges
				q.Header.Del("Range")
			}
			http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(content))
		}
		r := newRegistry(t, public, "127.0.0.1", serve)
		for path, from := range map[string]int64{"/a?b=c": 0, "/ranges": 1000, "/whole": 250_000} {
			var got bytes.Buffer
			if err := client.Elsewhere(t.Context(), r.URL+path, secretHeader, from, &got); err != nil || !bytes.Equal(got.Bytes(), content[from:]) {
				t.Errorf("%s: %v, %d bytes", path, err, got.Len())
			}
		}
		for _, want := range []string{"/a?b=c Bearer s3cret ", "/ranges Bearer s3cret bytes=1000-", "/whole Bearer s3cret bytes=250000-"} {
			if !strings.Contains(r.heard()+"\n", want+"\n") {
				t.Errorf("no %q in %q", want, r.heard())
			}
		}
	})
}

func TestElsewhereLeavesTheSecretAtItsHost(t *testing.T) {
	elsewhere(t, func(t *testing.T, public *gatewaytest.CA, client *transport.Client) {
		store := newRegistry(t, public, "localhost", func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/back" {
				http.Redirect(w, q, q.URL.Query().Get("to"), http.StatusFound)
				return
			}
			fmt.Fprint(w, "content")
		})
		var first *registry
		first = newRegistry(t, public, "127.0.0.1", func(w http.ResponseWriter, q *http.Request) {
			to := map[string]string{
				"/own": "/near", "/other": store.URL + "/far", "/round": store.URL + "/back?to=" + first.URL + "/near", "/loop": "/loop",
				"/plain": "http://127.0.0.1:1/", "/user": "https://a:b@127.0.0.1:1/", "/none": "",
			}[q.URL.Path]
			switch {
			case q.URL.Path == "/near":
				fmt.Fprint(w, "content")
			case to == "":
				w.WriteHeader(http.StatusTemporaryRedirect)
			default:
				http.Redirect(w, q, to, http.StatusTemporaryRedirect)
			}
		})
		for path, says := range map[string]string{
			"/own": "", "/other": "", "/round": "", "/loop": "redirects", "/plain": "https URL", "/user": "https URL", "/none": "HTTP 307",
		} {
			var got bytes.Buffer
			err := client.Elsewhere(t.Context(), first.URL+path, secretHeader, 0, &got)
			if says == "" && (err != nil || got.String() != "content") || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("%s: %v, %q", path, err, got.String())
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: the secret is in %v", path, err)
			}
		}
		if !strings.Contains(first.heard(), "/near Bearer s3cret ") || !strings.Contains(first.heard(), "/near  ") {
			t.Errorf("the first host heard %q", first.heard())
		}
		if strings.Contains(store.heard(), "s3cret") || !strings.Contains(store.heard(), "/far") {
			t.Errorf("the other host heard %q", store.heard())
		}
	})
}

// noRoom is a writer that takes nothing.
type noRoom struct{}

var errFull = errors.New("no room")

func (noRoom) Write([]byte) (int, error) { return 0, errFull }

func TestElsewhereSaysWhatIsWrong(t *testing.T) {
	elsewhere(t, func(t *testing.T, public *gatewaytest.CA, client *transport.Client) {
		r := newRegistry(t, public, "127.0.0.1", func(w http.ResponseWriter, q *http.Request) {
			switch q.URL.Path {
			case "/page":
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "<html><title>Log in</title></html>")
			case "/part":
				w.Header().Set("Content-Range", "bytes 0-6/7")
				w.WriteHeader(http.StatusPartialContent)
				fmt.Fprint(w, "content")
			case "/short":
				w.Header().Set("Content-Length", "100")
				fmt.Fprint(w, "content")
			default:
				http.Error(w, "no", http.StatusForbidden)
			}
		})
		strange := newRegistry(t, gatewaytest.NewCA(t, time.Now()), "127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "content")
		})
		for address, says := range map[string]string{
			r.URL + "/page": "web page", r.URL + "/part": "not the part", r.URL + "/short": "", r.URL + "/refused": "HTTP 403",
			strange.URL: "", "http://127.0.0.1:1/": "https URL", "https:///": "https URL", "https://a:b@127.0.0.1/": "https URL", "%": "https URL",
		} {
			if err := client.Elsewhere(t.Context(), address, secretHeader, 3, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", address, err)
			}
		}
		if heard := strange.heard(); heard != "" {
			t.Errorf("a server that nobody trusts heard %q", heard)
		}
		if err := client.Elsewhere(t.Context(), r.URL+"/short", "", 0, noRoom{}); !errors.Is(err, errFull) {
			t.Errorf("a full disk: %v", err)
		}
	})
}

// TestElsewhereKeepsTheSecretFromCurlsArguments: other users of the machine can read them.
func TestElsewhereKeepsTheSecretFromCurlsArguments(t *testing.T) {
	public := gatewaytest.NewCA(t, time.Now())
	r := newRegistry(t, public, "127.0.0.1", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "content") })
	folder := t.TempDir()
	spy := filepath.Join(folder, "curl")
	script := "#!/bin/sh\necho \"$@\" >>" + folder + "/seen\nenv >>" + folder + "/seen\nexec curl \"$@\"\n"
	if err := os.WriteFile(spy, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	client := curlClient(t, "https://127.0.0.1:1", public, func(cfg *transport.Config) { cfg.Curl = spy })
	var got bytes.Buffer
	if err := client.Elsewhere(t.Context(), r.URL, secretHeader, 0, &got); err != nil || got.String() != "content" {
		t.Fatalf("%v, %q", err, got.String())
	}
	if seen, err := os.ReadFile(filepath.Join(folder, "seen")); err != nil || strings.Contains(string(seen), "s3cret") ||
		!strings.Contains(string(seen), "--config") {
		t.Errorf("%v, curl was started with %s", err, seen)
	}
	if !strings.Contains(r.heard(), "s3cret") {
		t.Errorf("the registry heard %q", r.heard())
	}
}
