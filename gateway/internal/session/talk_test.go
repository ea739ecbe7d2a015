package session_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/session"
	"muster/gateway/internal/session/recording"
	"muster/store"
)

// deck is a recorder in memory.
type deck struct {
	mu    sync.Mutex
	lines []string
	full  int   // the write that fails, counted from 1; 0: none does
	why   error // why that one fails; nil: the disk is full
	blank error
	begun func() // while it begins; nil: nothing
}

func (d *deck) Begin(m recording.Meta) (session.Tape, error) {
	if d.begun != nil {
		d.begun()
	}
	return d, errors.Join(d.blank, d.add(fmt.Sprintf("begin %s %s@%s", m.ID, m.User, m.Node)))
}

func (d *deck) add(line string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
	if len(d.lines) == d.full {
		return cmp.Or(d.why, errors.New("no space left on device"))
	}
	return nil
}

func (d *deck) Output(_ time.Time, data []byte) error { return d.add("output " + string(data)) }

func (d *deck) Size(_ time.Time, rows, columns int) error {
	return d.add(fmt.Sprintf("size %dx%d", rows, columns))
}

func (d *deck) End(_ time.Time, note string) error { return d.add("end " + note) }

func (d *deck) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, "|")
}

// TestRecording: the tape has what the terminal showed, with its sizes, and nothing that was typed.
func TestRecording(t *testing.T) {
	h := newHall(t, "box")
	d := &deck{}
	h.open(session.Config{Record: d.Begin})
	v, err := h.Open(t.Context(), alice(), session.Ask{Node: "box", Type: wire.SessionShell, Params: params(`{"user":"me"}`)})
	must(t, err)
	h.Aside(claimer("box"))
	typed := append(frame(pipe.FrameSize, `{"rows":10,"columns":20}`), frame(pipe.FrameInput, "password")...)
	typed = append(typed, frame(pipe.FrameSize, `{"rows":0,"columns":20}`)...)
	_, err = h.Send(t.Context(), alice(), v.ID, pipe.Main, 0, pipe.Piece{Data: typed})
	must(t, err)
	sent := new([]byte)
	h.says("box", v.ID, sent, append(frame(pipe.FrameReady, `{"user":"root"}`), frame(pipe.FrameOutput, "hello")...))
	_, err = h.Send(t.Context(), alice(), v.ID, pipe.Main, int64(len(typed)),
		pipe.Piece{Data: frame(pipe.FrameSize, `{"rows":30,"columns":40}`)})
	must(t, err)
	h.says("box", v.ID, sent, frame(pipe.FrameExit, `{"code":3}`))
	want := "begin " + v.ID + " root@box|size 10x20|output hello|size 30x40|end the program ended with status 3"
	if got := d.text(); got != want {
		t.Errorf("the tape has %s, want %s", got, want)
	}
	if v, err = h.Get(t.Context(), alice(), v.ID); err != nil || !v.Recorded {
		t.Errorf("got %+v, %v", v, err)
	}
	id := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	h.says("box", id, new([]byte), append(frame(pipe.FrameReady, `{}`), frame(pipe.FrameOutput, "x")...))
	if got := d.text(); got != want {
		t.Errorf("a program was recorded: %s", got)
	}
}

// TestRecordedThenKilled: where the gateway is killed while a shell goes on, the next one knows since when it went on, that there is a
// recording, and that nobody has counted its bytes.
func TestRecordedThenKilled(t *testing.T) {
	h := newHall(t, "box")
	h.open(session.Config{Record: (&deck{}).Begin})
	id := h.ask("box", wire.SessionShell, `{}`)
	h.says("box", id, new([]byte), append(frame(pipe.FrameReady, `{"user":"root"}`), frame(pipe.FrameOutput, "hello")...))
	h.open(session.Config{})
	v, err := h.Get(t.Context(), alice(), id)
	if err != nil || !v.Recorded || v.OpenedAt == nil || v.EndedAt == nil || v.BytesIn != nil {
		t.Errorf("got %+v, %v", v, err)
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "session.ended"})
	if err != nil || len(events) != 1 || events[0].Detail["bytes_in"] != "" || events[0].Detail["why"] != "the gateway was restarted" {
		t.Errorf("events: %+v, %v", events, err)
	}
}

