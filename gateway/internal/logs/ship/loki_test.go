package ship_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// loki checks pushes against the rules that Loki documents (docs/sources/reference/loki-http-api.md, pkg/validation/limits.go), and keeps
// what a Loki would keep. It answers as it is told, 204 otherwise.
type loki struct {
	*httptest.Server
	t   testing.TB
	now func() time.Time

	mu      sync.Mutex
	answers []http.HandlerFunc
	lines   map[string][]string // by stream
	meta    []map[string]string
	times   []time.Time
	header  http.Header
	pushes  int
	newest  map[string]int64
}

func newLoki(t testing.TB, now func() time.Time) *loki {
	l := &loki{t: t, now: now, lines: map[string][]string{}, newest: map[string]int64{}}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

// next says how the next pushes are answered. nil is 204.
func (l *loki) next(answers ...http.HandlerFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, answers...)
}

func says(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// nothing ends the connection without an answer.
func nothing(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func (l *loki) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pushes++
	l.header = r.Header.Clone()
	streams, wrong := l.check(r, body)
	if err != nil || wrong != nil {
		l.t.Errorf("push %d: %v %v", l.pushes, err, wrong)
		http.Error(w, fmt.Sprint(wrong), http.StatusBadRequest)
		return
	}
	if len(l.answers) > 0 {
		answer := l.answers[0]
		l.answers = l.answers[1:]
		if answer != nil {
			answer(w, r)
			return
		}
	}
	l.keep(streams)
	w.WriteHeader(http.StatusNoContent)
}

type lokiStream struct {
	Stream map[string]string    `json:"stream"`
	Values [][3]json.RawMessage `json:"values"`
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (l *loki) check(r *http.Request, packed []byte) ([]lokiStream, error) {
	if r.Method != "POST" || r.URL.Path != "/loki/api/v1/push" || r.Header.Get("Content-Type") != "application/json" ||
		r.Header.Get("Content-Encoding") != "gzip" {
		return nil, fmt.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(zip)
	if err != nil {
		return nil, err
	}
	var push struct {
		Streams []lokiStream `json:"streams"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&push); err != nil {
		return nil, err
	}
	if len(body) > 1<<20 || len(push.Streams) == 0 {
		return nil, fmt.Errorf("%d bytes, %d streams", len(body), len(push.Streams))
	}
	for _, s := range push.Streams {
		if len(s.Stream) != 3 || s.Stream["tenant"] == "" || s.Stream["node"] == "" || s.Stream["source"] == "" || len(s.Values) == 0 {
			return nil, fmt.Errorf("the stream %v with %d values", s.Stream, len(s.Values))
		}
		for _, v := range s.Values {
			if err := l.checkValue(v); err != nil {
				return nil, err
			}
		}
	}
	return push.Streams, nil
}

func (l *loki) checkValue(v [3]json.RawMessage) error {
	var stamp, line string
	var meta map[string]string
	for i, to := range []any{&stamp, &line, &meta} {
		if err := json.Unmarshal(v[i], to); err != nil {
			return err
		}
	}
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return err
	}
	at := time.Unix(0, n)
	if now := l.now(); at.Before(now.Add(-7*24*time.Hour)) || at.After(now.Add(10*time.Minute)) {
		return fmt.Errorf("a line of %s, and it is %s", at, now)
	}
	size := 0
	for key, value := range meta {
		size += len(key) + len(value)
		if !labelName.MatchString(key) {
			return fmt.Errorf("the metadata %q", key)
		}
	}
	if len(line) > 256<<10 || len(meta) > 128 || size > 64<<10 {
		return fmt.Errorf("a line of %d bytes with %d metadata of %d bytes", len(line), len(meta), size)
	}
	return nil
}

func (l *loki) keep(streams []lokiStream) {
	for _, s := range streams {
		name := s.Stream["tenant"] + "/" + s.Stream["node"] + "/" + s.Stream["source"]
		for _, v := range s.Values {
			var stamp, line string
			var meta map[string]string
			_ = json.Unmarshal(v[0], &stamp)
			_ = json.Unmarshal(v[1], &line)
			_ = json.Unmarshal(v[2], &meta)
			n, _ := strconv.ParseInt(stamp, 10, 64)
			l.lines[name] = append(l.lines[name], line)
			l.meta = append(l.meta, meta)
			l.times = append(l.times, time.Unix(0, n))
		}
	}
}

// of gives the lines of a stream, each the first time that it came.
func (l *loki) of(stream string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	seen := map[string]bool{}
	for _, line := range l.lines[stream] {
		if !seen[line] {
			all = append(all, line)
		}
		seen[line] = true
	}
	return all
}

func numbered(from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("line %d %s", i, strings.Repeat("x", 50)))
	}
	return all
}
