package httpserver_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/gateway/internal/httpserver"
)

// quick are limits for real connections.
func quick() httpserver.Limits {
	return httpserver.Limits{Network: 100, Unproven: 50, PerAddress: 20, PerOwner: 20, Local: 5,
		Grace: 50 * time.Millisecond, Quiet: time.Minute, Body: 200 * time.Millisecond, Stall: 200 * time.Millisecond, Least: 4 << 10}
}

// house is a server behind a limiter, on two listeners as the gateway has them.
type house struct {
	t       *testing.T
	limiter *httpserver.Limiter
	plain   string
	tls     *httptest.Server
	log     *bytes.Buffer
}

func at(peer net.Addr) (netip.Addr, bool) {
	return netip.MustParseAddrPort(peer.String()).Addr(), false
}

func newHouse(t *testing.T, limits httpserver.Limits) *house {
	h := &house{t: t, log: &bytes.Buffer{}}
	h.limiter = httpserver.New(httpserver.Config{Limits: limits, Place: at, Logger: slog.New(slog.NewTextHandler(h.log, nil))})
	for _, secret := range []bool{false, true} {
		s := httptest.NewUnstartedServer(h.limiter.Handler(h.rooms()))
		s.Listener = h.limiter.Network(s.Listener)
		s.EnableHTTP2 = true
		s.Config.ReadHeaderTimeout = time.Second // a handshake on a busy machine has its time
		s.Config.WriteTimeout = time.Minute
		s.Config.IdleTimeout = time.Minute
		s.Config.ConnContext = httpserver.Connected
		s.Config.ConnState = httpserver.State
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		if secret {
			s.StartTLS()
			h.tls = s
		} else {
			s.Start()
			h.plain = s.Listener.Addr().String()
		}
		t.Cleanup(s.Close)
	}
	return h
}

const large = 32 << 20 // more than the buffers between two ends hold

func (h *house) rooms() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	mux.HandleFunc("/prove", func(_ http.ResponseWriter, r *http.Request) { httpserver.Prove(r.Context(), "node") })
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(w, r.Body); err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
		}
	})
	mux.HandleFunc("/upload", upload)
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = httpserver.Patient(w).Write(make([]byte, large))
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(httpserver.Patient(w), r, h.numberedFile())
	})
	mux.HandleFunc("/impatient-file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, h.numberedFile()) })
	mux.HandleFunc("/reader", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, io.MultiReader(bytes.NewReader(numbered()), strings.NewReader("end")))
	})
	return mux
}

// numbered is as many bytes as large says. No two pieces of it are equal, so a gap or a repetition is seen.
func numbered() []byte {
	var text []byte
	for n := uint64(0); len(text) < large; n++ {
		text = binary.BigEndian.AppendUint64(text, n)
	}
	return text
}

// numberedFile is a new one with the numbered bytes.
func (h *house) numberedFile() string {
	path := filepath.Join(h.t.TempDir(), "file")
	if err := os.WriteFile(path, numbered(), 0o600); err != nil {
		h.t.Error(err)
	}
	return path
}

func (h *house) dial() net.Conn { return dial(h.t, h.plain) }

// told is what the limiter says that it closed.
func (h *house) told() string {
	h.log.Reset()
	h.limiter.Tell(h.t.Context())
	return h.log.String()
}

// closes waits until the other side ends the connection, for at most ten seconds, and gives what came before.
func closes(t *testing.T, c net.Conn) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection is not closed: %v, after %.80q", err, got)
	}
	return string(got)
}

