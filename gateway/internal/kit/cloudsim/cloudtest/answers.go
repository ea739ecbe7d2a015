// Package cloudtest has what tests of companies that rent machines have in common.
package cloudtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Answers is a company that gives fixed answers, one after the other, and keeps what it was asked. The last answer stays.
type Answers struct {
	URL string

	mu    sync.Mutex
	give  []string
	asked []string
}

// Answering starts a company that gives these answers to a caller with the key. An answer is STATUS BODY. A body that begins with < is a
// page for people.
func Answering(t testing.TB, key string, give ...string) *Answers {
	t.Helper()
	a := &Answers{give: give}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("%s %s has not the key in its header", r.Method, r.URL.Path)
		}
		a.answer(w, r)
	}))
	t.Cleanup(server.Close)
	a.URL = server.URL
	return a
}

// Asked returns the requests: METHOD PATH BODY.
func (a *Answers) Asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

func (a *Answers) answer(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sent, _ := io.ReadAll(r.Body)
	a.asked = append(a.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(sent)))
	var status int
	_, _ = fmt.Sscan(a.give[0], &status)
	_, body, _ := strings.Cut(a.give[0], " ")
	if len(a.give) > 1 {
		a.give = a.give[1:]
	}
	kind := "application/json"
	if strings.HasPrefix(body, "<") {
		kind = "text/html"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
