package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/client"
)

var update = flag.Bool("update", false, "write the golden files anew")

// gateway answers the admin API as a test says, and notes what it was asked.
type gateway struct {
	t       *testing.T
	server  *httptest.Server
	now     time.Time
	screen  int // columns of the terminal; 0: none
	stdin   string
	persons bool // somebody is there to answer
	pause   func(context.Context) error

	mu      sync.Mutex
	answers map[string][]any // by method and path; the last one is given again
	asked   []string         // method, path with query, and body
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{t: t, now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), answers: map[string][]any{}}
	g.server = httptest.NewServer(g)
	t.Cleanup(g.server.Close)
	return g
}

// on says what is answered at a path: one thing after the other. A *wire.ErrorDetail is a refusal.
func (g *gateway) on(method, path string, answers ...any) { g.answers[method+" "+path] = answers }

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, wire.PrefixAdmin)
	target := strings.TrimPrefix(r.URL.RequestURI(), wire.PrefixAdmin)
	g.asked = append(g.asked, strings.TrimSpace(r.Method+" "+target+" "+string(body)))
	left := g.answers[r.Method+" "+path]
	if len(left) == 0 {
		refuse(w, http.StatusNotFound, &wire.ErrorDetail{Code: wire.CodeNotFound, Message: "there is no " + path})
		return
	}
	if len(left) > 1 {
		g.answers[r.Method+" "+path] = left[1:]
	}
	switch answer := left[0].(type) {
	case *wire.ErrorDetail:
		refuse(w, http.StatusConflict, answer)
	case func():
		answer()
		panic(http.ErrAbortHandler)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func refuse(w http.ResponseWriter, status int, detail *wire.ErrorDetail) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(wire.Error{Error: *detail})
}

// requests are what was asked since the last call.
func (g *gateway) requests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.asked
	g.asked = nil
	return asked
}

// muster runs a command line.
func (g *gateway) muster(args ...string) (code int, stdout, stderr string) {
	return g.run(g.t.Context(), args...)
}

func (g *gateway) run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	g.t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(ctx, cli.Env{Args: args, Getenv: func(string) string { return "" }, Stdin: strings.NewReader(g.stdin), Stdout: &out,
		Stderr: &errs, Gateway: &client.Client{BaseURL: g.server.URL, HTTP: g.server.Client()}, Screen: func() int { return g.screen },
		Interactive: func() bool { return g.persons }, Now: func() time.Time { return g.now },
		After: func(time.Duration, func()) func() bool { return func() bool { return true } },
		Pause: func(ctx context.Context, d time.Duration) error {
			g.now = g.now.Add(d)
			if g.pause != nil {
				return g.pause(ctx)
			}
			return ctx.Err()
		}}, commands.All())
	return code, out.String(), errs.String()
}

// golden compares with testdata/<name>.golden, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", file, got, want)
	}
}
