package bootstrap_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// credential opens the registry of these tests, and nothing else may hear it.
const credential = "Bearer lent-for-minutes"

// registryHost is a registry or a place for its blobs. It keeps what it was asked with.
type registryHost struct {
	*httptest.Server
	mu    sync.Mutex
	heard []http.Header
}

func newRegistryHost(t *testing.T, serve http.HandlerFunc) *registryHost {
	t.Helper()
	h := &registryHost{}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.heard = append(h.heard, r.Header.Clone())
		h.mu.Unlock()
		serve(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// asked is what the host was asked with.
func (h *registryHost) asked() []http.Header {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heard
}

// fetching takes from the script what fetches.
func fetching(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile("bootstrap.sh")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, name := range []string{"fetch", "ask", "with_curl", "with_wget"} {
		function := regexp.MustCompile(`(?ms)^\t` + name + `\(\) \{\n.*?^\t\}\n`).Find(script)
		if function == nil {
			t.Fatalf("the script has no function %s", name)
		}
		text.Write(function)
	}
	return text.String()
}

// tools makes a curl as it was before 7.58, which gives a header to every place that it is led to, and a wget. Both trust the hosts of the
// test, and write down their arguments.
func tools(t *testing.T, host *registryHost) (bin, arguments string) {
	t.Helper()
	bin = t.TempDir()
	roots := filepath.Join(bin, "roots.pem")
	arguments = filepath.Join(bin, "arguments")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: host.Certificate().Raw})
	if err := os.WriteFile(roots, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	for tool, trust := range map[string]string{"curl": "--cacert " + roots, "wget": "--ca-certificate=" + roots} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Skipf("not run: there is no %s here", tool)
		}
		script := "#!/bin/sh\necho \"$@\" >>" + arguments +
			"\nfor a in \"$@\"; do\n\tshift\n\t[ \"$a\" != --location ] || a=--location-trusted\n" +
			"\tset -- \"$@\" \"$a\"\ndone\nfirst=$1\nshift\nexec " + path + " \"$first\" \"$@\" " + trust + "\n"
		if err := os.WriteFile(filepath.Join(bin, tool), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin, arguments
}

// TestCredentialStays: a registry may lead to another host, and that one never hears the credential, whatever the tool does by itself.
func TestCredentialStays(t *testing.T) {
	var registry *registryHost
	blobs := newRegistryHost(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/back":
			http.Redirect(w, r, registry.URL+"/blob", http.StatusFound)
			return
		case "/on":
			http.Redirect(w, r, "https://"+r.Host+"/blob?signature=a%2Fb&other=1", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte("the layer"))
	})
	registry = newRegistryHost(t, func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{
			"/led": blobs.URL + "/blob?signature=a%2Fb&other=1", "/on": blobs.URL + "/on", "/plain": "http://127.0.0.1:1/",
			"/odd": blobs.URL + `/"x`, "/round": registry.URL + "/round", "/gateway/x": blobs.URL + "/blob",
			"/own": registry.URL + "/blob", "/path": "/blob", "/slashes": strings.TrimPrefix(blobs.URL, "https:") + "/blob",
			"/user": registry.URL + "@" + strings.TrimPrefix(blobs.URL, "https://") + "/blob", "/twice": blobs.URL + "/back",
		}[r.URL.Path]
		switch {
		case to != "":
			w.Header()["Location"] = []string{to}
			w.WriteHeader(http.StatusTemporaryRedirect)
		case r.Header.Get("Authorization") != credential:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = w.Write([]byte("the layer"))
		}
	})
	bin, arguments := tools(t, registry)
	functions := fetching(t)
	for _, tool := range []string{"curl", "wget"} {
		for path, want := range map[string]string{
			"/blob": "200 the layer", "/led": "200 the layer", "/on": "200 the layer", "/plain": "307", "/odd": "307", "/round": "307",
			"/gateway/x": "307", "/own": "200 the layer", "/path": "200 the layer", "/slashes": "200 the layer", "/user": "307", "/twice": "401",
		} {
			before := len(blobs.asked())
			rounds := len(registry.asked())
			work := t.TempDir()
			command := exec.Command("sh", "-c", "set -eu\n"+functions+`
mkdir "$work/none"
if fetch "$from" "$work/layer"; then echo "$code $(cat "$work/layer")"; else echo "$code"; fi`)
			command.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "work=" + work, "tool=" + tool, "from=" + registry.URL + path,
				"GATEWAY=" + registry.URL + "/gateway", "CERTIFICATE=system", "authorization=" + credential, "HOME=" + work}
			out, err := command.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				why, _ := os.ReadFile(filepath.Join(work, "why"))
				t.Errorf("%s %s: %v, %q, want %q\n%s", tool, path, err, got, want, why)
			}
			led := len(blobs.asked()) - before
			if follows := slices.Contains([]string{"/led", "/on", "/slashes", "/twice"}, path); (led > 0) != follows {
				t.Errorf("%s %s: the other host was asked %d times", tool, path, led)
			}
			if tried := len(registry.asked()) - rounds; tried > 4 {
				t.Errorf("%s %s: the registry was asked %d times", tool, path, tried)
			}
		}
	}
	for _, heard := range blobs.asked() {
		if heard.Get("Authorization") != "" {
			t.Errorf("the other host heard %q", heard)
		}
	}
	if registry.asked()[0].Get("Authorization") != credential {
		t.Error("the registry itself heard no credential")
	}
	said, err := os.ReadFile(arguments)
	if err != nil || strings.Contains(string(said), "lent-for") || strings.Contains(string(said), "signature") {
		t.Errorf("the arguments: %v, %s", err, said)
	}
}
