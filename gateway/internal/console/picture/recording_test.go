package picture_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
	"muster/gateway/internal/session/asciicast"
)

func taped(sent ...string) []byte {
	begin := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	e := asciicast.NewEncoder(begin)
	all := e.Header(asciicast.Header{Width: 20, Height: 4})
	for i, text := range sent {
		all = append(all, bytes.Join(e.Output(begin.Add(time.Duration(i)*40*time.Minute), []byte(text)), nil)...)
	}
	all = append(all, e.Resize(begin.Add(time.Hour), 2, 10)...)
	return append(all, bytes.Join(e.End(begin.Add(2*time.Hour), "it \x1b ended"), nil)...)
}

func awaited() error { return nil }

// lines are those of a recording with their times.
func lines(r picture.Recording) string {
	var all []string
	for _, l := range r.Lines {
		all = append(all, fmt.Sprint(l.At, " ", l.Text, " ", l.Note))
	}
	return strings.Join(all, "|")
}

// TestRecordingOf: lines have times that never run back, notes are marked, and no control is left.
func TestRecordingOf(t *testing.T) {
	cast := taped("$ ls\r\n\u202etxt\r\n", "$ vi\r\n\x1b[?1049h", "\x1b[?1049l$ \x1b[A\rold")
	r, err := picture.RecordingOf(bytes.NewReader(cast), 0, awaited)
	want := `0:00 $ ls false|0:00 txt false|40:00 $ vi false|1:20:00 A program had the whole screen for 40 m. What it drew is not shown as text. true|` +
		`1:20:00 old false|2:00:00 it \u001b ended true`
	if got := lines(r); got != want || err != nil || r.Fault != nil || r.More {
		t.Errorf("got %s, %+v, %v", got, r.Fault, err)
	}
	part, err := picture.RecordingOf(bytes.NewReader(cast), 4, awaited)
	if got := lines(part); got != `1:20:00 old false|2:00:00 it \u001b ended true` || err != nil {
		t.Errorf("from the fourth line: %s, %v", got, err)
	}
}

// TestRecordingFaults: what is good is shown, and why there is no more.
func TestRecordingFaults(t *testing.T) {
	good := taped("one\r\n", "two\r\n")
	second := bytes.Index(good, []byte("two"))
	header := string(good[:bytes.IndexByte(good, '\n')+1])
	for what, c := range map[string]struct{ cast, lines, fault string }{
		"nothing":     {"", "", ""},
		"no header":   {"tea\n", "", "this is no recording"},
		"damaged":     {string(good[:second]) + "\n" + "{}", "0:00 one false", "the recording is damaged: line 3"},
		"no version":  {`{"version":1}`, "", "version 1"},
		"a long line": {header + `[1,"o","` + strings.Repeat("x", 2<<20) + `"]`, "", "longer than"},
	} {
		r, err := picture.RecordingOf(strings.NewReader(c.cast), 0, awaited)
		fault := ""
		if r.Fault != nil {
			fault = r.Fault.Error()
		}
		got := lines(r)
		if err != nil || !strings.HasPrefix(got, c.lines) || !strings.Contains(fault, c.fault) || (fault == "") != (c.fault == "") {
			t.Errorf("%s: %s, %q, %v", what, got, fault, err)
		}
	}
	if _, err := picture.RecordingOf(bytes.NewReader(good), 0, func() error { return context.Canceled }); err == nil {
		t.Error("it is read for nobody")
	}
	big, err := picture.RecordingOf(bytes.NewReader(taped(strings.Repeat(strings.Repeat("x", 19)+"\r\n", 5000))), 0, awaited)
	if len(big.Lines) != picture.RecordingLines || !big.More || err != nil {
		t.Errorf("%d lines, more: %v, %v", len(big.Lines), big.More, err)
	}
	wide, err := picture.RecordingOf(bytes.NewReader(taped(strings.Repeat(strings.Repeat("x", 8000)+"\r\n", 500))), 0, awaited)
	if n := len(wide.Lines); n < 100 || n > 200 || !wide.More || err != nil {
		t.Errorf("%d long lines, more: %v, %v", n, wide.More, err)
	}
}

func FuzzRecordingOf(f *testing.F) {
	f.Add(taped("one\r\n", "\x1b[31mtwo"), 1)
	f.Fuzz(func(t *testing.T, cast []byte, from int) {
		r, err := picture.RecordingOf(bytes.NewReader(cast), from, awaited)
		if err != nil || len(r.Lines) > picture.RecordingLines {
			t.Errorf("%d lines, %v", len(r.Lines), err)
		}
		last := int64(0)
		for _, l := range r.Lines {
			if picture.Drawn(l.Text) != l.Text || l.Millis < last {
				t.Errorf("the line %+v", l)
			}
			last = l.Millis
		}
	})
}

func TestSessionRow(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	begun := now.Add(-time.Hour)
	ended := now.Add(-time.Minute)
	for _, c := range []struct {
		s    api.Session
		want string
	}{
		{api.Session{Type: "session.shell", Status: api.SessionWaiting}, "shell|the agent's own||–||"},
		{api.Session{Type: "session.shell", Status: api.SessionOpen, OpenedAt: &begun, IdleSeconds: 1800, LimitSeconds: 43200,
			About: map[string]string{"user": "a\x1b", "program": "tmux", "arguments": "2"}},
			`shell|a\u001b|tmux with 2 arguments|1 h||after 30 m without a byte, after 12 h in any case`},
		{api.Session{Type: "session.exec", Status: api.SessionEnded, OpenedAt: &begun, EndedAt: &ended, End: "why \u202e",
			About: map[string]string{"program": "ls", "arguments": "0"}}, `exec|the agent's own|ls|59 m|why \u202e|`},
		{api.Session{Type: "session.forward", Status: api.SessionEnded, About: map[string]string{"host": "db", "port": "5432"}},
			"forward||port db:5432|–||"},
		{api.Session{Type: "session.copy", About: map[string]string{"path": "/x", "write": "true"}}, "copy|the agent's own|writes /x|–||"},
		{api.Session{Type: "session.copy", About: map[string]string{"path": "/x", "write": "false", "user": "u"}}, "copy|u|reads /x|–||"},
		{api.Session{Type: "session.copy", About: map[string]string{"path": "/x", "write": "true", "folder": "true"}},
			"copy|the agent's own|writes the folder /x|–||"},
	} {
		r := picture.SessionRowOf(c.s, now)
		if got := strings.Join([]string{r.Kind, r.User, r.What, r.Took, r.How, r.Ends()}, "|"); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestRecordingSays: each state has its words, also one of a later version.
func TestRecordingSays(t *testing.T) {
	seen := map[string]bool{}
	for _, state := range []string{api.RecordingComplete, api.RecordingLive, api.RecordingCutOff, api.RecordingDamaged, "tea\x1b"} {
		said := picture.RecordingSays(state)
		if said == nil {
			if state != api.RecordingComplete {
				t.Errorf("nothing is said of %q", state)
			}
			continue
		}
		if seen[said.Mark.Word] || said.Mark.Word == "" || said.Hint == "" || said.Mark.Shape == "" || strings.Contains(said.Hint, "\x1b") {
			t.Errorf("%q: %+v", state, said)
		}
		seen[said.Mark.Word] = true
	}
}
