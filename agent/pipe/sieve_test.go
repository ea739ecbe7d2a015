package pipe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

func sifted(data []byte, cut int, wants func(pipe.FrameKind) bool) (frames []string, err error) {
	s := pipe.Sieve{Wants: wants}
	for len(data) > 0 && err == nil {
		n := min(cut, len(data))
		err = s.Feed(data[:n], func(kind pipe.FrameKind, data []byte) { frames = append(frames, fmt.Sprintf("%c%s", kind, data)) })
		data = data[n:]
	}
	return frames, err
}

// TestSieve: however the bytes are cut, the same wanted frames come out.
func TestSieve(t *testing.T) {
	var all bytes.Buffer
	for _, f := range []struct {
		kind pipe.FrameKind
		text string
	}{{pipe.FrameReady, "{}"}, {pipe.FrameOutput, strings.Repeat("x", 300)}, {pipe.FrameError, ""}, {pipe.FrameSize, "s"},
		{pipe.FrameOutput, ""}, {pipe.FrameExit, "0"}} {
		if err := pipe.WriteFrame(&all, f.kind, []byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(kind pipe.FrameKind) bool { return kind != pipe.FrameOutput && kind != pipe.FrameError }
	for cut := 1; cut <= all.Len(); cut++ {
		got, err := sifted(all.Bytes(), cut, wants)
		if want := []string{"r{}", "ws", "q0"}; err != nil || !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d: %q, %v", cut, got, err)
		}
	}
	if got, err := sifted(all.Bytes(), 7, nil); len(got) > 0 || err != nil {
		t.Errorf("wanting nothing: %q, %v", got, err)
	}
	if _, err := sifted([]byte{'o', 0, 1, 0, 1}, 2, nil); err == nil {
		t.Error("a frame that is too long was taken")
	}
}

// FuzzSieve: the sieve takes what Frames takes, and gives the same.
func FuzzSieve(f *testing.F) {
	f.Add([]byte{'o', 0, 0, 0, 1, 'x', 'r', 0, 0, 0, 0}, 3)
	f.Add([]byte{'o', 255, 0, 0, 1, 'x'}, 1)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		got, wrong := sifted(data, max(cut, 1), func(pipe.FrameKind) bool { return true })
		from := pipe.NewFrames(bytes.NewReader(data))
		for i := 0; ; i++ {
			kind, body, err := from.Next()
			if err != nil {
				if i != len(got) || (wrong == nil) != (err == io.EOF || err == io.ErrUnexpectedEOF) {
					t.Errorf("%d frames and %v, the reader %d and %v", len(got), wrong, i, err)
				}
				return
			}
			if i >= len(got) || got[i] != fmt.Sprintf("%c%s", kind, body) {
				t.Fatalf("frame %d is not %c %q", i, kind, body)
			}
		}
	})
}

// TestFree: it tells how much can be put, waits while that is nothing, and ends with the room.
func TestFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipe.NewRoom(4)
		ctx := context.Background()
		if n := r.Free(ctx); n != 4 {
			t.Errorf("an empty room has %d", n)
		}
		if _, err := r.Put(ctx, 0, pipe.Piece{Data: []byte("abcd")}); err != nil || r.Kept() != 4 {
			t.Errorf("%d bytes are kept, %v", r.Kept(), err)
		}
		free := make(chan int, 2)
		go func() { free <- r.Free(ctx) }()
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if n := r.Free(short); n != 0 {
			t.Errorf("a full room has %d", n)
		}
		if _, err := r.Get(ctx, 0, wire.MaxPiece); err != nil || len(free) != 0 {
			t.Errorf("what was fetched once may be fetched again: %v", err)
		}
		if _, err := r.Get(short, 3, wire.MaxPiece); err != nil {
			t.Error(err)
		}
		if n := <-free; n != 3 {
			t.Errorf("it has %d, want 3", n)
		}
		r.Close(errors.New("over"))
		if n := r.Free(ctx); n != 0 {
			t.Errorf("a closed room has %d", n)
		}
	})
}
