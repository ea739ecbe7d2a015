package pipe_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// odd is a carrier that answers as a test says.
type odd struct {
	send  func(ctx context.Context, at int64, p pipe.Piece) (int64, error)
	fetch func(ctx context.Context, at int64) (pipe.Piece, error)
}

func (o odd) Send(ctx context.Context, _ int, at int64, p pipe.Piece) (int64, error) {
	return o.send(ctx, at, p)
}

func (o odd) Fetch(ctx context.Context, _ int, at int64, _ []byte) (pipe.Piece, error) {
	return o.fetch(ctx, at)
}

// TestEndIsBounded: while nothing gets through, Write keeps one piece beside the one on its way, and then waits.
func TestEndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		door := make(chan struct{})
		e := pipe.Open(t.Context(), odd{send: func(_ context.Context, at int64, p pipe.Piece) (int64, error) {
			<-door
			if len(sizes) > 0 {
				synctest.Wait() // until the writer waits, too
			}
			sizes = append(sizes, len(p.Data))
			return at + int64(len(p.Data)), nil
		}}, 0)
		written := 0
		done := make(chan error)
		go func() {
			for range 3 * wire.MaxPiece / 1024 {
				n, err := e.Write(make([]byte, 1024))
				written += n
				if err != nil {
					done <- err
					return
				}
			}
			done <- e.CloseWrite()
		}()
		synctest.Wait()
		if written > 2*wire.MaxPiece || written < wire.MaxPiece {
			t.Errorf("%d bytes were taken while nothing got through", written)
		}
		close(door)
		if err := <-done; err != nil {
			t.Error(err)
		}
		all := 0
		for _, size := range sizes {
			all += size
			if size > wire.MaxPiece {
				t.Errorf("a piece of %d bytes", size)
			}
		}
		if all != 3*wire.MaxPiece || len(sizes) > 5 {
			t.Errorf("%d bytes in %d pieces", all, len(sizes))
		}
	})
}

// TestGathered: what is written while a piece is on its way goes out as one piece.
func TestGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pieces []string
		e := pipe.Open(t.Context(), odd{send: func(_ context.Context, at int64, p pipe.Piece) (int64, error) {
			pieces = append(pieces, string(p.Data))
			time.Sleep(time.Second)
			return at + int64(len(p.Data)), nil
		}}, 0)
		for _, key := range []string{"a", "b", "c", "d"} {
			_, _ = e.Write([]byte(key))
			synctest.Wait()
		}
		if err := e.CloseWrite(); err != nil {
			t.Error(err)
		}
		if err := e.CloseWrite(); err != nil {
			t.Errorf("a second time: %v", err)
		}
		if len(pieces) != 2 || pieces[0] != "a" || pieces[1] != "bcd" {
			t.Errorf("pieces %q", pieces)
		}
		if _, err := e.Write([]byte("e")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestSmallPieces: where there are many channels the pieces are small, and nothing is lost when that changes while bytes wait.
func TestSmallPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := pipe.NewRoom(wire.PipeRoom)
		var most atomic.Int64
		most.Store(5)
		e := pipe.Open(t.Context(), odd{send: func(ctx context.Context, at int64, p pipe.Piece) (int64, error) {
			if len(p.Data) > 5 {
				t.Errorf("a piece of %d bytes", len(p.Data))
			}
			most.Store(2)
			time.Sleep(time.Second)
			return room.Put(ctx, at, p)
		}}, 1)
		e.Most = func() int { return int(most.Load()) }
		if n, err := e.Write([]byte("0123456789abc")); n != 13 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if err := e.CloseWrite(); err != nil {
			t.Error(err)
		}
		for at, want := range []string{"0123456", "123456789abc"} {
			p, err := room.Get(t.Context(), int64(at), []int{7, 12}[at])
			if string(p.Data) != want || p.End != (at == 1) || err != nil {
				t.Errorf("%q, end %v, %v", p.Data, p.End, err)
			}
		}
	})
}

// TestNoHurry: something that answers at once without moving anything is not asked more often than once a second.
func TestNoHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, fetched := 0, 0
		ctx, cancel := context.WithCancelCause(t.Context())
		e := pipe.Open(ctx, odd{
			send:  func(_ context.Context, at int64, _ pipe.Piece) (int64, error) { sent++; return at, nil },
			fetch: func(context.Context, int64) (pipe.Piece, error) { fetched++; return pipe.Piece{}, nil },
		}, 0)
		_, _ = e.Write([]byte("x"))
		over := errors.New("over")
		go func() { time.Sleep(time.Minute + time.Millisecond); cancel(over) }()
		if _, err := e.Read(make([]byte, 1)); !errors.Is(err, over) {
			t.Errorf("read: %v", err)
		}
		synctest.Wait()
		if sent < 60 || sent > 61 || fetched < 60 || fetched > 61 {
			t.Errorf("%d pieces were sent and %d fetched in a minute", sent, fetched)
		}
	})
}

