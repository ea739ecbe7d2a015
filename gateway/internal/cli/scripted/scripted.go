// Package scripted is a gateway whose answers a test writes, for the tests of commands. No program imports it.
package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/client"
)

// Gateway answers the admin API as a test says, and notes what it was asked.
type Gateway struct {
	t        *testing.T
	commands []cli.Command
	server   *httptest.Server

	Now     time.Time
	Screen  int // columns of the terminal; 0: none
	Stdin   string
	Persons bool                        // somebody is there to answer
	Pause   func(context.Context) error // called instead of a wait; nil: it passes at once

	mu      sync.Mutex
	answers map[string][]any // by method and path; the last one is given again
	asked   []string         // method, path with query, and body
}

// New makes a gateway that has no answers yet, and these commands.
func New(t *testing.T, all []cli.Command) *Gateway {
	t.Helper()
	g := &Gateway{t: t, commands: all, Now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), answers: map[string][]any{}}
	g.server = httptest.NewServer(g)
	t.Cleanup(g.server.Close)
	return g
}

// On says what is answered at a path: one thing after the other. A *wire.ErrorDetail is a refusal.
func (g *Gateway) On(method, path string, answers ...any) { g.answers[method+" "+path] = answers }

// Answers returns what On was last told of a path, less what was given already.
func (g *Gateway) Answers(method, path string) []any { return g.answers[method+" "+path] }

// ServeHTTP answers as the test says, and with 404 where it says nothing.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// Requests returns what was asked since the last call.
func (g *Gateway) Requests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.asked
	g.asked = nil
	return asked
}

// Muster runs a command line.
func (g *Gateway) Muster(args ...string) (code int, stdout, stderr string) {
	return g.Run(g.t.Context(), args...)
}

// Run runs a command line until ctx ends.
func (g *Gateway) Run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	g.t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(ctx, cli.Env{Args: args, Getenv: func(string) string { return "" }, Stdin: strings.NewReader(g.Stdin), Stdout: &out,
		Stderr: &errs, Gateway: &client.Client{BaseURL: g.server.URL, HTTP: g.server.Client()}, Screen: func() int { return g.Screen },
		Interactive: func() bool { return g.Persons }, Now: func() time.Time { return g.Now },
		After: func(time.Duration, func()) func() { return func() {} },
		Pause: func(ctx context.Context, d time.Duration) error {
			g.Now = g.Now.Add(d)
			if g.Pause != nil {
				return g.Pause(ctx)
			}
			return ctx.Err()
		}}, g.commands)
	return code, out.String(), errs.String()
}
