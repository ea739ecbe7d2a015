package region_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/region"
)

const apiKey = "consumer1:token22:verySecretKey"

// served is a client of a handler.
func served(t *testing.T, h http.HandlerFunc) *region.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	atOnce := func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	c, err := region.New(region.Config{URL: server.URL, Key: apiKey, Sleep: atOnce})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestNew: what is no URL or no key is refused, and the refusal has nothing of the key.
func TestNew(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url, key string
		good     bool
	}{
		{"https://maas.example/MAAS", apiKey, true},
		{"http://maas.example:5240/MAAS", apiKey, true},
		{"http://127.0.0.1:5240", apiKey, true},
		{"ftp://maas.example/MAAS", apiKey, false},
		{"https://user@maas.example/MAAS", apiKey, false},
		{"https://maas.example/MAAS?x=1", apiKey, false},
		{"maas.example", apiKey, false},
		{"", apiKey, false},
		{"https://maas.example/MAAS", "", false},
		{"https://maas.example/MAAS", "consumer1:verySecretKey", false},
		{"https://maas.example/MAAS", apiKey + ":more", false},
		{"https://maas.example/MAAS", "consumer1:token22:very Secret", false},
		{"https://maas.example/MAAS", "consumer1:token22:verySecretKey\n", true},
	} {
		c, err := region.New(region.Config{URL: test.url, Key: test.key})
		if (err == nil) != test.good {
			t.Errorf("%q with %q: %v", test.url, test.key, err)
		}
		if err != nil && strings.Contains(err.Error(), "Secret") {
			t.Errorf("%v has the key", err)
		}
		if err == nil && strings.Contains(fmt.Sprintf("%v %+v %#v", c, c, *c), "Secret") {
			t.Error("a print of the client has the key")
		}
	}
}

// TestURL: the API is found below each way to write the URL.
func TestURL(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	for _, end := range []string{"", "/", "/MAAS", "/MAAS/", "/MAAS/api/2.0", "/MAAS/api/2.0/"} {
		c, err := region.New(region.Config{URL: l.server.URL + end, Key: l.Key(), Now: l.clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.WhoAmI(t.Context()); err != nil {
			t.Errorf("%q: %v", end, err)
		}
		c.Close()
	}
}

// TestAnswers: what each status means, in MAAS's words and in those of what stands before it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const page, plain, js = "text/html", "text/plain", "application/json"
	for _, test := range []struct {
		status     int
		kind, body string
		read       region.Kind
		write      region.Kind
	}{
		{200, js, `{"system_id":"abc","status":4}`, "", ""},
		{200, js, `{"system_id":"abd","status":4}`, region.Unclear, region.Unclear}, // of another machine
		{200, js, `{"system_id":"abc"}`, region.Unclear, region.Unclear},
		{200, js, `{"system_id":"abc","status":"4"}`, region.Unclear, region.Unclear},
		{200, js, `{"system_id":"abc","status":4}{}`, region.Unclear, region.Unclear},
		{200, js, `null`, region.Unclear, region.Unclear},
		{200, js, ``, region.Unclear, region.Unclear},
		{200, page, `{"system_id":"abc","status":4}`, region.NotMAAS, region.Unclear},
		{204, "", ``, region.Unclear, region.Unclear},
		{301, plain, ``, region.NotMAAS, region.NotMAAS},
		{400, plain, `no`, region.Refused, region.Refused},
		{400, js, `{"a":["b","c"],"__all__":["d"]}`, region.Refused, region.Refused},
		{400, page, `<h1>`, region.NotMAAS, region.NotMAAS},
		{401, page, `Authorization Error: Invalid API key.`, region.KeyRefused, region.KeyRefused},
		{401, page, `<h1>401`, region.NotMAAS, region.NotMAAS},
		{401, plain, `Forbidden`, region.KeyRefused, region.KeyRefused},
		{403, plain, ``, region.Forbidden, region.Forbidden},
		{403, page, `<h1>attention`, region.NotMAAS, region.NotMAAS},
		{404, plain, `No Machine matches the given query.`, region.NoSuch, region.NoSuch},
		{404, page, `No Machine matches the given query.`, region.NotMAAS, region.NotMAAS},
		{404, plain, `404 page not found`, region.NotMAAS, region.NotMAAS},
		{408, plain, ``, region.Unclear, region.Unclear},
		{409, plain, `Machine is not locked`, region.Conflict, region.Conflict},
		{409, page, `<h1>Conflict`, region.Unclear, region.Unclear},
		{410, plain, `Unknown API version`, region.Refused, region.Refused},
		{413, page, `<h1>413`, region.Refused, region.Refused},
		{429, page, ``, region.Unclear, region.Unclear},
		{500, plain, `broken`, region.Unclear, region.Unclear},
		{502, page, `<h1>`, region.Unclear, region.Unclear},
		{504, plain, ``, region.Unclear, region.Unclear},
	} {
		c := served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", test.kind)
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		})
		_, read := c.Machine(t.Context(), "abc")
		_, write := c.Release(t.Context(), "abc", false, "")
		if region.KindOf(read) != test.read || region.KindOf(write) != test.write {
			t.Errorf("%d %s %q: %v; %v", test.status, test.kind, test.body, read, write)
		}
		if strings.Contains(fmt.Sprint(read, write), "<h1>") {
			t.Errorf("%d: a page is shown: %v", test.status, read)
		}
	}
}

