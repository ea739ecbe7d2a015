package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
)

const key = "very-secret-key"

// client calls a handler, and never waits: it adds up how long it would have.
func client(t *testing.T, r call.Rules, h http.HandlerFunc) (*call.Client, *atomic.Int64) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	waited := new(atomic.Int64)
	now := time.Now()
	c, err := call.New(call.Account{
		URL: server.URL, Key: key,
		Now:   func() time.Time { return now.Add(time.Duration(waited.Load())) },
		Sleep: func(ctx context.Context, d time.Duration) error { waited.Add(int64(d)); return ctx.Err() },
	}, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, waited
}

func readAll(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// failed is err as a *cloud.Error.
func failed(t *testing.T, err error) *cloud.Error {
	t.Helper()
	var e *cloud.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v, want a *cloud.Error", err)
	}
	return e
}

// TestStatuses: what each answer means. A 404 never says that an instance is gone, unless the company's words say so.
func TestStatuses(t *testing.T) {
	t.Parallel()
	judge := func(_ int, body []byte) (kind, text string) {
		var said struct{ Error, Msg string }
		_ = json.Unmarshal(body, &said)
		switch said.Error {
		case "auth_error":
			kind = cloud.KeyRefused
		case "no_such_instance":
			kind = cloud.NoSuch
		}
		return kind, said.Msg
	}
	for _, test := range []struct {
		status           int
		kind, body, want string
	}{
		{401, "application/json", `{}`, cloud.KeyRefused},
		{403, "application/json", `{}`, cloud.Unclear},
		{403, "application/json", `{"error":"auth_error"}`, cloud.KeyRefused},
		{401, "text/html", `<html>attention`, cloud.Unclear},
		{403, "text/html; charset=utf-8", `<html>attention`, cloud.Unclear},
		{404, "application/json", `{"error":"auth_error"}`, cloud.KeyRefused},
		{404, "application/json", `{"error":"no_such_instance"}`, cloud.NoSuch},
		{404, "application/json", `{}`, cloud.Refused},
		{404, "text/html", `{"error":"no_such_instance"}`, cloud.Unclear},
		{410, "application/json", `{"error":"deprecated_endpoint"}`, cloud.Refused},
		{429, "text/plain", `API requests too frequent`, cloud.Limited},
		{400, "application/json", `{}`, cloud.Refused},
		{400, "application/json", `{"error":`, cloud.Unclear},
		{302, "application/json", `{}`, cloud.Refused},
		{500, "application/json", `{}`, cloud.Unclear},
		{503, "text/html", `<html>`, cloud.Unclear},
		{200, "text/html", `<html>`, cloud.Unclear},
		{204, "", ``, ""},
		{200, "application/json", `{}`, ""},
	} {
		c, _ := client(t, call.Rules{Judge: judge}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", test.kind)
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		})
		err := c.Do(t.Context(), call.Request{Method: http.MethodPut, Path: "/"}, readAll)
		if test.want == "" {
			if err != nil {
				t.Errorf("%d %s: %v", test.status, test.body, err)
			}
			continue
		}
		if e := failed(t, err); e.Kind != test.want || e.Status != test.status {
			t.Errorf("%d %s %s is %s (%d), want %s", test.status, test.kind, test.body, e.Kind, e.Status, test.want)
		}
	}
}

// TestOnlyReadsComeAgain: a read that is told to wait is asked again, three times. What changes something is asked once.
func TestOnlyReadsComeAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method string
		status int
		fails  int64
		want   int64
		good   bool
	}{
		{http.MethodGet, 429, 2, 3, true},
		{http.MethodGet, 503, 3, 4, true},
		{http.MethodGet, 502, 9, 4, false},
		{http.MethodGet, 500, 1, 1, false},
		{http.MethodPut, 503, 1, 1, false},
		{http.MethodDelete, 429, 1, 1, false},
		{http.MethodPost, 504, 1, 1, false},
	} {
		var calls atomic.Int64
		c, waited := client(t, call.Rules{}, func(w http.ResponseWriter, _ *http.Request) {
			if calls.Add(1) <= test.fails {
				w.WriteHeader(test.status)
			}
		})
		err := c.Do(t.Context(), call.Request{Method: test.method, Path: "/"}, nil)
		if calls.Load() != test.want || (err == nil) != test.good {
			t.Errorf("%s and %d: %d calls, %v; want %d, good %v", test.method, test.status, calls.Load(), err, test.want, test.good)
		}
		if test.want > 1 && waited.Load() == 0 {
			t.Errorf("%s and %d: nobody waited", test.method, test.status)
		}
	}
}

