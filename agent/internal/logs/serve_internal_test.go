package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/logfile"
	"muster/agent/pipe"
	"muster/agent/wire"
)

// framesOf reads what Serve has written: its first frame must say that it has begun, and all others hold lines.
func framesOf(t *testing.T, from io.Reader) []wire.LogLine {
	t.Helper()
	frames := pipe.NewFrames(from)
	if kind, _, err := frames.Next(); kind != pipe.FrameReady || err != nil {
		t.Fatalf("it begins with %c, %v", kind, err)
	}
	var text bytes.Buffer
	for {
		kind, data, err := frames.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if kind != pipe.FrameOutput || err != nil {
			t.Fatalf("then %c, %v", kind, err)
		}
		text.Write(data)
	}
	var lines []wire.LogLine
	for raw := range bytes.Lines(text.Bytes()) {
		var l wire.LogLine
		if err := json.Unmarshal(raw, &l); err != nil {
			t.Fatalf("%.100q: %v", raw, err)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestServe(t *testing.T) {
	h := newHost(t)
	var text strings.Builder
	for i := range 3000 {
		text.WriteString(line(i%60, fmt.Sprint(i)))
	}
	text.WriteString(line(59, strings.Repeat("\x01", 60_000))) // takes six times as much as JSON: it does not fit into a frame
	put(t, h.log(), text.String())
	var main bytes.Buffer
	exit, err := h.Serve(t.Context(), &main, &wire.LogsParams{Source: wire.LogAgent})
	if err != nil || exit != (pipe.Exit{}) {
		t.Fatal(exit, err)
	}
	lines := framesOf(t, &main)
	if len(lines) != 3001 || len(lines[3000].Message) != 60_000 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, l := range lines[:3000] {
		if l.Message != fmt.Sprint(i) || l.Dropped > 0 {
			t.Fatalf("%d is %+v", i, l)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	var main bytes.Buffer
	_, err := newHost(t).Serve(t.Context(), &main, &wire.LogsParams{Source: wire.LogAgent})
	var said *wire.ErrorDetail
	if !errors.As(err, &said) || main.Len() > 0 {
		t.Errorf("%v, and %d bytes", err, main.Len())
	}
}

// TestServeFails: a source that fails in the middle ends the session with why, behind the lines.
func TestServeFails(t *testing.T) {
	programs(t, map[string]string{"journalctl": `case "$*" in *--lines=1*) exit 0;; esac
echo '{"__REALTIME_TIMESTAMP":"1","MESSAGE":"one"}'; exit 3`})
	var main bytes.Buffer
	exit, err := newHost(t).Serve(t.Context(), &main, &wire.LogsParams{Source: wire.LogBoot})
	if err != nil || exit.Code != 1 || !strings.Contains(exit.Error, "exit code 3") {
		t.Errorf("%+v, %v", exit, err)
	}
	if lines := framesOf(t, &main); len(lines) != 1 {
		t.Errorf("%+v", lines)
	}
}

// gone is a channel whose other end is gone after some writes.
type gone struct{ left int }

func (g *gone) Write(p []byte) (int, error) {
	if g.left--; g.left < 0 {
		return 0, errors.New("nobody is there")
	}
	return len(p), nil
}

func TestServeToNobody(t *testing.T) {
	h := newHost(t)
	put(t, h.log(), line(1, "one"))
	for left := range 2 {
		exit, err := h.Serve(t.Context(), &gone{left}, &wire.LogsParams{Source: wire.LogAgent, Follow: true})
		if err != nil || exit.Error != "nobody is there" {
			t.Errorf("%+v, %v", exit, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan pipe.Exit)
	from, main := io.Pipe()
	go func() {
		exit, _ := h.Serve(ctx, main, &wire.LogsParams{Source: wire.LogAgent, Follow: true})
		ended <- exit
	}()
	frames := pipe.NewFrames(from)
	for range 2 {
		if _, _, err := frames.Next(); err != nil {
			t.Fatal(err)
		}
	}
	cancel(errors.New("the session is over"))
	if exit := <-ended; exit.Error != "the session is over" {
		t.Errorf("%+v", exit)
	}
}

// TestStuckGateway: a gateway that takes nothing holds no session up that is over.
func TestStuckGateway(t *testing.T) {
	h := newHost(t)
	put(t, h.log(), line(1, "one"))
	ctx, cancel := context.WithCancelCause(t.Context())
	from, main := io.Pipe()
	ended := make(chan pipe.Exit)
	go func() {
		exit, _ := h.Serve(ctx, main, &wire.LogsParams{Source: wire.LogAgent, Follow: true})
		ended <- exit
	}()
	if _, _, err := pipe.NewFrames(from).Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Read(make([]byte, 1)); err != nil { // the next frame has begun, and goes no further
		t.Fatal(err)
	}
	cancel(errors.New("the session is over"))
	if exit := <-ended; exit.Code != 1 {
		t.Errorf("%+v", exit)
	}
	if _, err := main.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the channel is open: %v", err)
	}
}

// fedReader gives the lines that are put into the channel.
func fedReader(entries chan entry) *Reader {
	masker := logfile.NewMasker()
	return &Reader{now: time.Now, masker: masker, stream: masker.Stream(), read: func(_ context.Context, give func(entry) error) error {
		for e := range entries {
			if err := give(e); err != nil {
				return err
			}
		}
		return errors.New("the end")
	}}
}

// TestWaitingGateway: where the gateway takes nothing, nothing is dropped: who reads waits.
func TestWaitingGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := make(chan entry)
		from, main := io.Pipe()
		go func() { main.CloseWithError(copyLines(t.Context(), main, fedReader(entries))) }()
		put := 0
		go func() {
			for range 1000 {
				entries <- entry{text: strings.Repeat("x", 1000)}
				put++
			}
			close(entries)
		}()
		synctest.Wait()
		if put > pipe.MaxFrame/1000 {
			t.Errorf("%d lines were taken", put)
		}
		raw, err := io.ReadAll(from)
		if n := bytes.Count(raw, []byte("xxx\"}\n")); n != 1000 || err == nil || err.Error() != "the end" {
			t.Errorf("%d lines, %v", n, err)
		}
	})
}

// TestGathers: lines that come one after the other make one frame, and one line alone does not wait long.
func TestGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := make(chan entry)
		from, main := io.Pipe()
		go func() { main.CloseWithError(copyLines(t.Context(), main, fedReader(entries))) }()
		go func() {
			for range 3 {
				entries <- entry{text: "x"}
				time.Sleep(gatherTime / 5)
			}
			time.Sleep(time.Second)
			close(entries)
		}()
		began := time.Now()
		_, data, err := pipe.NewFrames(from).Next()
		if err != nil || bytes.Count(data, []byte("\n")) != 3 || time.Since(began) != gatherTime {
			t.Errorf("%q after %s, %v", data, time.Since(began), err)
		}
		if _, err := from.Read(make([]byte, 1)); err == nil || err.Error() != "the end" {
			t.Error(err)
		}
	})
}
