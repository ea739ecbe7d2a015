package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/wire"
)

// forced makes a client of this server that goes through curl alone.
func forced(t testing.TB, server string, change func(*Config)) *Client {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("these tests need curl: install it")
	}
	cfg := Config{Gateway: server, Way: Curl, Version: "1"}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// program makes a script that stands for curl.
func program(t testing.TB, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "curl")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func serve(t testing.TB, handler http.HandlerFunc) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func post(c *Client, header http.Header, body []byte) (Answer, error) {
	return raw(context.Background(), c, Request{Path: "/nodes/[n1]/{x}?a=b%20c", Kind: "text/plain", Body: body}, header)
}

// raw sends a request through curl as it is, without a proof.
func raw(ctx context.Context, c *Client, q Request, header http.Header) (Answer, error) {
	o := c.outgoing(q)
	o.header = header
	return c.at(c.tenure).curl[strict].exchange(ctx, o)
}

func TestCurlCarriesEveryByte(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	var path, length string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.RequestURI
		length = r.Header.Get("Content-Length")
		for name, values := range r.Header {
			w.Header()["Echo-"+name] = values
		}
		w.WriteHeader(http.StatusEarlyHints) // a block of headers before the one that counts
		w.Header().Set("Trailer", "After")
		w.WriteHeader(207)
		io.Copy(w, r.Body)
		w.Header().Set("After", "x")
	})
	c := forced(t, server, nil)
	for name, body := range map[string][]byte{
		"empty": nil, "a file's name": []byte("@/etc/passwd"), "every byte": every, "large": bytes.Repeat(every, wire.MaxBody/256),
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{"X-Quoted": {`a "b" \n \\ c`, "@/etc/passwd"}, "X-Tab": {"a\tb"}, "X-Empty": {""},
				"Content-Type": {"application/json"}}
			a, err := post(c, header, body)
			if err != nil || a.Status != 207 || !bytes.Equal(a.Body, body) || a.chained {
				t.Fatalf("status %d, %d bytes, error %v", a.Status, len(a.Body), err)
			}
			for name, want := range header {
				if got := a.Header["Echo-"+name]; !reflect.DeepEqual(got, want) {
					t.Errorf("%s arrived as %q, want %q", name, got, want)
				}
			}
			if got := a.Header.Get("Echo-User-Agent"); !strings.HasPrefix(got, "curl/") {
				t.Errorf("User-Agent %q, want curl's own", got)
			}
			if a.Header.Get("Echo-Expect") != "" || path != "/nodes/[n1]/{x}?a=b%20c" {
				t.Errorf("asked %q with Expect %q", path, a.Header.Get("Echo-Expect"))
			}
			if len(body) == 0 && length != "0" && length != "" {
				t.Errorf("an empty body has %q bytes", length)
			}
		})
	}
}

func TestCurlRefusesInjection(t *testing.T) {
	asked := 0
	server := serve(t, func(http.ResponseWriter, *http.Request) { asked++ })
	c := forced(t, server, nil)
	for _, header := range []http.Header{
		{"X": {"a\r\nEvil: 1"}}, {"X": {"a\nurl = \"http://127.0.0.1:1\""}}, {"X": {"a\x00b"}}, {"X": {"\x7f"}},
		{"@file": {"x"}}, {"X\nY": {"x"}}, {"": {"x"}}, {"X:": {"x"}},
	} {
		if _, err := post(c, header, nil); err == nil {
			t.Errorf("%q was sent", header)
		}
	}
	for _, path := range []string{"/a b", "/a\nb", "/a\x00b"} {
		if _, err := raw(context.Background(), c, Request{Path: path}, nil); err == nil {
			t.Errorf("%q was asked", path)
		}
	}
	if asked != 0 {
		t.Errorf("%d requests arrived", asked)
	}
}

func TestCurlAnswersAreBounded(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"one byte more": func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, wire.MaxBody+1)) },
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				w.Write(make([]byte, 1<<16))
			}
		},
		"headers": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
			}
		},
	} {
		if _, err := post(forced(t, serve(t, handler), nil), http.Header{}, nil); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	exact := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, wire.MaxBody)) })
	if a, err := post(forced(t, exact, nil), http.Header{}, nil); err != nil || len(a.Body) != wire.MaxBody {
		t.Errorf("%d bytes, error %v", len(a.Body), err)
	}
}

func TestCurlFollowsNothing(t *testing.T) {
	asked := 0
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	a, err := post(forced(t, server, nil), http.Header{}, nil)
	if err != nil || a.Status != 307 || a.Header.Get("Location") == "" || asked != 1 {
		t.Errorf("status %d after %d requests, error %v", a.Status, asked, err)
	}
}

