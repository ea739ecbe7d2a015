package logs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"muster/agent/internal/logfile"
	"muster/agent/internal/service"
	"muster/agent/wire"
)

const (
	token = "mse_abcdefgh_0123456789abcdefghijklmnopqrstuv"
	known = "correct horse battery"
)

// base64 lines as they stand in a private key
var (
	keyLine = strings.Repeat("MIGHAgEAMBMGByqG", 4)
	keyEnd  = "AbCdEfGh+/=="
)

func newHost(t *testing.T) Host {
	return Host{State: t.TempDir(), Secrets: []string{known}, seams: seams{pace: time.Millisecond}}
}

func (h Host) log() string { return service.Layout{Base: h.State}.Log() }

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
		file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// puller gives the lines of a reader one at a time.
type puller struct {
	lines  chan wire.LogLine
	places chan string
	place  string // behind the last line
	failed error  // why the reader ended; set before lines is closed
	cancel context.CancelFunc
}

// pull begins to read.
func pull(ctx context.Context, r *Reader) *puller {
	ctx, cancel := context.WithCancel(ctx)
	p := &puller{lines: make(chan wire.LogLine), places: make(chan string, 1), cancel: cancel}
	go func() {
		defer close(p.lines)
		p.failed = r.Each(ctx, func(line wire.LogLine, place string) error {
			select {
			case p.lines <- line:
				p.places <- place
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	return p
}

// Next gives the next line; io.EOF: there is none.
func (p *puller) Next() (wire.LogLine, error) {
	line, more := <-p.lines
	if more {
		p.place = <-p.places
		return line, nil
	}
	return line, cmp.Or(p.failed, io.EOF)
}

// Close ends the reader, and waits for that.
func (p *puller) Close() {
	p.cancel()
	for range p.lines {
	}
}

func open(t *testing.T, h Host, ask Ask) *puller {
	t.Helper()
	r, err := h.Open(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	p := pull(t.Context(), r)
	t.Cleanup(p.Close)
	return p
}

func next(t *testing.T, p *puller) wire.LogLine {
	t.Helper()
	l, err := p.Next()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// all reads to the end.
func all(t *testing.T, h Host, ask Ask) (lines []wire.LogLine, err error) {
	t.Helper()
	r, err := h.Open(t.Context(), ask)
	if err != nil {
		return nil, err
	}
	err = r.Each(t.Context(), func(line wire.LogLine, _ string) error {
		lines = append(lines, line)
		return nil
	})
	return lines, err
}

func messages(lines []wire.LogLine) string {
	var texts []string
	for _, l := range lines {
		texts = append(texts, l.Message)
	}
	return strings.Join(texts, "|")
}

func line(second int, text string) string {
	raw, _ := json.Marshal(text)
	return fmt.Sprintf(`{"time":"2026-11-22T15:00:%02d.000Z","level":"info","msg":%s}`+"\n", second, raw)
}

func TestAgent(t *testing.T) {
	h := newHost(t)
	put(t, logfile.Older(h.log()), `{"time":"2026-11-22T15:00:00.005Z","level":"warn","msg":"of before","error":"no room"}`+"\n")
	put(t, h.log(), line(1, "one")+"panic: \xff\x00 no\r\n"+line(2, "it is "+known)+
		`{"time":"2026-11-22T15:00:03Z","level":"error","msg":"two","token":"abc","n":3}`+"\n"+line(4, "last")+"half")
	lines, err := all(t, h, Ask{Source: wire.LogAgent})
	if got := messages(lines); err != nil || got != "of before|one|panic: \uFFFD\uFFFD no|it is ***|two|last|half" {
		t.Fatalf("%q, %v", got, err)
	}
	first := lines[0]
	if first.Source != wire.LogAgent || first.Level != "warn" || first.Fields["error"] != "no room" || first.Time.Nanosecond() != 5e6 {
		t.Errorf("%+v", first)
	}
	if garbage := lines[2]; !garbage.Time.Equal(lines[1].Time) || garbage.Level != "" {
		t.Errorf("%+v", garbage)
	}
	if two := lines[4]; two.Fields["token"] != "***" || two.Fields["n"] != "3" || two.Level != "error" {
		t.Errorf("%+v", two)
	}
	lines, _ = all(t, h, Ask{Source: wire.LogAgent, Since: first.Time.Add(2 * time.Second)})
	if got := messages(lines); got != "two|last|half" {
		t.Errorf("since: %q", got)
	}
}

// TestClock: a clock that was set back hides nothing, and what is new is shown whatever time it has.
func TestClock(t *testing.T) {
	h := newHost(t)
	put(t, h.log(), line(1, "early")+line(30, "late")+line(2, "set back"))
	at := time.Date(2026, 11, 22, 15, 0, 10, 0, time.UTC)
	r := open(t, h, Ask{Source: wire.LogAgent, Since: at, Follow: true})
	if a, b := next(t, r).Message, next(t, r).Message; a != "late" || b != "set back" {
		t.Errorf("%s, %s", a, b)
	}
	r = open(t, h, Ask{Source: wire.LogAgent, Since: time.Now().Add(time.Hour), Follow: true}) // the gateway's clock is ahead
	add(t, h.log(), fmt.Sprintf(`{"time":%q,"level":"info","msg":"new"}`+"\n", time.Now().Add(time.Minute).Format(time.RFC3339Nano)))
	if got := next(t, r).Message; got != "new" {
		t.Errorf("%s", got)
	}
}

// TestRotation follows a log that a logger writes and rotates, and goes on with another reader after each hundred lines.
func TestRotation(t *testing.T) {
	h := newHost(t)
	log := logfile.NewLogger(slog.LevelInfo, io.Discard, logfile.New(h.log()))
	const total = 400 // of 10 KiB: the log is rotated every hundred lines
	write := func(i int) { log.Info(fmt.Sprint(i), "filler", strings.Repeat("x ", 5<<10)) }
	write(0)
	r := open(t, h, Ask{Source: wire.LogAgent, Follow: true})
	for i := range total {
		if i+1 < total {
			write(i + 1)
		}
		if got := next(t, r); got.Message != fmt.Sprint(i) || got.Dropped > 0 {
			t.Fatalf("line %d is %s", i, got.Message)
		}
		if i%37 == 36 {
			r.Close()
			r = open(t, h, Ask{Source: wire.LogAgent, Follow: true, After: r.place})
		}
	}
	if _, err := os.Stat(logfile.Older(h.log())); err != nil {
		t.Fatal("the log was not rotated: ", err)
	}
}

func TestTruncated(t *testing.T) {
	h := newHost(t)
	put(t, h.log(), line(1, "one")+line(2, "two"))
	r := open(t, h, Ask{Source: wire.LogAgent, Follow: true})
	next(t, r)
	next(t, r)
	if err := os.Truncate(h.log(), 0); err != nil {
		t.Fatal(err)
	}
	if said := next(t, r); said.Dropped == 0 || !strings.Contains(said.Message, "truncated") {
		t.Errorf("%+v", said)
	}
	add(t, h.log(), line(3, "three"))
	if got := next(t, r).Message; got != "three" {
		t.Errorf("%s", got)
	}
}

// TestLostPlace: where the place is in no file any more, what is newer comes, with a line that says that some may be missing.
func TestLostPlace(t *testing.T) {
	h := newHost(t)
	put(t, h.log(), line(1, "one")+line(2, "two")+line(3, "three"))
	r := open(t, h, Ask{Source: wire.LogAgent})
	next(t, r)
	next(t, r)
	place := r.place
	r.Close()
	put(t, h.log(), line(0, "of another file")+line(2, "two again")+line(4, "four")) // the same inode
	lines, err := all(t, h, Ask{Source: wire.LogAgent, After: place})
	if err != nil || len(lines) != 3 || lines[0].Dropped == 0 || messages(lines[1:]) != "two again|four" {
		t.Errorf("%v, %v", lines, err)
	}
	for _, place := range []string{"nonsense", "file:1:2", "file:1:-2:3:4", "journal:x"} {
		if lines, err := all(t, h, Ask{Source: wire.LogAgent, After: place}); err != nil || len(lines) != 3 {
			t.Errorf("%s: %v, %v", place, lines, err)
		}
	}
	if err := os.Truncate(h.log(), 10); err != nil {
		t.Fatal(err)
	}
	if lines, err := all(t, h, Ask{Source: wire.LogAgent, After: place}); err != nil || len(lines) != 1 || lines[0].Dropped == 0 {
		t.Errorf("of a file that is too short: %v, %v", lines, err)
	}
}

func TestNotThere(t *testing.T) {
	h := newHost(t)
	code := func(source string) string {
		_, err := h.Open(t.Context(), Ask{Source: source})
		var said *wire.ErrorDetail
		if !errors.As(err, &said) {
			return fmt.Sprint(err)
		}
		return said.Code
	}
	if got := code(wire.LogAgent); got != wire.CodeNotFound {
		t.Error(got)
	}
	if got := code("unit:../x"); got != wire.CodeBadRequest {
		t.Error(got)
	}
	if err := os.Mkdir(h.log(), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := code(wire.LogAgent); !strings.Contains(got, "is not a file") {
		t.Error(got)
	}
	if err := os.Mkdir(logfile.Older(h.log()), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := code(wire.LogAgent); !strings.Contains(got, "is not a file") {
		t.Error(got)
	}
	put(t, filepath.Join(h.State, "identity.json"), "{")
	if got := code(wire.LogAgent); !strings.Contains(got, "could not be masked") {
		t.Error(got)
	}
}

func TestEnds(t *testing.T) {
	h := newHost(t)
	put(t, h.log(), line(1, "one"))
	why := errors.New("nobody reads")
	ctx, cancel := context.WithCancelCause(t.Context())
	r, err := h.Open(ctx, Ask{Source: wire.LogAgent, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	p := pull(ctx, r)
	next(t, p)
	cancel(why)
	if _, err := p.Next(); !errors.Is(err, why) {
		t.Error(err)
	}
}

// newReader makes a reader that only makes lines.
func newReader() *Reader {
	m := logfile.NewMasker(known)
	return &Reader{source: wire.LogAgent, masker: m, stream: m.Stream(), now: time.Now}
}

func TestLongLines(t *testing.T) {
	h := newHost(t)
	long := strings.Repeat("0123456789", 300_000)
	put(t, h.log(), line(1, "one")+long+"\n"+line(2, "two")+long)
	lines, err := all(t, h, Ask{Source: wire.LogAgent})
	if err != nil || len(lines) != 4 || lines[2].Message != "two" {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for _, l := range []wire.LogLine{lines[1], lines[3]} {
		if len(l.Message) > wire.MaxLogLine || len(l.Message) < wire.MaxLogLine/2 || len(l.Message)+l.Cut != len(long) {
			t.Errorf("%d bytes and %d cut", len(l.Message), l.Cut)
		}
	}
	// a secret at the cut is not shown in part
	for off := range len(known) + 2 {
		text := strings.Repeat("é ", wire.MaxLogLine)[:wire.MaxLogLine-off] + known + strings.Repeat(" x", wire.MaxLogLine)
		l := newReader().line(entry{text: text})
		if strings.Contains(l.Message, known[:4]) || !utf8.ValidString(l.Message) || l.Cut == 0 {
			t.Errorf("%d: ...%q", off, l.Message[len(l.Message)-20:])
		}
	}
}

func TestFieldsAreBounded(t *testing.T) {
	e := entry{text: "x", at: time.Unix(1, 0)}
	for i := range 100 {
		e.fields = append(e.fields, field{fmt.Sprintf("%d%s", i, strings.Repeat("n", 100)), strings.Repeat("é", 5000)})
	}
	l := newReader().line(e)
	if len(l.Fields) != wire.MaxLogFields {
		t.Errorf("%d fields", len(l.Fields))
	}
	for name, value := range l.Fields {
		if len(name) > maxName || len(value) > maxValue || !utf8.ValidString(value) {
			t.Errorf("%s is %d bytes", name, len(value))
		}
	}
}

func TestLevels(t *testing.T) {
	for text, want := range map[string]string{
		`{"level":"WARNING","msg":"x"}`: "warn", `{"severity":"CRITICAL"}`: "error", `{"lvl":"dbug"}`: "", `{"level":30}`: "",
		`{"level":`: "", "level=debug msg=x": "debug", "time=x level=FATAL": "error", "it has level=warn": "", "time=now": "",
		`{"level":"trace"}`: "debug", `{"level":"Notice"}`: "info", "": "",
	} {
		if got := levelIn(text); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	for level, want := range map[int]string{-1: "", 0: "error", 3: "error", 4: "warn", 5: "info", 6: "info", 7: "debug", 8: ""} {
		if got := syslogLevel(level); got != want {
			t.Errorf("%d: %q", level, got)
		}
	}
}

// FuzzLine: whatever a log holds, what leaves is bounded text without the secret.
func FuzzLine(f *testing.F) {
	f.Add([]byte("a \x00\xff b"), "name", []byte("value"), 3)
	f.Add([]byte(`{"level":"info"}`), "token", []byte("x"), 0)
	f.Fuzz(func(t *testing.T, text []byte, name string, value []byte, left int) {
		e := entry{text: string(text) + " " + known + " " + string(text), left: max(left, 0) % 1e6}
		e.fields = []field{{name, string(value) + known}}
		l := newReader().line(e)
		raw, err := json.Marshal(l)
		var again wire.LogLine
		if err != nil || json.Unmarshal(raw, &again) != nil || again.Message != l.Message {
			t.Fatalf("%s, %v", raw, err)
		}
		if len(l.Message) > wire.MaxLogLine || strings.Contains(string(raw), known) || strings.ContainsRune(l.Message, 0) {
			t.Errorf("%q", l.Message)
		}
	})
}

// TestPace: who watches gets a new line soon, and who asks for another pace gets it at that.
func TestPace(t *testing.T) {
	for _, asked := range []time.Duration{0, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := Host{State: t.TempDir()}
			put(t, h.log(), line(1, "one"))
			r := open(t, h, Ask{Source: wire.LogAgent, Follow: true, Pace: asked})
			next(t, r)
			synctest.Wait()
			began := time.Now()
			add(t, h.log(), line(2, "two"))
			want := asked
			if want == 0 {
				want = pace
			}
			if got := next(t, r).Message; got != "two" || time.Since(began) != want {
				t.Errorf("pace %s: %s came after %s", asked, got, time.Since(began))
			}
			r.Close()
		})
	}
}