// TestOddNext: a gateway that says that it has what nobody has sent, or has lost what it had, is not believed.
func TestOddNext(t *testing.T) {
	for _, next := range []int64{-1, 3, 1 << 60} {
		e := pipe.Open(t.Context(), odd{send: func(_ context.Context, at int64, p pipe.Piece) (int64, error) { return at + next, nil }}, 0)
		_, _ = e.Write([]byte("ab"))
		if err := e.CloseWrite(); err == nil {
			t.Errorf("next %d was taken", next)
		}
	}
}

// TestEndStops: when its context is done, or Close was called, an end waits for nothing any more.
func TestEndStops(t *testing.T) {
	over := errors.New("over")
	for _, c := range []struct {
		what string
		stop func(*pipe.End, context.CancelCauseFunc)
		want error
	}{
		{"context", func(_ *pipe.End, cancel context.CancelCauseFunc) { cancel(over) }, over},
		{"close", func(e *pipe.End, _ context.CancelCauseFunc) { _ = e.Close() }, io.ErrClosedPipe},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			e := pipe.Open(ctx, odd{
				send:  func(ctx context.Context, at int64, _ pipe.Piece) (int64, error) { return at, hang(ctx) },
				fetch: func(ctx context.Context, _ int64) (pipe.Piece, error) { return pipe.Piece{}, hang(ctx) },
			}, 0)
			ends := make(chan error, 3)
			go func() { _, err := e.Read(make([]byte, 1)); ends <- err }()
			go func() { _, err := e.Write(make([]byte, 3*wire.MaxPiece)); ends <- err }()
			synctest.Wait()
			go func() { ends <- e.CloseWrite() }()
			synctest.Wait()
			if len(ends) > 0 {
				t.Errorf("%s: ended before: %v", c.what, <-ends)
			}
			c.stop(e, cancel)
			for range 3 {
				if err := <-ends; !errors.Is(err, c.want) && !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("%s: %v", c.what, err)
				}
			}
			if n, err := e.Write([]byte("x")); n > 0 || err == nil {
				t.Errorf("%s: %d bytes were taken after that, %v", c.what, n, err)
			}
		})
	}
}

// TestPulse: an end that nobody reads from or writes to tells the gateway in time that it is there, and learns that the session is over.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		over := wire.Refuse(wire.CodeSessionOver, "somebody ended it", "")
		began := time.Now()
		e := pipe.Open(t.Context(), odd{send: func(_ context.Context, from int64, p pipe.Piece) (int64, error) {
			at = append(at, time.Now())
			if from != 0 || len(p.Data) > 0 || p.End {
				t.Errorf("%d bytes at %d, end %v", len(p.Data), from, p.End)
			}
			if time.Since(began) > 10*time.Minute {
				return 0, over
			}
			return 0, nil
		}}, pipe.Main)
		other := pipe.Open(t.Context(), odd{}, 1) // a call would panic
		<-e.Done()
		last := began
		for _, one := range at {
			if one.Sub(last) >= wire.SessionBridge {
				t.Errorf("silent for %s", one.Sub(last))
			}
			last = one
		}
		if len(at) < 10 || len(at) > 40 || !errors.Is(e.Cause(), over) || other.Cause() != nil {
			t.Errorf("%d pulses, then %v", len(at), e.Cause())
		}
		if _, err := e.Write([]byte("x")); !errors.Is(err, over) {
			t.Errorf("write: %v", err)
		}
	})
}

// TestNoPulse: an end that is closed, or at work, tells nothing beside that.
func TestNoPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := pipe.Open(ctx, odd{fetch: func(ctx context.Context, _ int64) (pipe.Piece, error) {
			select {
			case <-time.After(wire.PieceWait):
				return pipe.Piece{}, nil
			case <-ctx.Done():
				return pipe.Piece{}, ctx.Err()
			}
		}}, pipe.Main)
		go func() { time.Sleep(10 * time.Minute); cancel() }()
		if _, err := e.Read(make([]byte, 1)); err == nil {
			t.Error("read something")
		}
		time.Sleep(10 * time.Minute)
	})
}