func TestCurlIsGivenUpInTime(t *testing.T) {
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	c := forced(t, server, func(cfg *Config) { cfg.Timeout = 300 * time.Millisecond })
	if _, err := post(c, http.Header{}, nil); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "no answer within 300ms") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := raw(ctx, c, Request{Path: "/"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestTheWholeGroupIsKilled: the program ignores its limit of time and starts another one. Both hold a pipe open, and both are killed.
func TestTheWholeGroupIsKilled(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	c := forced(t, "http://127.0.0.1:1", func(cfg *Config) {
		cfg.Timeout = 500 * time.Millisecond
		cfg.Curl = program(t, "exec 9>'"+fifo+"'\nsleep 1000 &\nsleep 1000")
	})
	ended := make(chan error)
	go func() {
		file, err := os.Open(fifo)
		if err == nil {
			_, err = io.ReadAll(file)
		}
		ended <- err
	}()
	started := time.Now()
	if _, err := post(c, http.Header{}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	select {
	case err := <-ended:
		if err != nil || time.Since(started) > 20*time.Second {
			t.Errorf("ended after %s, error %v", time.Since(started), err)
		}
	case <-time.After(20 * time.Second):
		t.Error("something of the group lives on")
	}
}

func TestNothingSecretIsInArgumentsOrEnvironment(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header["X-Home"], r.Header.Get("Authorization"))
	})
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte("header = \"X-Home: read\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := filepath.Join(home, "seen")
	c := forced(t, server, func(cfg *Config) {
		cfg.Curl = program(t, `{ printf '%s\n' "$@"; env; } >'`+seen+`'; exec curl "$@"`)
		cfg.Environ = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + home, "MUSTER_TOKEN=mse_s3cret", "MUSTER_STATE=/s3cret",
			"SSLKEYLOGFILE=" + home + "/s3cret", "KEPT=yes",
		}
	})
	a, err := post(c, http.Header{"Authorization": {"Muster s3cret"}}, []byte("s3cret"))
	if err != nil || string(a.Body) != "[]Muster s3cret" {
		t.Errorf("answer %q, error %v", a.Body, err)
	}
	raw, err := os.ReadFile(seen)
	if err != nil || !strings.HasPrefix(string(raw), "-q\n--config\n-\n") || !strings.Contains(string(raw), "KEPT=yes") ||
		strings.Contains(string(raw), "s3cret") ||
		strings.Contains(string(raw), "MUSTER_") {
		t.Errorf("%v: %s", err, raw)
	}
}