// TestEndsWhileItBegins: a session that ends while its recording begins has a recording with an end.
func TestEndsWhileItBegins(t *testing.T) {
	h := newHall(t, "box")
	d := &deck{}
	h.open(session.Config{Record: d.Begin})
	id := h.ask("box", wire.SessionShell, `{}`)
	d.begun = func() {
		_, err := h.Kill(t.Context(), alice(), id, "")
		must(t, err)
	}
	h.Aside(claimer("box"))
	_, err := h.NodeSend(t.Context(), claimer("box"), id, pipe.Main, 0, pipe.Piece{Data: frame(pipe.FrameReady, `{"user":"root"}`)})
	if got := d.text(); code(err) != wire.CodeSessionOver || !strings.Contains(got, "|end ended by ") {
		t.Errorf("the tape has %s", got)
	}
}

// TestNotice: however the node's bytes are cut, the sentence that the session is recorded stands in front of them, and the node counts its
// bytes without it. Each piece comes twice, as where an answer is lost.
func TestNotice(t *testing.T) {
	h := newHall(t, "box")
	h.open(session.Config{Record: (&deck{}).Begin})
	all := slices.Concat(frame(pipe.FrameReady, `{"user":"me"}`), frame(pipe.FrameOutput, strings.Repeat("o", 700)),
		frame(pipe.FrameNotice, "m"))
	want := string(frame(pipe.FrameNotice, "this session is recorded")) + string(all)
	for cut := range 60 {
		id := h.ask("box", wire.SessionShell, `{}`)
		at := int64(0)
		for at < int64(len(all)) {
			end := min(at+1+rand.Int64N(int64(cut)*20+3), int64(len(all)))
			next, err := h.NodeSend(t.Context(), claimer("box"), id, pipe.Main, at, pipe.Piece{Data: all[at:end]})
			must(t, err)
			again, err := h.NodeSend(t.Context(), claimer("box"), id, pipe.Main, at, pipe.Piece{Data: all[at:end]})
			if err != nil || again < next || next <= at || again > end {
				t.Fatalf("from %d to %d: up to %d, then up to %d, %v", at, end, next, again, err)
			}
			at = again
		}
		if got, err := h.hears(id, 0); got != want || err != nil {
			t.Fatalf("the operator got %q, %v", got, err)
		}
		if _, err := h.NodeSend(t.Context(), claimer("box"), id, pipe.Main, at+1, pipe.Piece{Data: []byte("x")}); code(err) !=
			wire.CodeSessionBroken {
			t.Errorf("a gap: %v", err)
		}
	}
}

// TestNoNoticeAmongBytes: nothing goes in front of bytes that have passed, whatever a node sends in their place.
func TestNoNoticeAmongBytes(t *testing.T) {
	h := newHall(t, "box")
	h.open(session.Config{Record: (&deck{}).Begin})
	id := h.ask("box", wire.SessionShell, `{}`)
	first := frame(pipe.FrameOutput, strings.Repeat("o", 100))
	h.says("box", id, new([]byte), first)
	next, err := h.NodeSend(t.Context(), claimer("box"), id, pipe.Main, 0, pipe.Piece{Data: frame(pipe.FrameReady, `{}`)})
	if next != int64(len(first)) || err != nil {
		t.Errorf("in their place: up to %d, %v", next, err)
	}
	if got, err := h.hears(id, 0); got != string(first) || err != nil {
		t.Errorf("the operator got %q, %v", got, err)
	}
}

// TestRefusedIsNotRecorded: a session that does not begin says nothing of a recording.
func TestRefusedIsNotRecorded(t *testing.T) {
	h := newHall(t, "box")
	d := &deck{}
	h.open(session.Config{Record: d.Begin})
	id := h.ask("box", wire.SessionShell, `{}`)
	said := frame(pipe.FrameRefused, `{"code":"task_forbidden","message":"no"}`)
	h.says("box", id, new([]byte), said)
	if got, _ := h.hears(id, 0); got != string(said) || d.text() != "" {
		t.Errorf("the operator got %q, the tape %q", got, d.text())
	}
}

