package pipe_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// cable is a gateway with two rooms, as one of its ends sees it.
type cable struct{ out, in *pipe.Room }

func (c cable) Send(ctx context.Context, _ int, at int64, p pipe.Piece) (int64, error) {
	return c.out.Put(ctx, at, p)
}

func (c cable) Fetch(ctx context.Context, _ int, at int64, _ []byte) (pipe.Piece, error) {
	return c.in.Get(ctx, at, wire.MaxPiece)
}

// channel gives both ends of one.
func channel(t *testing.T) (node, operator *pipe.End, cut func()) {
	t.Helper()
	there := pipe.NewRoom(wire.PipeRoom)
	back := pipe.NewRoom(wire.PipeRoom)
	node = pipe.Open(t.Context(), cable{back, there}, 1)
	operator = pipe.Open(t.Context(), cable{there, back}, 1)
	over := wire.Refuse(wire.CodeSessionOver, "it was ended", "")
	return node, operator, func() { there.Close(over); back.Close(over) }
}

// dial gives both ends of a connection of TCP.
func dial(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	out, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	in, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close(); in.Close() })
	return out.(*net.TCPConn), in.(*net.TCPConn)
}

// joined is a whole way: a program at each end, two connections, and a channel between them.
type joined struct {
	operator, node *net.TCPConn // as the programs have them
	cut            func()
	done           sync.WaitGroup
	hungUp         [2]atomic.Int32 // by operator and node
	broke          [2]error
}

func join(t *testing.T) *joined {
	t.Helper()
	j := &joined{}
	var near, far *net.TCPConn
	j.operator, near = dial(t)
	far, j.node = dial(t)
	nodeEnd, operatorEnd, cut := channel(t)
	j.cut = cut
	// a broken connection is told to the other side, which closes its own
	j.done.Go(func() { j.broke[0] = pipe.Join(near, operatorEnd, func() { j.hungUp[0].Add(1); far.Close() }) })
	j.done.Go(func() { j.broke[1] = pipe.Join(far, nodeEnd, func() { j.hungUp[1].Add(1); near.Close() }) })
	return j
}

func TestJoin(t *testing.T) {
	j := join(t)
	question := bytes.Repeat([]byte("question"), 200_000) // more than the channel holds
	answer := bytes.Repeat([]byte("answer"), 300_000)
	var asking sync.WaitGroup
	asking.Go(func() {
		_, err := j.operator.Write(question)
		if err = errors.Join(err, j.operator.CloseWrite()); err != nil {
			t.Error(err)
		}
	})
	if got, err := io.ReadAll(j.node); err != nil || !bytes.Equal(got, question) {
		t.Errorf("%d bytes of %d, %v", len(got), len(question), err)
	}
	asking.Wait()
	asking.Go(func() { // the other direction is open still
		_, err := j.node.Write(answer)
		if err = errors.Join(err, j.node.Close()); err != nil {
			t.Error(err)
		}
	})
	if got, err := io.ReadAll(j.operator); err != nil || !bytes.Equal(got, answer) {
		t.Errorf("%d bytes of %d, %v", len(got), len(answer), err)
	}
	asking.Wait()
	j.done.Wait()
	if a, b := j.hungUp[0].Load(), j.hungUp[1].Load(); a+b != 0 {
		t.Errorf("hung up %d and %d times", a, b)
	}
	if err := errors.Join(j.broke[:]...); err != nil {
		t.Error(err)
	}
}

// TestJoinBroken: who goes away in the middle does not leave the other side with a writer that nobody reads.
func TestJoinBroken(t *testing.T) {
	for name, breaks := range map[string]func(j *joined) (gone, stays *net.TCPConn){
		"the operator's": func(j *joined) (*net.TCPConn, *net.TCPConn) { return j.operator, j.node },
		"the node's":     func(j *joined) (*net.TCPConn, *net.TCPConn) { return j.node, j.operator },
	} {
		t.Run(name, func(t *testing.T) {
			j := join(t)
			gone, stays := breaks(j)
			if err := errors.Join(gone.SetLinger(0), gone.Close()); err != nil { // a reset
				t.Fatal(err)
			}
			endless := make([]byte, 64<<10)
			for err := error(nil); err == nil; {
				_, err = stays.Write(endless)
			}
			j.done.Wait()
			if a, b := j.hungUp[0].Load(), j.hungUp[1].Load(); a > 1 || b > 1 || a+b == 0 {
				t.Errorf("hung up %d and %d times", a, b)
			}
			if err := errors.Join(j.broke[:]...); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestJoinOver: the end of the session ends both connections.
func TestJoinOver(t *testing.T) {
	j := join(t)
	if _, err := j.operator.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(j.node, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	j.cut()
	for _, conn := range []*net.TCPConn{j.operator, j.node} {
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("%d bytes", n)
		}
	}
	j.done.Wait()
	for _, err := range j.broke {
		var said *wire.ErrorDetail
		if !errors.As(err, &said) || said.Code != wire.CodeSessionOver {
			t.Errorf("it broke by %v", err)
		}
	}
}
