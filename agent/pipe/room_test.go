package pipe_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

func now(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func put(t *testing.T, r *pipe.Room, at int64, text string, end bool) (int64, error) {
	t.Helper()
	return r.Put(now(t), at, pipe.Piece{Data: []byte(text), End: end})
}

func taken(t *testing.T, r *pipe.Room, at int64, text string, end bool, want int64) {
	t.Helper()
	if next, err := put(t, r, at, text, end); next != want || err != nil {
		t.Fatalf("put %q at %d: next %d, %v, want %d", text, at, next, err, want)
	}
}

func given(t *testing.T, r *pipe.Room, at int64, text string, end bool) {
	t.Helper()
	p, err := r.Get(now(t), at, wire.MaxPiece)
	if err != nil || string(p.Data) != text || p.End != end {
		t.Fatalf("get from %d: %q, end %v, %v, want %q, %v", at, p.Data, p.End, err, text, end)
	}
}

func refused(t *testing.T, what string, err error, code string) {
	t.Helper()
	var said *wire.ErrorDetail
	if !errors.As(err, &said) || said.Code != code || said.Hint == "" {
		t.Fatalf("%s: %v, want %s", what, err, code)
	}
}

// TestRoom: what is sent twice is kept once, and what was fetched is kept until it is known to have arrived.
func TestRoom(t *testing.T) {
	r := pipe.NewRoom(8)
	given(t, r, 0, "", false)
	taken(t, r, 0, "abc", false, 3)
	taken(t, r, 0, "abc", false, 3) // again: the answer was lost
	taken(t, r, 0, "ab", false, 3)  // late, a part of it
	taken(t, r, 1, "bcde", false, 5)
	given(t, r, 0, "abcde", false)
	given(t, r, 0, "abcde", false) // again: the answer was lost
	given(t, r, 2, "cde", false)
	taken(t, r, 5, "fghijklmn", false, 10) // 8 have room, from 2 on
	taken(t, r, 10, "klmn", false, 10)     // nothing has room
	given(t, r, 10, "", false)
	taken(t, r, 10, "kl", true, 12)
	taken(t, r, 10, "kl", true, 12) // again
	taken(t, r, 0, "abc", false, 12)
	given(t, r, 10, "kl", true)
	given(t, r, 12, "", true)
	given(t, r, 12, "", true)
	if r.Passed() != 12 {
		t.Errorf("%d bytes passed", r.Passed())
	}
}

// TestRoomEndWithoutRoom: the end counts with the last byte alone.
func TestRoomEndWithoutRoom(t *testing.T) {
	r := pipe.NewRoom(2)
	taken(t, r, 0, "abc", true, 2)
	given(t, r, 0, "ab", false)
	given(t, r, 2, "", false)
	taken(t, r, 2, "c", true, 3)
	given(t, r, 2, "c", true)
	empty := pipe.NewRoom(2)
	taken(t, empty, 0, "", true, 0)
	given(t, empty, 0, "", true)
}

// TestRoomRefuses: bytes that do not follow those before are not taken, and none are given twice or left out.
func TestRoomRefuses(t *testing.T) {
	r := pipe.NewRoom(100)
	taken(t, r, 0, "abcd", false, 4)
	_, err := put(t, r, 5, "x", false)
	refused(t, "a hole", err, wire.CodeSessionBroken)
	_, err = put(t, r, 0, "ab", true)
	refused(t, "an end before bytes that are here", err, wire.CodeSessionBroken)
	_, err = r.Get(now(t), 5, wire.MaxPiece)
	refused(t, "bytes that nobody has sent", err, wire.CodeSessionBroken)
	given(t, r, 3, "d", false)
	_, err = r.Get(now(t), 2, wire.MaxPiece)
	refused(t, "bytes that have arrived", err, wire.CodeSessionBroken)
	taken(t, r, 4, "e", true, 5)
	_, err = put(t, r, 5, "f", false)
	refused(t, "bytes after the end", err, wire.CodeSessionBroken)
	_, err = put(t, r, 3, "d", true)
	refused(t, "another end", err, wire.CodeSessionBroken)
	given(t, r, 3, "de", true)
}

// TestRoomClose: the reader gets what is kept, then why it is over. The writer is told at once, but not that something is lost which is
// kept.
func TestRoomClose(t *testing.T) {
	over := wire.Refuse(wire.CodeSessionOver, "somebody ended it", "open another one")
	r := pipe.NewRoom(100)
	taken(t, r, 0, "ab", false, 2)
	r.Close(over)
	r.Close(errors.New("the second reason counts for nothing"))
	_, err := put(t, r, 2, "c", false)
	refused(t, "more bytes", err, wire.CodeSessionOver)
	_, err = put(t, r, 7, "c", false)
	refused(t, "a hole", err, wire.CodeSessionOver)
	taken(t, r, 0, "ab", false, 2)
	given(t, r, 0, "ab", false)
	_, err = r.Get(now(t), 2, wire.MaxPiece)
	refused(t, "what follows", err, wire.CodeSessionOver)

	whole := pipe.NewRoom(100)
	taken(t, whole, 0, "ab", true, 2)
	whole.Close(over)
	taken(t, whole, 0, "ab", true, 2)
	given(t, whole, 0, "ab", true)
	given(t, whole, 2, "", true)
}

// TestRoomWaits: both sides wait for each other, and a request that ends meanwhile is answered with nothing.
func TestRoomWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipe.NewRoom(3)
		ctx, cancel := context.WithTimeout(t.Context(), wire.PieceWait)
		defer cancel()
		began := time.Now()
		if p, err := r.Get(ctx, 0, wire.MaxPiece); err != nil || p.End || len(p.Data) > 0 || time.Since(began) != wire.PieceWait {
			t.Errorf("%q, %v, %v after %s", p.Data, p.End, err, time.Since(began))
		}
		go func() { time.Sleep(time.Second); _, _ = r.Put(t.Context(), 0, pipe.Piece{Data: []byte("abc")}) }()
		began = time.Now()
		p, err := r.Get(t.Context(), 0, wire.MaxPiece)
		if err != nil || string(p.Data) != "abc" || time.Since(began) != time.Second {
			t.Errorf("%q, %v after %s", p.Data, err, time.Since(began))
		}
		p.Data[0] = 'X' // it is the caller's
		given(t, r, 0, "abc", false)
		go func() { time.Sleep(time.Second); _, _ = r.Get(now(t), 1, wire.MaxPiece) }()
		began = time.Now()
		next, err := r.Put(t.Context(), 3, pipe.Piece{Data: []byte("de")})
		if err != nil || next != 4 || time.Since(began) != time.Second {
			t.Errorf("next %d, %v after %s", next, err, time.Since(began))
		}
		go func() { time.Sleep(time.Second); r.Close(errors.New("over")) }()
		if next, err := r.Put(t.Context(), 4, pipe.Piece{Data: []byte("e")}); err == nil || err.Error() != "over" {
			t.Errorf("next %d, %v", next, err)
		}
	})
}

// TestRoomPieces: a piece has at most wire.MaxPiece bytes, and the end comes with the last one.
func TestRoomPieces(t *testing.T) {
	r := pipe.NewRoom(wire.PipeRoom)
	all := bytes.Repeat([]byte("0123456789abcdef"), wire.PipeRoom/16)
	half := int64(wire.MaxPiece)
	if next, err := r.Put(now(t), 0, pipe.Piece{Data: all, End: true}); next != 2*half || err != nil {
		t.Fatal(next, err)
	}
	first, err := r.Get(now(t), 0, wire.MaxPiece)
	if err != nil || !bytes.Equal(first.Data, all[:half]) || first.End {
		t.Errorf("%d bytes, end %v, %v", len(first.Data), first.End, err)
	}
	second, err := r.Get(now(t), half, wire.MaxPiece)
	if err != nil || !bytes.Equal(second.Data, all[half:]) || !second.End {
		t.Errorf("%d bytes, end %v, %v", len(second.Data), second.End, err)
	}
}