// TestFullDisk: a session that cannot be recorded ends, at its beginning and later. It says what to do: about the disk, or about the bound
// that is reached.
func TestFullDisk(t *testing.T) {
	const bound = "raise the bound"
	full := wire.Refuse(wire.CodeUnavailable, "no space within the bound", bound)
	for what, d := range map[string]*deck{"at once": {blank: errors.New("no space left on device")}, "later": {full: 3},
		"at once, by a bound": {blank: full}, "later, by a bound": {full: 3, why: full}} {
		h := newHall(t, "box")
		h.open(session.Config{Record: d.Begin})
		id := h.ask("box", wire.SessionShell, `{}`)
		sent := new([]byte)
		if d.full > 0 {
			h.says("box", id, sent, append(frame(pipe.FrameReady, `{}`), frame(pipe.FrameOutput, "one")...))
			if why := h.why(id); why != "" {
				t.Fatalf("it ended too early: %s", why)
			}
		}
		last := frame(pipe.FrameOutput, "two")
		if d.full == 0 {
			last = append(frame(pipe.FrameReady, `{}`), last...)
		}
		_, err := h.NodeSend(t.Context(), claimer("box"), id, pipe.Main, int64(len(*sent)), pipe.Piece{Data: last})
		var said *wire.ErrorDetail
		if !errors.As(err, &said) || said.Code != wire.CodeSessionOver {
			t.Fatalf("%s: the node hears %v", what, err)
		}
		if byBound := strings.HasSuffix(what, "bound"); (said.Hint == bound) != byBound || strings.Contains(said.Hint, "the disk") == byBound {
			t.Errorf("%s: what to do is %q", what, said.Hint)
		}
		if text, _ := h.hears(id, 0); strings.Contains(text, "two") {
			t.Errorf("%s: what is not on the tape was shown: %q", what, text)
		}
		if why := h.why(id); !strings.Contains(why, "cannot be recorded") || !strings.Contains(why, "no space") {
			t.Errorf("%s: it ended because %q", what, why)
		}
		if _, err := h.NodeFetch(t.Context(), claimer("box"), id, pipe.Main, 0, 0); code(err) != wire.CodeSessionOver {
			t.Errorf("%s: the node hears %v", what, err)
		}
	}
}

// TestWatch: who watches sees what the terminal shows from then on, and how it ends. That somebody watches is an event.
func TestWatch(t *testing.T) {
	h := newHall(t, "box")
	id, sent := h.shell("box")
	_, err := h.Send(t.Context(), alice(), id, pipe.Main, 0, pipe.Piece{Data: frame(pipe.FrameSize, `{"rows":10,"columns":20}`)})
	must(t, err)
	h.says("box", id, sent, frame(pipe.FrameOutput, "before"))
	w, err := h.Watch(t.Context(), mallory(), id)
	must(t, err)
	left, err := h.Watch(t.Context(), mallory(), id)
	must(t, err)
	left.Close()
	h.says("box", id, sent, frame(pipe.FrameOutput, "after"))
	h.says("box", id, sent, frame(pipe.FrameExit, `{"code":3}`))
	want := string(frame(pipe.FrameSize, `{"rows":10,"columns":20}`)) + string(frame(pipe.FrameOutput, "after")) +
		string(frame(pipe.FrameExit, `{"code":3}`))
	got := ""
	for {
		frames, err := w.Next(t.Context())
		got += string(frames)
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
	}
	if got != want {
		t.Errorf("the watcher got %q, want %q", got, want)
	}
	if n := strings.Count(strings.Join(h.events(), ","), "session.watched"); n != 2 {
		t.Errorf("%d events of watching, want 2", n)
	}
	if _, err := h.Watch(t.Context(), mallory(), id); code(err) != wire.CodeSessionOver {
		t.Errorf("after the end: %v", err)
	}
	exec := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	if _, err := h.Watch(t.Context(), mallory(), exec); code(err) != wire.CodeBadRequest {
		t.Errorf("a program: %v", err)
	}
	if _, err := h.Watch(t.Context(), session.Caller{Tenant: "other"}, exec); code(err) != wire.CodeNotFound {
		t.Errorf("another tenant: %v", err)
	}
}

// TestSlowWatcher: it loses, and is told. The session does not wait for it.
func TestSlowWatcher(t *testing.T) {
	h := newHall(t, "box")
	id, sent := h.shell("box")
	w, err := h.Watch(t.Context(), alice(), id)
	must(t, err)
	from := int64(0)
	for range 20 {
		h.says("box", id, sent, frame(pipe.FrameOutput, strings.Repeat("x", 50_000)))
		text, err := h.hears(id, from)
		must(t, err)
		from += int64(len(text))
	}
	h.says("box", id, sent, frame(pipe.FrameOutput, "last"))
	frames, err := w.Next(t.Context())
	must(t, err)
	if kind := pipe.FrameKind(frames[0]); kind != pipe.FrameNotice || len(frames) > 300_000 ||
		!strings.HasSuffix(string(frames), string(frame(pipe.FrameOutput, "last"))) {
		t.Errorf("got %c and %d bytes", kind, len(frames))
	}
	for range 15 {
		_, err := h.Watch(t.Context(), alice(), id)
		must(t, err)
	}
	if _, err := h.Watch(t.Context(), alice(), id); code(err) != wire.CodeTooManyRequests {
		t.Errorf("one too many: %v", err)
	}
}