// TestLongWait: a wait that is longer than a quarter of a minute is the caller's.
func TestLongWait(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	c := served(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Retry-After", "99999")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	_, err := c.WhoAmI(t.Context())
	if e := refused(t, err, region.Unclear, 503, ""); e.Again != time.Hour || calls.Load() != 1 {
		t.Errorf("again in %s after %d calls", e.Again, calls.Load())
	}
	busy := served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "could not serialize access", http.StatusConflict)
	})
	_, err = busy.Release(t.Context(), "abc", false, "")
	if e := refused(t, err, region.Unclear, 409, ""); e.Again != 5*time.Second {
		t.Errorf("again in %s", e.Again)
	}
}

// TestUnreached: where no connection comes about, nothing was sent. Neither is what waits for another write, and what cannot be meant.
func TestUnreached(t *testing.T) {
	t.Parallel()
	c, err := region.New(region.Config{URL: "http://127.0.0.1:1", Key: apiKey})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Release(t.Context(), "abc", false, "")
	refused(t, err, region.Unreached, 0, "")
	_, err = c.Deploy(t.Context(), "abc", region.Deployment{})
	refused(t, err, region.Unreached, 0, "there is no user data: the machine would never report")
	_, err = c.Acquire(t.Context(), "abc", "", "")
	refused(t, err, region.Unreached, 0, "there is no agent name")
	_, err = c.Acquire(t.Context(), "a/c", "x", "")
	refused(t, err, region.Unreached, 0, "this is no system_id")
	refused(t, c.Abort(t.Context(), "", ""), region.Unreached, 0, "this is no system_id")
	refused(t, c.Retag(t.Context(), "a b", nil, nil), region.Unreached, 0, "")
	refused(t, c.CreateTag(t.Context(), "", ""), region.Unreached, 0, "")
}

// TestTimes: each kind of call has its own time. After it, a write is unclear.
func TestTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := piped(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			<-r.Context().Done()
		}, region.Config{Key: apiKey})
		for want, call := range map[time.Duration]func() error{
			time.Minute:      func() error { _, err := c.Machine(t.Context(), "abc"); return err },
			2 * time.Minute:  func() error { _, err := c.Release(t.Context(), "abc", false, ""); return err },
			10 * time.Minute: func() error { return c.Machines(t.Context(), region.Filter{}, nil) },
		} {
			begun := time.Now()
			e := refused(t, call(), region.Unclear, 0, "")
			if took := time.Since(begun); took != want || !strings.HasSuffix(e.Text, "it took longer than "+want.String()) {
				t.Errorf("%v after %s, want %s", e, took, want)
			}
		}
	})
}

// TestWaits: between two tries of a read it waits for what MAAS asks, or a second and more. The end of the context ends the wait.
func TestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := piped(t, func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls != 3 {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = io.WriteString(w, `{"username":"ann","is_superuser":false}`)
		}, region.Config{Key: apiKey})
		begun := time.Now()
		if u, err := c.WhoAmI(t.Context()); err != nil || u.Name != "ann" || time.Since(begun) != 14*time.Second {
			t.Errorf("%+v, %v after %s", u, err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begun = time.Now()
		_, err := c.WhoAmI(ctx)
		refused(t, err, region.Unclear, 503, "")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

// piped is a client of a handler inside a bubble of synctest.
func piped(t *testing.T, h http.HandlerFunc, config region.Config) *region.Client {
	t.Helper()
	listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: h}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(listener) })
	config.URL = "http://localhost"
	config.Dial = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		listener.conns <- there
		return here, nil
	}
	c, err := region.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		_ = server.Close()
		done.Wait()
	})
	return c
}

// pipes are the connections to a server.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.IPAddr{} }
