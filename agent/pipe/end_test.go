package pipe_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// gateway has the rooms of one channel. Each end sends into one and fetches from the other.
type gateway struct {
	toNode, toOperator *pipe.Room
}

func newGateway(most int) *gateway { return &gateway{pipe.NewRoom(most), pipe.NewRoom(most)} }

// way is the carrier of one end. Its functions stand for what can happen between the end and the gateway.
type way struct {
	in, out *pipe.Room
	wait    time.Duration
	before  func(ctx context.Context) error // of each call; an error: the request is lost
	after   func(repeat func()) error       // of each call; an error: the answer is lost
}

func (w *way) Send(ctx context.Context, _ int, at int64, p pipe.Piece) (int64, error) {
	p.Data = bytes.Clone(p.Data) // a request that comes late has the bytes that were sent
	return call(ctx, w, func(ctx context.Context) (int64, error) { return w.out.Put(ctx, at, p) })
}

func (w *way) Fetch(ctx context.Context, _ int, at int64, memory []byte) (pipe.Piece, error) {
	p, err := call(ctx, w, func(ctx context.Context) (pipe.Piece, error) { return w.in.Get(ctx, at, wire.MaxPiece) })
	if err != nil {
		return p, err
	}
	return pipe.ReadPiece(append(memory[:0], p.Body()...))
}

func call[T any](ctx context.Context, w *way, do func(context.Context) (T, error)) (T, error) {
	var none T
	if w.before != nil {
		if err := w.before(ctx); err != nil {
			return none, err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, w.wait)
	defer cancel()
	got, err := do(bounded)
	if err != nil || w.after == nil {
		return got, err
	}
	err = w.after(func() {
		late, cancel := context.WithTimeout(context.Background(), w.wait)
		defer cancel()
		_, _ = do(late)
	})
	if err != nil {
		return none, err
	}
	return got, nil
}

func (g *gateway) operator() *way { return &way{in: g.toOperator, out: g.toNode, wait: wire.PieceWait} }
func (g *gateway) node() *way     { return &way{in: g.toNode, out: g.toOperator, wait: wire.PieceWait} }

var errWay = errors.New("the network is gone")

// rough makes a way lose requests and answers, and repeat requests at once and late.
func rough(w *way, seed uint64) *way {
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(seed, 7))
	roll := func(sides int) int {
		mu.Lock()
		defer mu.Unlock()
		return dice.IntN(sides)
	}
	w.before = func(ctx context.Context) error {
		time.Sleep(time.Duration(roll(30)) * time.Millisecond)
		if roll(6) == 0 {
			return errWay
		}
		return nil
	}
	w.after = func(repeat func()) error {
		if roll(6) == 0 {
			go func() { time.Sleep(time.Duration(roll(3000)) * time.Millisecond); repeat() }()
		}
		if roll(6) == 0 {
			repeat()
		}
		time.Sleep(time.Duration(roll(30)) * time.Millisecond)
		if roll(6) == 0 {
			return errWay
		}
		return nil
	}
	return w
}

// pour writes bytes in parts of many sizes, and then the end.
func pour(t *testing.T, e *pipe.End, all []byte, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 8))
	for len(all) > 0 {
		n := min(len(all), 1+dice.IntN(20)*dice.IntN(20)*dice.IntN(200))
		if wrote, err := e.Write(all[:n]); wrote != n || err != nil {
			t.Errorf("wrote %d of %d bytes: %v", wrote, n, err)
			return
		}
		all = all[n:]
	}
	if err := e.CloseWrite(); err != nil {
		t.Errorf("end: %v", err)
	}
}

// TestNothingLostOrDoubled: whatever is lost or repeated on the way, each end reads what the other one has written.
func TestNothingLostOrDoubled(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			room, most := 64<<10, 700<<10 // less room than a piece, so that pieces are taken in parts
			if seed%3 == 2 {
				room, most = wire.PipeRoom, 5<<20 // whole pieces, so that one is fetched while the one before is read
			}
			g := newGateway(room)
			operator := pipe.Open(t.Context(), rough(g.operator(), 2*seed), 0)
			node := pipe.Open(t.Context(), rough(g.node(), 2*seed+1), 0)
			up := make([]byte, most)
			down := make([]byte, 300<<10)
			source := rand.NewChaCha8([32]byte{byte(seed)})
			_, _ = source.Read(up)
			_, _ = source.Read(down)
			var pours sync.WaitGroup
			pours.Go(func() { pour(t, operator, up, seed) })
			pours.Go(func() { pour(t, node, down, seed+100) })
			type end struct {
				data []byte
				err  error
			}
			atNode := make(chan end)
			go func() { data, err := io.ReadAll(node); atNode <- end{data, err} }()
			got, err := io.ReadAll(operator)
			if err != nil || !bytes.Equal(got, down) {
				t.Errorf("seed %d: the operator read %d of %d bytes: %v", seed, len(got), len(down), err)
			}
			if got := <-atNode; got.err != nil || !bytes.Equal(got.data, up) {
				t.Errorf("seed %d: the node read %d of %d bytes: %v", seed, len(got.data), len(up), got.err)
			}
			if g.toNode.Passed() != int64(len(up)) || g.toOperator.Passed() != int64(len(down)) {
				t.Errorf("seed %d: %d and %d bytes passed", seed, g.toNode.Passed(), g.toOperator.Passed())
			}
			pours.Wait()
			_ = operator.Close()
			_ = node.Close()
			time.Sleep(time.Minute) // for what comes late
		})
	}
}

