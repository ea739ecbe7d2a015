package asciicast_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/session/asciicast"
)

func noon() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

// record gives the recording of some pieces of output, one a second.
func record(pieces ...string) []byte {
	e := asciicast.NewEncoder(noon())
	all := e.Header(asciicast.Header{Width: 80, Height: 24, Title: "ada@gpu-1", Command: "bash -l"})
	at := noon()
	for _, piece := range pieces {
		at = at.Add(time.Second)
		all = append(all, bytes.Join(e.Output(at, []byte(piece)), nil)...)
	}
	all = append(all, e.Resize(at, 50, 132)...)
	return append(all, bytes.Join(e.End(at, "exit 3"), nil)...)
}

// shown reads a recording to its end, and joins what the terminal showed.
func shown(t *testing.T, raw []byte) (string, []asciicast.Event) {
	t.Helper()
	d, _, err := asciicast.NewDecoder(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	var events []asciicast.Event
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			return text.String(), events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
		if e.Kind == asciicast.Output {
			text.WriteString(e.Data)
		}
	}
}

// TestLines: the lines are those of asciicast v2.
func TestLines(t *testing.T) {
	want := `{"version":2,"width":80,"height":24,"timestamp":1795435200,"title":"ada@gpu-1","command":"bash -l"}
[1.000000,"o","\u001b[1mä<&>\r\n"]
[1.000000,"r","132x50"]
[1.000000,"m","exit 3"]
`
	if got := string(record("\x1b[1mä<&>\r\n")); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	_, events := shown(t, []byte(want))
	rows, columns, ok := events[1].Size()
	if !ok || rows != 50 || columns != 132 || events[0].At != time.Second {
		t.Errorf("%+v: %d rows, %d columns, %v", events, rows, columns, ok)
	}
}

// TestTimeRunsOn: a clock that is set back does not let the time run back.
func TestTimeRunsOn(t *testing.T) {
	e := asciicast.NewEncoder(noon())
	e.Output(noon().Add(time.Minute), []byte("a"))
	got := string(bytes.Join(e.Output(noon().Add(-time.Hour), []byte("b")), nil))
	if got != "[60.000000,\"o\",\"b\"]\n" {
		t.Errorf("got %s", got)
	}
}

// TestAnyBytes: whatever a terminal shows, in whatever pieces, the recording has its characters. What is no character is replaced.
func TestAnyBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "\x1b[2J", "ä", "€", "𝄞", "\xff", "\xe2\x82", "\xf0\x9d\x84", "\x80", "\x00", "\xed\xa0\x80",
		strings.Repeat("€", 3000)}
	for range 300 {
		var raw strings.Builder
		for range random.IntN(20) {
			raw.WriteString(parts[random.IntN(len(parts))])
		}
		var pieces []string
		for rest := raw.String(); rest != ""; {
			n := 1 + random.IntN(len(rest))
			if random.IntN(2) == 0 {
				n = min(len(rest), 1+random.IntN(4))
			}
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		cast := record(pieces...)
		for line := range bytes.Lines(cast) {
			if len(line) > asciicast.MaxLine || !json.Valid(line) {
				t.Fatalf("a line of %d bytes: %.80q", len(line), line)
			}
		}
		if got, _ := shown(t, cast); got != string([]rune(raw.String())) {
			t.Fatalf("%q in %q became %q", raw.String(), pieces, got)
		}
	}
}

// TestControlsFit: the bytes that take the most room in JSON fit into the longest line.
func TestControlsFit(t *testing.T) {
	e := asciicast.NewEncoder(noon())
	for _, line := range e.Output(noon(), bytes.Repeat([]byte{0x1b}, 1<<16)) {
		if len(line) > asciicast.MaxLine {
			t.Errorf("a line of %d bytes, at most %d", len(line), asciicast.MaxLine)
		}
	}
	long := strings.Repeat("\x1b", 1<<16)
	if size := len(e.Header(asciicast.Header{Title: long, Command: long})); size > asciicast.MaxLine {
		t.Errorf("a header of %d bytes", size)
	}
}

// TestDecoderRefuses: what is no recording is named as such.
func TestDecoderRefuses(t *testing.T) {
	const head = `{"version":2,"width":80,"height":24}` + "\n"
	for raw, want := range map[string]string{
		"":                                      "EOF",
		"<html>\n":                              "no header",
		`{"version":1}`:                         "version 1",
		head + "{}\n":                           "line 2 is no event",
		head + "\n[1,\"o\"]\n":                  "line 3 is no event",
		head + "[-1,\"o\",\"\"]\n":              "has no time",
		head + "[1e300,\"o\",\"\"]\n":           "has no time",
		head + "[\"1\",\"o\",\"\"]\n":           "has no time",
		head + "[1,2,\"\"]\n":                   "has no text",
		head + strings.Repeat("x", 1<<20+1):     "longer than",
		head + "[1,\"o\",\"cut off":             "no event",
		head + "[1,\"o\",\"" + "\x01" + "\"]\n": "no event",
	} {
		d, _, err := asciicast.NewDecoder(strings.NewReader(raw))
		if err == nil {
			_, err = d.Next()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %s", raw, err, want)
		}
	}
}

// FuzzDecoder: no recording makes the decoder panic, run back in time or go on for ever.
func FuzzDecoder(f *testing.F) {
	f.Add(record("one", "two\xff"))
	f.Add([]byte("{\"version\":2}\n[0.1,\"r\",\"80x24\"]\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, _, err := asciicast.NewDecoder(bytes.NewReader(raw))
		last := time.Duration(0)
		for lines := 0; err == nil; lines++ {
			var e asciicast.Event
			e, err = d.Next()
			if err == nil && (e.At < last || lines > len(raw)) {
				t.Fatalf("event %d at %s after %s", lines, e.At, last)
			}
			last = max(last, e.At)
			e.Size()
		}
	})
}
