package httpserver_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/reply"
)

// BenchmarkKeepAlive is what the limiter costs a heartbeat: the same exchange over TLS with it and without. Both have the server's own
// deadlines.
func BenchmarkKeepAlive(b *testing.B) {
	for _, with := range []bool{false, true} {
		name := "bare"
		if with {
			name = "limiter"
		}
		b.Run(name, func(b *testing.B) { exchange(b, with) })
	}
}

func exchange(b *testing.B, with bool) {
	handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpserver.Prove(r.Context(), "node")
		body, err := reply.ReadBody(w, r, 1<<20, time.Minute)
		if err != nil {
			b.Error(err)
		}
		reply.Write(w, http.StatusOK, body[:64])
	}))
	s := httptest.NewUnstartedServer(handler)
	s.Config.ReadHeaderTimeout = time.Minute
	s.Config.WriteTimeout = time.Minute
	s.Config.IdleTimeout = time.Minute
	if with {
		d := httpserver.New(httpserver.Config{Limits: httpserver.LimitsFor(1024), Place: func(net.Addr) (netip.Addr, bool) { return netip.IPv6Loopback(), false }})
		s.Listener = d.Network(s.Listener)
		s.Config.Handler = d.Handler(handler)
		s.Config.ConnContext = httpserver.Connected
		s.Config.ConnState = httpserver.State
	}
	s.StartTLS()
	defer s.Close()
	client := s.Client()
	body := make([]byte, 1024)
	for b.Loop() {
		answer, err := client.Post(s.URL, "application/json", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			b.Fatal(err)
		}
		answer.Body.Close()
	}
}
