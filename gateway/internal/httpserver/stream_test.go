package httpserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"muster/gateway/internal/httpserver"
)

// TestStreams: requests that are held on one HTTP/2 connection count like connections.
func TestStreams(t *testing.T) {
	limits := quick()
	limits.PerAddress = 4
	limits.Body = 5 * time.Second
	h := newHouse(t, limits)
	client := h.tls.Client()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	released := hold(ctx, t, client, h.tls.URL, 3)
	waitFor(t, func() bool { _, unproven := h.limiter.Open(); return unproven == 3 })
	if got := status(t, client, h.tls.URL+"/prove"); got != 200 {
		t.Errorf("a fourth request got %d, want 200", got)
	}
	waitFor(t, func() bool { all, unproven := h.limiter.Open(); return all == 1 && unproven == 0 })
	if got := status(t, client, h.tls.URL+"/"); got != 404 {
		t.Errorf("a request on a proven connection got %d, want 404", got)
	}
	stop()
	released()
}

// TestTooManyStreams: beyond the bound a request is refused, and its body is not waited for.
func TestTooManyStreams(t *testing.T) {
	limits := quick()
	limits.PerAddress = 2
	limits.Body = 5 * time.Second
	h := newHouse(t, limits)
	client := h.tls.Client()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	released := hold(ctx, t, client, h.tls.URL, 2)
	waitFor(t, func() bool { _, unproven := h.limiter.Open(); return unproven == 2 })
	if got := status(t, client, h.tls.URL+"/read"); got != 429 {
		t.Errorf("a third request got %d, want 429", got)
	}
	stop()
	released()
	waitFor(t, func() bool { _, unproven := h.limiter.Open(); return unproven <= 1 })
}

// hold makes requests on one HTTP/2 connection whose bodies never come. What it gives waits for their end.
func hold(ctx context.Context, t *testing.T, client *http.Client, url string, number int) (released func()) {
	t.Helper()
	if got := status(t, client, url+"/"); got != 404 { // requests that come together would each open a connection
		t.Fatalf("got %d, want 404", got)
	}
	var wait sync.WaitGroup
	for range number {
		body, _ := io.Pipe()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/read", body)
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			if answer, err := client.Do(request); err == nil {
				answer.Body.Close()
			}
		})
	}
	return wait.Wait
}

func status(t *testing.T, client *http.Client, url string) int {
	t.Helper()
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// TestNoWindow: a handler does not wait for ever for an HTTP/2 peer that takes nothing of its stream, though the connection is alive.
func TestNoWindow(t *testing.T) {
	w := &stuck{header: http.Header{}}
	if _, err := httpserver.Patient(w).Write(make([]byte, 100<<10)); !errors.Is(err, errStuck) {
		t.Errorf("got %v, want the stream's error", err)
	}
	if w.deadlines != 3 || time.Until(w.deadline) > 3*time.Minute || time.Until(w.deadline) < time.Minute {
		t.Errorf("%d deadlines were set, the last one at %s: want one for each piece", w.deadlines, w.deadline)
	}
}

var errStuck = errors.New("stuck")

// stuck takes two pieces and no more.
type stuck struct {
	header    http.Header
	pieces    int
	deadline  time.Time
	deadlines int
}

func (s *stuck) Header() http.Header { return s.header }
func (s *stuck) WriteHeader(int)     {}
func (s *stuck) Write(p []byte) (int, error) {
	if s.pieces++; s.pieces > 2 {
		return 0, errStuck
	}
	return len(p), nil
}
func (s *stuck) SetWriteDeadline(t time.Time) error {
	s.deadline = t
	s.deadlines++
	return nil
}
