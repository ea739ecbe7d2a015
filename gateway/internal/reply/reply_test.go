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
	"net/url"
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
		{"refusal that quotes", wire.Refuse(wire.CodeBadRequest, `no field "mse_ab12_SECRET"`, "see mse_ab12_SECRET"), 400, wire.CodeBadRequest, ""},
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
			if status != c.status || got.Error.Code != c.code || got.Epoch != "e1" || got.Time == nil || got.Time.Format(time.RFC3339) != "2026-11-21T09:00:00Z" {
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

func TestLogPath(t *testing.T) {
	for path, want := range map[string]string{
		"/nodes/register": "/nodes/register",
		"/api/v1/bootstrap/nodes/msb_ab12cd34ef56_0123456789abcdefghijkl/script": "/api/v1/bootstrap/nodes/msb_ab12cd34ef56_.../script",
		"/api/v1/bootstrap/nodes/justsecret/script":                              "/api/v1/bootstrap/nodes/.../script",
		"/api/v1/bootstrap/nodes/msb_ab12/script":                                "/api/v1/bootstrap/nodes/msb_ab12/script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch%2FSECRET/script":                 "/api/v1/bootstrap/nodes/msb_ab12_.../.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch,SECRET/script":                   "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch%20SECRET/script":                 "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch-SECRET/script":                   "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch:SECRET/script":                   "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch;SECRET/script":                   "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch%0ASECRET/script":                 "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12-fetch.SECRET/script":                   "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/SECRET/msb_ab12_fetch/registry-credential":      "/api/v1/bootstrap/nodes/.../msb_ab12_.../registry-credential",
		"/api/v1/bootstrap/nodes/fetch/SECRET/script":                            "/api/v1/bootstrap/nodes/.../.../script",
		"/agent/linux/msb_ab12_fetch%2FSECRET":                                   "/agent/linux/msb_ab12_.../...",
		"/api/v1/admin/nodes/msb_ab12%2Ffetch.SECRET/drain":                      "/api/v1/admin/nodes/msb_ab12/.../drain",
		"/x/%256Dsb_ab12_fetch.SECRET/y":                                         "/x/msb_ab12_.../...",
		"/api/v1/admin/tokens/mse_ab12cd34ef56":                                  "/api/v1/admin/tokens/mse_ab12cd34ef56",
		"/x/mse_ab12cd34ef56_SECRET/y?mse_ab12_SECRET":                           "/x/mse_ab12cd34ef56_.../...",
		"/x/%6dse_ab12cd34ef56_SECRET":                                           "/x/mse_ab12cd34ef56_...",
		"/x/mse_ab12/%256Dsb_ab12_SECRET":                                        "/x/mse_ab12/...",
		"/x/%256Dsb_ab12_SECRET/mse_ab12":                                        "/x/msb_ab12_.../...",
		"/x/mse_ab12%255F0123456789":                                             "/x/mse_ab12_...",
		"/x/msa_0123456789abcdefghijkl":                                          "/x/msa_...",
		"/x/msk_0123456789abcdefghijklmnopqr/drain":                              "/x/msk_.../drain",
		"/x/%6dsk_0123456789abcdefghijk/y":                                       "/x/msk_.../...",
		"/dc/msk_1/y":                                                            "/dc/msk_1/y",
		"/x%0a%1b[31m":                                                           "/x%0A%1B%5B31m",
		"/" + strings.Repeat("a", 300):                                           "/" + strings.Repeat("a", 255) + "...",
	} {
		if got := reply.LogPath(httptest.NewRequest("GET", path, nil)); got != want {
			t.Errorf("LogPath(%s) = %s, want %s", path, got, want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	for _, s := range []string{"mse_ab12_SECRET", "a msb_ab12_fetch.SECRET b", "msa_mse_ab12_x", "msk_0123456789abcdefg", "msk_msk_0123456789abcdefg", "msk_1", "ms", "mse_", "mse__x", "mse_ab12."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := reply.Redact(s)
		if twice := reply.Redact(once); twice != once {
			t.Errorf("Redact(%q) = %q, and again %q", s, once, twice)
		}
		if reply.Carries(s) != (once != s) {
			t.Errorf("Carries(%q) = %v, redacted %q", s, reply.Carries(s), once)
		}
		if !reply.HasToken(s) && once != s {
			t.Errorf("Redact(%q) = %q though there is no token", s, once)
		}
	})
}

// FuzzLogPath: what stands behind a token's public part is nowhere.
func FuzzLogPath(f *testing.F) {
	for _, s := range []string{"/x/msb_ab12_f.", "/api/v1/bootstrap/nodes/msb_ab12_f/", "/%6dsa_ab12_", "/msb_ab12 ", "/mse_ab12cd34ef56/", "%", "/%2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const secret = "sEcReT0123456789"
		u, err := url.Parse("/" + s + secret)
		if err != nil || !reply.HasToken(u.Path) {
			return
		}
		id := reply.TokenID(u.Path) // the text that was appended may have become part of it
		if got := reply.LogPath(&http.Request{URL: u}); strings.Contains(got, secret) && !strings.Contains(id, secret) {
			t.Errorf("%q is logged as %q", u.Path, got)
		}
	})
}

func TestTokenID(t *testing.T) {
	for text, want := range map[string]string{"": "", "mse_": "", "Bearer msb_ab12_f.S": "msb_ab12", "msa_ab12": "msa_ab12", "mse_0123456789abcdefg": "", "xmsb_a-b": "msb_a"} {
		if got := reply.TokenID(text); got != want {
			t.Errorf("TokenID(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestTokenIDs(t *testing.T) {
	many := strings.Repeat("msb_a msb_b ", 200)
	for text, want := range map[string]string{"": "", "msb_none_x mse_ab12 mse_ab12": "msb_none mse_ab12", "msa_0123456789abcdefg msb_a": "msb_a", "msa_x msb_a mse_b msa_y": "msb_a mse_b msa_x msa_y", "msb_msa_b": "msb_msa msa_b", many: "msb_a msb_b"} {
		if got := strings.Join(reply.TokenIDs(text, "", text), " "); got != want {
			t.Errorf("TokenIDs(%q) = %q, want %q", text, got, want)
		}
	}
	if got := reply.TokenIDs("msk_0123456789abcdefghijklmnopqr msa_x"); len(got) != 1 || got[0] != "msa_x" {
		t.Errorf("a PSK has a public part: %q", got)
	}
	for i := range 300 {
		many += fmt.Sprintf("msb_%d ", i)
	}
	if got := reply.TokenIDs(many); len(got) != 64 {
		t.Errorf("%d ids", len(got))
	}
}

// TestCarries: more than a public part, and as much as a whole token.
func TestCarries(t *testing.T) {
	for text, want := range map[string][2]bool{"": {}, "x=mse_ab12": {}, "msb_ab12._": {}, "msb_ab12 mse_ab12_x": {true, false}, "msa_0123456789abcdefg": {true, false},
		"rmsa_x_y": {true, false}, "msb_ab12_0123456789abcdefghij": {true, true}, "mse_x mse_ab12-x mse_ab12_0123456789abcdefghi_": {true, true}, "mse_0123456789abcdefghijklmn": {true, true},
		"omsk_1": {}, "msk_0123456789abcdef": {}, "a=msk_0123456789abcdefg": {true, false}, "msk_0123456789abcdefghijklmnopqr": {true, true}} {
		if got := [2]bool{reply.Carries(text), reply.Whole(text)}; got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestTokenLike(t *testing.T) {
	for text, want := range map[string]bool{"": false, "gpu-7": false, "msb_": true, "mse_ab12": true, "msa__x": true, "msc_ab12": false, "mse": false, "farmsa_1": false,
		"x-mse_ab12_SECRET": true, "x-mse_0123456789abcdefg": true, "msk_1": false, "msk_0123456789abcdefg": true} {
		if got := reply.TokenLike(text); got != want {
			t.Errorf("TokenLike(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{"": "", "a%20b": "a b", "%6Dsb%5F": "msb_", "%256D": "m", "%25256D": "%6D", "%zz%6d%": "%zzm%", "a+b": "a+b"} {
		if got := reply.Unescape(text); got != want {
			t.Errorf("Unescape(%q) = %q, want %q", text, got, want)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Error() string       { return "no space left" }
func (fullDisk) Unavailable() string { return "free disk space" }

// TestOutage: a database that takes no writes is said to whoever waits, and is not logged here: its owner does so once.
func TestOutage(t *testing.T) {
	var log bytes.Buffer
	info := &reply.Info{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	status, body := info.Error(fmt.Errorf("enrol: %w", fullDisk{}))
	if status != http.StatusServiceUnavailable || !strings.Contains(string(body), `"unavailable"`) || !strings.Contains(string(body), "free disk space") {
		t.Errorf("got %d %s", status, body)
	}
	if log.Len() != 0 {
		t.Errorf("the log is %s", log.String())
	}
}

func TestHasPSK(t *testing.T) {
	for text, want := range map[string]bool{"": false, "msk_1": false, "mse_0123456789abcdefgh": false, "msk_0123456789abcdefg": true, "mse_ab12 x-msk_0123456789abcdefg": true} {
		if got := reply.HasPSK(text); got != want {
			t.Errorf("HasPSK(%q) = %v, want %v", text, got, want)
		}
	}
}