func TestCurlEnvironment(t *testing.T) {
	tests := map[string][]string{
		"A=1 HTTP_PROXY=http://p NO_PROXY=x": {"A=1", "HTTP_PROXY=http://p", "NO_PROXY=x", "http_proxy=http://p"},
		"http_proxy=http://q HTTP_PROXY=p":   {"http_proxy=http://q", "HTTP_PROXY=p"},
		"http_proxy= HTTP_PROXY=p":           {"http_proxy=", "HTTP_PROXY=p"},
		"MUSTER_X=1 MUSTER=2 =odd":           {"MUSTER=2", "=odd"},
	}
	for text, want := range tests {
		if got := curlEnvironment(strings.Split(text, " ")); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	t.Setenv("MUSTER_TOKEN", "mse_x")
	if strings.Contains(strings.Join(curlEnvironment((&Client{}).environ()), "\n"), "MUSTER_") {
		t.Error("this process's own variables are handed on")
	}
}

func TestCurlFailuresAreSentences(t *testing.T) {
	for code, want := range map[int]string{
		2: "install one from 7.49 on", 5: "https_proxy", 6: "DNS", 7: "firewalls", 26: "mount /proc", 35: "TLS handshake",
		51: "not trusted", 52: "https://",
		56: "broke off", 60: "not trusted", 77: "not trusted", 97: "proxy refuses", 200: "exit status 200", 28: "no answer within",
	} {
		c := forced(t, "https://gateway.test", func(cfg *Config) {
			cfg.Curl = program(t, fmt.Sprintf("cat >/dev/null; printf 'curl: (%d) Some\\033 reason\\nmore' >&2; exit %d", code, code))
		})
		_, err := post(c, http.Header{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%d: %v, want %q in it", code, err, want)
		}
		if code != 28 && (err == nil || !strings.Contains(err.Error(), "(curl says: Some reason)")) {
			t.Errorf("%d: %v does not repeat curl's words", code, err)
		}
		if errors.Is(err, ErrUntrusted) != (code == 51 || code == 60 || code == 77) {
			t.Errorf("%d: %v", code, err)
		}
	}
	for script, want := range map[string]string{
		"kill -9 $$": "memory limits", "cat >/dev/null; exit 0": "does not speak HTTP",
	} {
		c := forced(t, "http://gateway.test", func(cfg *Config) { cfg.Curl = program(t, script) })
		if _, err := post(c, http.Header{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
	c := forced(t, "http://gateway.test", func(cfg *Config) { cfg.Curl = filepath.Join(t.TempDir(), "none") })
	if _, err := post(c, http.Header{}, nil); err == nil || !strings.Contains(err.Error(), "install it, or choose --transport direct") {
		t.Errorf("error %v", err)
	}
	c = forced(t, "http://gateway.test", func(cfg *Config) { cfg.Curl = program(t, "")[:1] })
	if _, err := post(c, http.Header{}, nil); err == nil {
		t.Error("a directory was run")
	}
}

func TestCurlOnRealTrouble(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	mute := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	plainPort := serve(t, func(http.ResponseWriter, *http.Request) {})
	for server, want := range map[string]string{
		closed.URL: "check that the gateway runs", mute: "without an answer",
		strings.Replace(plainPort, "http:", "https:", 1): "speaks no TLS",
	} {
		if _, err := post(forced(t, server, nil), http.Header{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestParseHeaders(t *testing.T) {
	tests := []struct {
		name, raw string
		status    int
		header    http.Header
	}{
		{"plain", "HTTP/1.1 200 OK\r\nMuster-Answer: abc\r\n\r\n", 200, http.Header{"Muster-Answer": {"abc"}}},
		{"second version", "HTTP/2 403 \r\ncf-mitigated: challenge\r\n\r\n", 403, http.Header{"Cf-Mitigated": {"challenge"}}},
		{"tunnel", "HTTP/1.1 200 Connection established\r\nVia: p\r\n\r\nHTTP/1.1 204 No Content\r\nA: b\r\n\r\n", 204,
			http.Header{"A": {"b"}}},
		{"continue", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n\r\n", 201, http.Header{}},
		{"trailers", "HTTP/1.1 200 OK\r\nA: b\r\n\r\nMuster-Answer: late\r\n", 200, http.Header{"A": {"b"}}},
		{"a status line among headers", "HTTP/1.1 403 No\r\nHTTP/1.1 200 OK\r\nA: b\r\n\r\n", 403, http.Header{"A": {"b"}}},
		{"odd names", "HTTP/1.1 200 OK\r\n: x\r\nA b: c\r\nnothing\r\n folded: x\r\nOk:  y \r\n\r\n", 200, http.Header{"Ok": {"y"}}},
		{"twice", "HTTP/1.1 200 OK\r\nA: 1\r\na: 2\r\n\r\n", 200, http.Header{"A": {"1", "2"}}},
		{"nothing", "", 0, nil},
		{"broken off", "HTTP/1.1 200 OK\r\nA: b\r\n", 0, nil},
		{"continue alone", "HTTP/1.1 100 Continue\r\n\r\n", 0, nil},
		{"another protocol", "SSH-2.0-OpenSSH\r\n\r\n", 0, nil},
		{"bad statuses", "HTTP/1.1 20 x\r\n\r\nHTTP/1.1 -20\r\n\r\nHTTP/1.1\r\n\r\nHTTP/1.1 2e3 x\r\n\r\n", 0, nil},
	}
	for _, test := range tests {
		status, header, err := parseHeaders([]byte(test.raw))
		if status != test.status || !reflect.DeepEqual(header, test.header) || (err != nil) != (test.status == 0) {
			t.Errorf("%s: %d %v %v, want %d %v", test.name, status, header, err, test.status, test.header)
		}
	}
}

func FuzzParseHeaders(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nA: b\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\n\nHTTP/3 999 \nx:y\n\ntrailer: z"))
	f.Add([]byte("\r\n\r\nHTTP/ 200\r\n:\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		status, header, err := parseHeaders(raw)
		if (err == nil) != (status >= 200) || status > 999 || err != nil && header != nil {
			t.Errorf("%d %v %v", status, header, err)
		}
		for name, values := range header {
			if !isToken(name) || len(values) == 0 || strings.ContainsAny(strings.Join(values, ""), "\n") {
				t.Errorf("%q: %q", name, values)
			}
		}
	})
}

// FuzzQuote makes curl read a quoted value and send it.
func FuzzQuote(f *testing.F) {
	for _, seed := range []string{
		"", "plain", `"`, `\`, `\\`, `\n`, `\"`, "a\nb", "\r\n", "\t\v\f\x01\x7f", "# no comment", " spaces ", "'", `" url = "x`,
		"\u00e4\xff\ufeff",
		strings.Repeat(`\"`, 5000), "a\x00b",
	} {
		f.Add(seed)
	}
	var got []byte
	server := serve(f, func(_ http.ResponseWriter, r *http.Request) { got, _ = io.ReadAll(r.Body) })
	f.Fuzz(func(t *testing.T, value string) {
		quoted, err := quote("=" + value) // an @ in front would name a file
		if strings.Contains(value, "\x00") {
			if !errors.Is(err, errNUL) {
				t.Errorf("error %v", err)
			}
			return
		}
		if err != nil || strings.ContainsAny(quoted, "\n\r") {
			t.Fatalf("%q, %v", quoted, err)
		}
		got = nil
		cmd := exec.Command("curl", "-q", "--config", "-")
		cmd.Stdin = strings.NewReader("silent\nshow-error\ndata-binary = " + quoted + "\nurl = \"" + server + "\"\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if string(got) != "="+value {
			t.Errorf("curl read %q, want %q", got, "="+value)
		}
	})
}