// TestRetryAfter: a short wait is waited, a long one is the caller's, and it holds the calls of the same class.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for seconds, calls := range map[int64]int64{7: 2, 90: 1} {
		var got atomic.Int64
		c, waited := client(t, call.Rules{}, func(w http.ResponseWriter, _ *http.Request) {
			if got.Add(1) == 1 {
				w.Header().Set("Retry-After", fmt.Sprint(seconds))
				w.WriteHeader(http.StatusTooManyRequests)
			}
		})
		err := c.Do(t.Context(), call.Request{Method: http.MethodGet, Path: "/", Class: "list"}, nil)
		if got.Load() != calls {
			t.Errorf("%d s: %d calls, want %d", seconds, got.Load(), calls)
		}
		if calls == 1 {
			if e := failed(t, err); e.Kind != cloud.Limited || e.Again != 90*time.Second {
				t.Errorf("the error is %v, again in %v", e, e.Again)
			}
			if err := c.Do(t.Context(), call.Request{Method: http.MethodGet, Path: "/", Class: "list"}, nil); err != nil {
				t.Error(err)
			}
		}
		if waited.Load() < seconds*int64(time.Second) {
			t.Errorf("%d s: waited %v", seconds, time.Duration(waited.Load()))
		}
	}
}

// TestNothingSent: where no connection comes about, nothing was done. Where one breaks, it may have been.
func TestNothingSent(t *testing.T) {
	t.Parallel()
	c, err := call.New(call.Account{URL: "http://127.0.0.1:1", Key: key}, call.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Do(t.Context(), call.Request{Method: http.MethodPut, Path: "/secret-path"}, nil)
	if e := failed(t, err); e.Kind != cloud.Unreached || strings.Contains(e.Text, "secret-path") {
		t.Errorf("a closed port is %v", e)
	}
	broken, _ := client(t, call.Rules{}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	err = broken.Do(t.Context(), call.Request{Method: http.MethodPut, Path: "/"}, nil)
	if e := failed(t, err); e.Kind != cloud.Unclear {
		t.Errorf("a lost reply is %v", e)
	}
}

// TestContext: an end that the caller wants is the caller's error, before and during a call.
func TestContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c, _ := client(t, call.Rules{}, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	for range 2 {
		if err := c.Do(ctx, call.Request{Method: http.MethodGet, Path: "/"}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestBounds: an answer without an end, and one that breaks off, are errors.
func TestBounds(t *testing.T) {
	t.Parallel()
	endless, _ := client(t, call.Rules{}, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	err := endless.Do(t.Context(), call.Request{Method: http.MethodGet, Path: "/"}, readAll)
	if e := failed(t, err); e.Kind != cloud.Unclear || !strings.Contains(e.Text, "longer than 8 MiB") {
		t.Errorf("an endless answer is %v", e)
	}
	cut, _ := client(t, call.Rules{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
	})
	err = cut.Do(t.Context(), call.Request{Method: http.MethodGet, Path: "/"}, readAll)
	if e := failed(t, err); e.Kind != cloud.Unclear {
		t.Errorf("an answer that breaks off is %v", e)
	}
	exact, _ := client(t, call.Rules{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 8<<20)) })
	if err := exact.Do(t.Context(), call.Request{Method: http.MethodGet, Path: "/"}, readAll); err != nil {
		t.Errorf("8 MiB are %v", err)
	}
}

// TestKeyGoesNowhereElse: it is in the one header, not at a host that an answer names, and in no error.
func TestKeyGoesNowhereElse(t *testing.T) {
	t.Parallel()
	var astray atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { astray.Store(true) }))
	defer other.Close()
	c, _ := client(t, call.Rules{Judge: func(_ int, body []byte) (string, string) { return "", string(body) }},
		func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+key || strings.Contains(r.URL.String(), key) {
				t.Errorf("the request has %q and %v", r.Header.Get("Authorization"), r.URL)
			}
			w.Header().Set("Location", other.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
			fmt.Fprintf(w, `"we know %s"`, key)
		})
	err := c.Do(t.Context(), call.Request{Method: http.MethodGet, Path: "/"}, nil)
	if e := failed(t, err); strings.Contains(e.Error(), key) || !strings.Contains(e.Text, "we know") || astray.Load() {
		t.Errorf("the error is %v, followed: %v", e, astray.Load())
	}
}

// TestTimesOut: the server is a listener that answers nobody.
func TestTimesOut(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, err := call.New(call.Account{URL: "http://" + listener.Addr().String(), Key: key}, call.Rules{Time: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Do(t.Context(), call.Request{Method: http.MethodPut, Path: "/"}, nil)
	if e := failed(t, err); e.Kind != cloud.Unclear || !strings.Contains(e.Text, "longer than 50ms") {
		t.Errorf("the error is %v", e)
	}
}

// TestAccounts: what New takes.
func TestAccounts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url, key string
		good     bool
	}{
		{"", key, true},
		{"https://console.example/api", key, true},
		{"http://127.0.0.1:80", key, true},
		{"http://[::1]:80", key, true},
		{"http://localhost:80", key, true},
		{"http://console.example", key, false},
		{"http://127.0.0.1.example", key, false},
		{"ftp://127.0.0.1", key, false},
		{"https://user@console.example", key, false},
		{"https://console.example?key=1", key, false},
		{"console.example", key, false},
		{"https://console.example", "", false},
		{"https://console.example", "two words", false},
		{"https://console.example", "line-with-end\n", false},
	} {
		_, err := call.New(call.Account{URL: test.url, Key: test.key}, call.Rules{URL: "https://console.example"})
		if (err == nil) != test.good {
			t.Errorf("%q with key %q: %v", test.url, test.key, err)
		}
		if err != nil && test.key != "" && strings.Contains(err.Error(), test.key) {
			t.Errorf("%v has the key", err)
		}
	}
}
