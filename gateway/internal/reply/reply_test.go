package reply_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/reply"
)

func info(log io.Writer) *reply.Info {
	return &reply.Info{Epoch: "e1", Logger: slog.New(slog.NewTextHandler(log, nil)),
		Now: func() time.Time { return time.Date(2026, 11, 21, 10, 0, 0, 0, time.FixedZone("", 3600)) }}
}

func TestError(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		status int
		code   string
		logged string
	}{
		{"refusal", wire.Refuse(wire.CodeTokenUsed, "m", ""), 409, wire.CodeTokenUsed, ""},
		{"wrapped refusal", fmt.Errorf("x: %w", &wire.ErrorDetail{Code: wire.CodeBadMAC}), 401, wire.CodeBadMAC, ""},
		{"refusal that quotes", wire.Refuse(wire.CodeBadRequest, `no field "mse_ab12_SECRET"`, "see mse_ab12_SECRET"), 400, wire.CodeBadRequest,
			""},
		{"canceled", fmt.Errorf("x: %w", context.Canceled), 503, wire.CodeUnavailable, ""},
		{"deadline", context.DeadlineExceeded, 503, wire.CodeUnavailable, ""},
		{"unforeseen", errors.New("disk on fire for mse_ab12_SECRET"), 500, wire.CodeInternal, "disk on fire for mse_ab12_..."},
		{"code without a status", wire.Refuse("made_up", "m", ""), 500, "made_up", "request_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			status, body := info(&log).Error(c.err)
			var got wire.Error
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatal(err)
			}
			if status != c.status || got.Error.Code != c.code || got.Epoch != "e1" || got.Time == nil ||
				got.Time.Format(time.RFC3339) != "2026-11-21T09:00:00Z" {
				t.Errorf("got %d %s", status, body)
			}
			if bytes.Contains(body, []byte("fire")) || bytes.Contains(body, []byte("SECRET")) || strings.Contains(log.String(), "SECRET") {
				t.Errorf("something leaked: %s %s", body, log.String())
			}
			if !strings.Contains(log.String(), c.logged) || (status == 500) != strings.Contains(log.String(), got.RequestID+" ") {
				t.Errorf("log %q for request id %q", log.String(), got.RequestID)
			}
		})
	}
}

func TestStrict(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /here/{x}", func(w http.ResponseWriter, r *http.Request) { reply.Write(w, 200, reply.JSON(r.PathValue("x"))) })
	mux.HandleFunc("POST /here/{x}", func(w http.ResponseWriter, _ *http.Request) { panic("at the disco") })
	var log bytes.Buffer
	h := info(&log).Strict(mux)
	for _, c := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/here/1", 200, "", ""},
		{"GET", "/nowhere", 404, wire.CodeNotFound, ""},
		{"DELETE", "/here/1", 405, wire.CodeMethodNotAllowed, "GET, HEAD, POST"},
		{"EVIL\x1b", "/here/1", 405, wire.CodeMethodNotAllowed, "GET, HEAD, POST"},
		{"POST", "/here/1", 500, wire.CodeInternal, ""},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		r.Method = c.method
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var got wire.Error
		_ = json.Unmarshal(w.Body.Bytes(), &got)
		if w.Code != c.status || got.Error.Code != c.code || w.Header().Get("Allow") != c.allow {
			t.Errorf("%q %s: got %d %s, Allow %q", c.method, c.path, w.Code, w.Body, w.Header().Get("Allow"))
		}
		for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store",
			"X-Content-Type-Options": "nosniff", wire.HeaderEpoch: "e1", "Content-Length": fmt.Sprint(w.Body.Len())} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%q %s: %s is %q, want %q", c.method, c.path, name, got, want)
			}
		}
	}
	if !strings.Contains(log.String(), "at the disco") {
		t.Errorf("the panic is not in the log: %s", log.String())
	}
	if got := func() (fault any) {
		mux.HandleFunc("/abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		defer func() { fault = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/abort", nil))
		return nil
	}(); got != http.ErrAbortHandler {
		t.Errorf("an aborting handler's panic became %v", got)
	}
}

// TestReadBody talks to a real server: deadlines and broken bodies exist only there.
func TestReadBody(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := reply.ReadBody(w, r, 8, 50*time.Millisecond)
		if err != nil {
			info(io.Discard).WriteError(w, err)
			return
		}
		reply.Write(w, 200, body)
	}))
	defer server.Close()
	const head = "POST / HTTP/1.1\r\nHost: x\r\n"
	for _, c := range []struct {
		name, request string
		hangUp        bool // closes the sending side
		status        int
		want          string
	}{
		{"whole", head + "Content-Length: 2\r\n\r\nhi", false, 200, "hi"},
		{"empty", head + "Content-Length: 0\r\n\r\n", false, 200, ""},
		{"announced too large", head + "Content-Length: 9\r\n\r\n", false, 413, wire.CodeBodyTooLarge},
		{"turns out too large", head + "Transfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n", false, 413, wire.CodeBodyTooLarge},
		{"slow", head + "Content-Length: 4\r\n\r\nhi", false, 408, wire.CodeSlowBody},
		{"broken off", head + "Content-Length: 4\r\n\r\nhi", true, 400, wire.CodeBadRequest},
		{"bad chunk", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", false, 400, wire.CodeBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			if c.hangUp {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != c.status || !strings.Contains(string(body), c.want) {
				t.Errorf("got %d %s", answer.StatusCode, body)
			}
		})
	}
}

// fullDisk is an error as the store gives it while the disk is full.
type fullDisk struct{}

func (fullDisk) Error() string       { return "no space left" }
func (fullDisk) Unavailable() string { return "free disk space" }

// TestOutage: a caller is told that the database takes no writes. It is not logged here: package outage logs it once.
func TestOutage(t *testing.T) {
	var log bytes.Buffer
	info := &reply.Info{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	status, body := info.Error(fmt.Errorf("enrol: %w", fullDisk{}))
	if status != http.StatusServiceUnavailable || !strings.Contains(string(body), `"unavailable"`) ||
		!strings.Contains(string(body), "free disk space") {
		t.Errorf("got %d %s", status, body)
	}
	if log.Len() != 0 {
		t.Errorf("the log is %s", log.String())
	}
}
