package reply_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/gateway/internal/reply"
)

// ask has a handler answer a caller who reads what accept says.
func ask(h http.Handler, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/", nil)
	if accept != "" {
		r.Header.Set("Accept-Encoding", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func unpack(t *testing.T, text io.Reader) string {
	t.Helper()
	z, err := gzip.NewReader(text)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// TestHandler: an answer is packed for those who read it, and says so; a refusal goes as it is.
func TestHandler(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	status := http.StatusOK
	h := reply.NewPacker().Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		if status != http.StatusOK {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, long)
	}))
	for range 20 { // a writer is used again
		w := ask(h, "gzip, br")
		if head := w.Header(); head.Get("Content-Encoding") != "gzip" || head.Get("Content-Length") != "" || head.Get("Vary") != "Accept-Encoding" ||
			w.Body.Len() > 5000 {
			t.Fatalf("%v, %d bytes", head, w.Body.Len())
		}
		if unpack(t, w.Body) != long {
			t.Fatal("another text")
		}
	}
	if w := ask(h, ""); w.Header().Get("Content-Encoding") != "" || w.Body.String() != long || w.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("for one who does not read it: %v", w.Header())
	}
	status = http.StatusForbidden
	if w := ask(h, "gzip"); w.Code != status || w.Header().Get("Content-Encoding") != "" || w.Body.String() != long {
		t.Errorf("a refusal: %v", w.Header())
	}
}

// TestRoom: beyond its room answers go as they are, and nobody waits.
func TestRoom(t *testing.T) {
	depth := 0
	var encodings []string
	var h http.Handler
	h = reply.NewPacker().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if depth++; depth < 10 {
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		_, _ = io.WriteString(w, "text")
		encodings = append(encodings, w.Header().Get("Content-Encoding"))
	}))
	ask(h, "gzip")
	if got := strings.Join(encodings, ","); got != ",,gzip,gzip,gzip,gzip,gzip,gzip,gzip,gzip" {
		t.Errorf("10 at once: %s", got)
	}
	if w := ask(h, "gzip"); w.Header().Get("Content-Encoding") != "gzip" {
		t.Error("the room is not given back")
	}
}

// TestCut: an answer whose handler breaks off has no good end, and its room is given back.
func TestCut(t *testing.T) {
	h := reply.NewPacker().Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	for range 20 {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(w, r)
		}()
		z, err := gzip.NewReader(w.Body)
		if err != nil || w.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%v, %v", err, w.Header())
		}
		if text, err := io.ReadAll(z); string(text) != "half" || err == nil {
			t.Fatalf("%q, %v", text, err)
		}
	}
}

// TestFile: both forms of a file, each with its own tag; one that grows is sent as it is.
func TestFile(t *testing.T) {
	long := []byte(strings.Repeat("abc", 1000))
	f := reply.FileOf(long, "v1")
	choose := func(f reply.File, accept string) ([]byte, http.Header) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Encoding", accept)
		return f.Choose(w, r), w.Header()
	}
	text, head := choose(f, "gzip")
	if head.Get("Content-Encoding") != "gzip" || head.Get("ETag") != `"v1-gzip"` || head.Get("Vary") == "" ||
		unpack(t, bytes.NewReader(text)) != string(long) {
		t.Errorf("packed: %v", head)
	}
	text, head = choose(f, "br")
	if head.Get("Content-Encoding") != "" || head.Get("ETag") != `"v1"` || head.Get("Vary") == "" || !bytes.Equal(text, long) {
		t.Errorf("plain: %v", head)
	}
	if text, head := choose(reply.FileOf([]byte("x"), "v2"), "gzip"); string(text) != "x" || head.Get("Content-Encoding") != "" {
		t.Errorf("a small one: %q, %v", text, head)
	}
}