// TestSlow: a peer that does not finish what it began loses its connection, on every path, before and after TLS begins.
func TestSlow(t *testing.T) {
	unread := "POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
	for _, c := range []struct {
		name   string
		secret bool // the listener with TLS
		text   string
		drip   string // sent again and again
		answer string
	}{
		{"no byte", false, "", "", ""},
		{"no byte to TLS", true, "", "", ""},
		{"half a hello", true, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "", ""},
		{"a hello byte by byte", true, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a", ""},
		{"half a request line", false, "GET /hea", "", ""},
		{"headers without end", false, "GET / HTTP/1.1\r\nHost: x\r\n", "A: b\r\n", ""},
		{"the second request's line", false, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "A", "HTTP/1.1 404"},
		{"no body that nobody reads", false, unread, "", "HTTP/1.1 404"},
		{"no body for who reads it", false, strings.Replace(unread, "nope", "read", 1), "", "HTTP/1.1 408"},
		{"a body byte by byte", false, strings.Replace(unread, "10", "100000", 1), "a", "HTTP/1.1 404"},
		{"no body where the server itself refuses", false, strings.Replace(unread, "Host: x", "Host: x\r\nExpect: much", 1), "", "HTTP/1.1 417"},
		{"no body where the server itself answers", false, strings.Replace(unread, "POST /nope", "OPTIONS *", 1), "", ""},
		{"the same byte by byte", false, strings.NewReplacer("POST /nope", "OPTIONS *", "10", "4000").Replace(unread), "a", ""},
		{"no chunk", false, strings.Replace(unread, "Content-Length: 10", "Transfer-Encoding: chunked", 1), "", "HTTP/1.1 404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, quick())
			go h.limiter.Run(t.Context())
			address := h.plain
			if c.secret {
				address = h.tls.Listener.Addr().String()
			}
			connection := dial(t, address)
			if _, err := io.WriteString(connection, c.text); err != nil {
				t.Fatal(err)
			}
			if c.drip != "" {
				go drip(connection, c.drip)
			}
			if got := closes(t, connection); !strings.HasPrefix(got, c.answer) {
				t.Errorf("got %q, want %s", got, c.answer)
			}
			if got := h.told(); !strings.Contains(got, "slow_request=1 ") {
				t.Errorf("told is %q, want slow_request=1", got)
			}
		})
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// drip sends a little every while until that fails.
func drip(c net.Conn, text string) {
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		if _, err := io.WriteString(c, text); err != nil {
			tick.Stop()
			return
		}
	}
}

// TestHonestIdle: a connection that ends between two requests is not reported.
func TestHonestIdle(t *testing.T) {
	h := newHouse(t, quick())
	c := h.dial()
	for range 2 {
		if _, err := io.WriteString(c, "POST /prove HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != 200 {
			t.Fatal(answer, err)
		}
	}
	if all, unproven := h.limiter.Open(); all != 1 || unproven != 0 {
		t.Errorf("%d are open and %d of them unproven, want 1 and 0", all, unproven)
	}
	c.Close()
	if got := h.told(); got != "" {
		t.Errorf("told is %q, want nothing", got)
	}
}

// TestNotRead: a peer that asks and does not read is cut; one that reads slowly gets all of the answer. The same holds for a file, which
// the kernel sends.
func TestNotRead(t *testing.T) {
	for _, c := range []struct {
		name  string
		path  string
		reads bool
	}{
		{"nothing", "large", false}, {"slowly", "large", true}, {"nothing of a file", "file", false}, {"a file slowly", "file", true},
		{"nothing of a file in one piece", "impatient-file", false}, {"a file in one piece slowly", "impatient-file", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			limits := quick()
			limits.Stall = time.Second
			limits.Least = 1
			h := newHouse(t, limits)
			connection := h.dial()
			if _, err := io.WriteString(connection, "GET /"+c.path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if !c.reads {
				waitFor(t, func() bool { all, _ := h.limiter.Open(); return all == 1 })
				waitFor(t, func() bool { all, _ := h.limiter.Open(); return all == 0 })
				if got := h.told(); !strings.Contains(got, "answer_not_read=1 ") {
					t.Errorf("told is %q, want answer_not_read=1", got)
				}
				return
			}
			answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if err != nil {
				t.Fatal(err)
			}
			if n := sip(t, answer.Body); n != large {
				t.Errorf("%d bytes came, want %d", n, large)
			}
		})
	}
}

// TestWholeFiles: what the kernel sends, and what it cannot send, comes whole and in its order, on every listener.
func TestWholeFiles(t *testing.T) {
	limits := quick()
	limits.Stall = time.Minute // this test compares 200 MB, and may be slow to take them
	h := newHouse(t, limits)
	want := numbered()
	for path, tail := range map[string]string{"/file": "", "/impatient-file": "", "/reader": "end"} {
		for _, base := range []string{"http://" + h.plain, h.tls.URL} {
			answer, err := h.tls.Client().Get(base + path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || !bytes.Equal(got, append(bytes.Clone(want), tail...)) {
				t.Errorf("%s%s: %d bytes, want %d; %v", base, path, len(got), len(want)+len(tail), err)
			}
		}
	}
}

// sip reads so little at a time that several windows pass, and then the rest.
func sip(t *testing.T, from io.Reader) (n int64) {
	t.Helper()
	until := time.Now().Add(3 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); time.Now().Before(until); <-tick.C {
		m, err := io.CopyN(io.Discard, from, 4<<10)
		if n += m; err != nil {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
	m, err := io.Copy(io.Discard, from)
	if err != nil {
		t.Fatal(err)
	}
	return n + m
}

func waitFor(t *testing.T, what func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for tick := time.NewTicker(10 * time.Millisecond); !what(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not come in 20 seconds")
		}
	}
}

// TestTwoLengths: a request that could hide another one ends its connection, and what follows it is never read.
func TestTwoLengths(t *testing.T) {
	h := newHouse(t, quick())
	for _, c := range []struct{ name, lengths, body string }{
		{"both", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"},
		{"the other way round", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"},
	} {
		connection := h.dial()
		text := "POST /read HTTP/1.1\r\nHost: x\r\n" + c.lengths + "\r\n" + c.body + "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
		if _, err := io.WriteString(connection, text); err != nil {
			t.Fatal(err)
		}
		got := closes(t, connection)
		if strings.Count(got, "HTTP/1.1 ") != 1 || !strings.Contains(got, "Connection: close") {
			t.Errorf("%s: got %q, want one answer that closes the connection", c.name, got)
		}
	}
}

// TestTLSThroughTheDoor: the server below TLS finds the same connection.
func TestTLSThroughTheDoor(t *testing.T) {
	h := newHouse(t, quick())
	c, err := tls.Dial("tcp", h.tls.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, unproven := h.limiter.Open(); unproven != 1 {
		t.Errorf("%d are unproven after the handshake, want 1", unproven)
	}
	fmt.Fprint(c, "GET /prove HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		t.Fatal(err)
	}
	if _, unproven := h.limiter.Open(); unproven != 0 {
		t.Errorf("%d are unproven after the proof, want 0", unproven)
	}
}