// TestLastBytesAreKnown: the gateway learns that the last bytes have arrived, so that it need not keep them.
func TestLastBytesAreKnown(t *testing.T) {
	g := newGateway(100)
	node := pipe.Open(t.Context(), g.node(), 0)
	_, err := g.toNode.Put(t.Context(), 0, pipe.Piece{Data: []byte("abc"), End: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(node); string(got) != "abc" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	_, err = g.toNode.Get(t.Context(), 0, wire.MaxPiece)
	refused(t, "bytes that have arrived", err, wire.CodeSessionBroken)
}

// TestForgottenAfterTheEnd: where the gateway knows nothing of the channel any more after its last bytes, these bytes count.
func TestForgottenAfterTheEnd(t *testing.T) {
	g := newGateway(100)
	w := g.node()
	node := pipe.Open(t.Context(), w, 0)
	_, _ = g.toNode.Put(t.Context(), 0, pipe.Piece{Data: []byte("abc"), End: true})
	calls := 0
	w.before = func(context.Context) error {
		if calls++; calls > 1 {
			return wire.Refuse(wire.CodeNotFound, "no such channel", "")
		}
		return nil
	}
	if got, err := io.ReadAll(node); string(got) != "abc" || err != nil || calls != 2 {
		t.Errorf("%q, %v after %d calls", got, err, calls)
	}
}

// outage is a way that is in trouble from a moment on, for a while.
type outage struct {
	begins time.Time
	lasts  time.Duration
	err    error
}

func (o outage) before(context.Context) error {
	if since := time.Since(o.begins); since >= 0 && since < o.lasts {
		return o.err
	}
	return nil
}

// TestBridge: an outage that is shorter than the bridge costs nothing but time. The end says what is going on.
func TestBridge(t *testing.T) {
	for _, trouble := range []error{
		errWay, wire.Refuse(wire.CodeUnavailable, "busy", ""), wire.Refuse(wire.CodeTooManyRequests, "slowly", ""),
		wire.Refuse(wire.CodeInternal, "HTTP 500", ""), wire.Refuse(wire.CodeSlowBody, "too slow", ""),
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway(1000)
			w := g.node()
			w.before = outage{time.Now(), wire.SessionBridge - 5*time.Second, trouble}.before
			node := pipe.Open(t.Context(), w, 0)
			var mu sync.Mutex
			good, bad := 0, 0
			node.Trouble = func(err error) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					good++
				case errors.Is(err, trouble):
					bad++
				}
			}
			if _, err := node.Write([]byte("up")); err != nil {
				t.Error(err)
			}
			_, _ = g.toNode.Put(t.Context(), 0, pipe.Piece{Data: []byte("down"), End: true})
			got, err := io.ReadAll(node)
			if string(got) != "down" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if err := node.CloseWrite(); err != nil {
				t.Error(err)
			}
			given(t, g.toOperator, 0, "up", true)
			mu.Lock()
			defer mu.Unlock()
			if good != 2 || bad < 10 || bad > 200 {
				t.Errorf("%v: told %d times of trouble and %d times that it is over", trouble, bad, good)
			}
		})
	}
}

// TestLost: an outage that is longer ends the end for good, within the bridge and the last pause.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(1000)
		w := g.node()
		w.before = outage{time.Now(), wire.SessionBridge + 10*time.Second, errWay}.before
		node := pipe.Open(t.Context(), w, 0)
		began := time.Now()
		_, err := node.Read(make([]byte, 1))
		took := time.Since(began)
		if !errors.Is(err, pipe.ErrLost) || !errors.Is(err, errWay) || took < wire.SessionBridge || took > wire.SessionBridge+5*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		if _, err := node.Write([]byte("x")); err != nil {
			t.Errorf("the other direction has not failed yet: %v", err)
		}
		time.Sleep(2 * wire.SessionBridge) // the way is good again: the byte gets through
		given(t, g.toOperator, 0, "x", false)
		if _, err := node.Read(make([]byte, 1)); !errors.Is(err, pipe.ErrLost) {
			t.Errorf("what was lost is not lost any more: %v", err)
		}
		w.before = func(context.Context) error { return errWay }
		if _, err := node.Write([]byte("y")); err != nil {
			t.Error(err)
		}
		if err := node.CloseWrite(); !errors.Is(err, pipe.ErrLost) {
			t.Errorf("the end was taken: %v", err)
		}
		if _, err := node.Write([]byte("z")); !errors.Is(err, pipe.ErrLost) {
			t.Errorf("written after that: %v", err)
		}
	})
}

// TestFinalWord: what the gateway refuses is not asked for again.
func TestFinalWord(t *testing.T) {
	for _, code := range []string{wire.CodeSessionOver, wire.CodeSessionBroken, wire.CodeNotFound, wire.CodeClaimMismatch, wire.CodeRevoked} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway(1000)
			w := g.node()
			calls := 0
			w.before = func(context.Context) error { calls++; return wire.Refuse(code, "no", "never") }
			node := pipe.Open(t.Context(), w, 0)
			_, err := node.Read(make([]byte, 1))
			refused(t, "read", err, code)
			_, _ = node.Write([]byte("x"))
			refused(t, "end", node.CloseWrite(), code)
			_, err = node.Write([]byte("x"))
			refused(t, "write", err, code)
			_, err = node.Read(make([]byte, 1))
			refused(t, "read again", err, code)
			if calls != 2 {
				t.Errorf("%s: the gateway was asked %d times", code, calls)
			}
		})
	}
}
