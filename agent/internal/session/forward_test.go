package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"muster/agent/internal/task"
	"muster/agent/pipe"
	"muster/agent/wire"
)

// exchange is a gateway in small that has any number of channels.
type exchange struct {
	mu          sync.Mutex
	there, back map[int]*pipe.Room
}

func newExchange() *exchange {
	return &exchange{there: map[int]*pipe.Room{}, back: map[int]*pipe.Room{}}
}

func (e *exchange) room(of map[int]*pipe.Room) func(int) *pipe.Room {
	return func(channel int) *pipe.Room {
		e.mu.Lock()
		defer e.mu.Unlock()
		if of[channel] == nil {
			of[channel] = pipe.NewRoom(wire.PipeRoom)
		}
		return of[channel]
	}
}

func (e *exchange) node() pipe.Carrier { return cable{e.room(e.back), e.room(e.there)} }

func (e *exchange) operator() pipe.Carrier { return cable{e.room(e.there), e.room(e.back)} }

// tunneling is a forwarding with its operator.
type tunneling struct {
	t      *testing.T
	way    *exchange
	main   *pipe.End
	frames *pipe.Frames
	done   chan error
}

func startForward(t *testing.T, p wire.ForwardParams, owner task.Policy) *tunneling {
	t.Helper()
	return startPlaces(t, mostConnections, p, owner)
}

// startPlaces is startForward, and carries so many connections at the same time.
func startPlaces(t *testing.T, places int, p wire.ForwardParams, owner task.Policy) *tunneling {
	t.Helper()
	f := &tunneling{t: t, way: newExchange(), done: make(chan error, 1)}
	f.main = pipe.Open(t.Context(), f.way.operator(), pipe.Main)
	f.frames = pipe.NewFrames(f.main)
	node := pipe.Open(t.Context(), f.way.node(), pipe.Main)
	go func() {
		err := forward(t.Context(), node, pipe.NewFrames(node), func(n int) *pipe.End {
			return pipe.Open(t.Context(), f.way.node(), n)
		}, places, &p, owner)
		_ = node.CloseWrite()
		f.done <- err
	}()
	return f
}

// next gives the next frame, whose kind must be this.
func (f *tunneling) next(kind pipe.FrameKind, into any) {
	f.t.Helper()
	got, data, err := f.frames.Next()
	if err != nil || got != kind || json.Unmarshal(data, into) != nil {
		f.t.Fatalf("%c %s, %v", got, data, err)
	}
}

func (f *tunneling) tell(kind pipe.FrameKind, channel int) {
	f.t.Helper()
	if err := pipe.WriteJSON(f.main, kind, pipe.Dial{Channel: channel}); err != nil {
		f.t.Fatal(err)
	}
}

// dial asks for a connection. It gives the node's error.
func (f *tunneling) dial(channel int) (*pipe.End, string) {
	f.t.Helper()
	f.tell(pipe.FrameDial, channel)
	var said pipe.Dialed
	f.next(pipe.FrameDialed, &said)
	if said.Channel != channel {
		f.t.Errorf("%+v", said)
	}
	return pipe.Open(f.t.Context(), f.way.operator(), channel), said.Error
}

func (f *tunneling) ends() {
	f.t.Helper()
	if err := f.main.CloseWrite(); err != nil {
		f.t.Error(err)
	}
	if err := <-f.done; err != nil {
		f.t.Error(err)
	}
}

// echo is a server that gives everything back, in upper case, and then ends. It gives its port.
func echo(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				all, _ := io.ReadAll(conn)
				_, _ = conn.Write(bytes.ToUpper(all))
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

func TestForward(t *testing.T) {
	f := startForward(t, wire.ForwardParams{Port: echo(t)}, task.Policy{})
	f.next(pipe.FrameReady, &pipe.Ready{})
	var all sync.WaitGroup
	for n := 1; n <= 3; n++ {
		end, refused := f.dial(n)
		if refused != "" {
			t.Fatal(refused)
		}
		all.Go(func() {
			asked := bytes.Repeat([]byte(strconv.Itoa(n)+"x"), 100_000*n)
			if _, err := end.Write(asked); err != nil {
				t.Error(err)
			}
			if err := end.CloseWrite(); err != nil {
				t.Error(err)
			}
			got, err := io.ReadAll(end)
			if err != nil || !bytes.Equal(got, bytes.ToUpper(asked)) {
				t.Errorf("%d: %d bytes of %d, %v", n, len(got), len(asked), err)
			}
		})
	}
	all.Wait()
	f.ends()
}

// TestForwardNobody: what goes wrong with one connection does not end the others.
func TestForwardNobody(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	f := startForward(t, wire.ForwardParams{Port: port}, task.Policy{})
	f.next(pipe.FrameReady, &pipe.Ready{})
	for n := 1; n <= 2; n++ {
		end, refused := f.dial(n)
		if !strings.Contains(refused, "nothing listens on port "+strconv.Itoa(port)) {
			t.Errorf("%q", refused)
		}
		_ = end.CloseWrite()
		if got, err := io.ReadAll(end); err != nil || len(got) > 0 {
			t.Errorf("the channel of no connection has no end: %q, %v", got, err)
		}
	}
	f.ends()
}

// TestForwardMost: there are at most so many at once, and a channel is used once.
func TestForwardMost(t *testing.T) {
	f := startForward(t, wire.ForwardParams{Port: echo(t)}, task.Policy{})
	f.next(pipe.FrameReady, &pipe.Ready{})
	for n := 1; n <= mostConnections; n++ {
		if _, refused := f.dial(n); refused != "" {
			t.Fatal(refused)
		}
	}
	for n := mostConnections + 1; n <= mostConnections+2*mostRefused; n++ {
		end, refused := f.dial(n)
		if !strings.Contains(refused, "connections already") {
			t.Fatalf("%q", refused)
		}
		_ = end.CloseWrite()
		if got, err := io.ReadAll(end); err != nil || len(got) > 0 {
			t.Fatalf("the channel of a refused connection has no end: %q, %v", got, err)
		}
	}
	f.ends() // with all connections open
}

// TestForwardWaits: where few are carried at once the others wait for their turn, and none is refused.
func TestForwardWaits(t *testing.T) {
	f := startPlaces(t, 2, wire.ForwardParams{Port: echo(t)}, task.Policy{})
	f.next(pipe.FrameReady, &pipe.Ready{})
	var ends []*pipe.End
	for n := 1; n <= 2; n++ {
		end, refused := f.dial(n)
		if refused != "" {
			t.Fatal(refused)
		}
		ends = append(ends, end)
	}
	for n := 3; n <= 5; n++ {
		f.tell(pipe.FrameDial, n)
	}
	_ = ends[0].CloseWrite()
	if _, err := io.ReadAll(ends[0]); err != nil {
		t.Error(err)
	}
	var d pipe.Dialed
	if f.next(pipe.FrameDialed, &d); d.Channel < 3 || d.Error != "" {
		t.Errorf("%+v", d)
	}
	f.ends() // while others wait
}

// TestForwardTwice: a channel is used once.
func TestForwardTwice(t *testing.T) {
	f := startForward(t, wire.ForwardParams{Port: echo(t)}, task.Policy{})
	f.next(pipe.FrameReady, &pipe.Ready{})
	if _, refused := f.dial(1); refused != "" {
		t.Fatal(refused)
	}
	f.tell(pipe.FrameDial, 1)
	var refusal *wire.ErrorDetail
	if err := <-f.done; !errors.As(err, &refusal) || !strings.Contains(refusal.Message, "was used already") {
		t.Error(err)
	}
}

// TestForwardShare: the more connections there are, the smaller are the pieces, so that all of them have a bound in memory.
func TestForwardShare(t *testing.T) {
	f := &forwarding{live: map[int]func(){}}
	for n := range mostConnections {
		if share := f.share(); share*max(n, 1) > 32*wire.MaxPiece || share < 16<<10 || n <= 32 && share < wire.MaxPiece {
			t.Fatalf("%d connections have pieces of %d bytes", n, share)
		}
		f.live[n] = func() {}
	}
}

// TestForwardHangUp: a connection whose other side broke is closed, and the program behind it hears that.
func TestForwardHangUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	f := startForward(t, wire.ForwardParams{Port: listener.Addr().(*net.TCPAddr).Port}, task.Policy{})
	f.next(pipe.FrameReady, &pipe.Ready{})
	end, refused := f.dial(1)
	if refused != "" {
		t.Fatal(refused)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f.tell(pipe.FrameHangUp, 7) // of no connection
	f.tell(pipe.FrameHangUp, 1)
	_ = end.CloseWrite()
	for err = nil; err == nil; {
		_, err = conn.Write(make([]byte, 64<<10))
	}
	if _, err := io.Copy(io.Discard, end); err != nil {
		t.Errorf("the channel has no end: %v", err)
	}
	f.ends()
}

func TestForwardUnreadable(t *testing.T) {
	f := startForward(t, wire.ForwardParams{Port: 1}, task.Policy{})
	f.next(pipe.FrameReady, &pipe.Ready{})
	if err := pipe.WriteFrame(f.main, pipe.FrameNotice, []byte("of a later version")); err != nil {
		t.Fatal(err)
	}
	if err := pipe.WriteFrame(f.main, pipe.FrameDial, []byte("{")); err != nil {
		t.Fatal(err)
	}
	var refusal *wire.ErrorDetail
	if err := <-f.done; !errors.As(err, &refusal) || refusal.Code != wire.CodeBadRequest {
		t.Error(err)
	}
}

// TestForwardPolicy: without a word of the owner only the node itself is reached, and a name leads nowhere else.
func TestForwardPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		host  string
		owner task.Policy
		early bool // refused before there is a connection
		want  string
	}{
		"itself":              {"", task.Policy{}, false, ""},
		"itself by name":      {"LOCALHOST", task.Policy{}, false, ""},
		"itself by address":   {"127.0.0.1", task.Policy{}, false, ""},
		"another port":        {"", task.Policy{ForwardPorts: []string{"22"}}, true, "does not allow port"},
		"another address":     {"192.0.2.1", task.Policy{}, true, "does not allow connections to 192.0.2.1"},
		"another name":        {"db.example", task.Policy{}, true, "does not allow connections to"},
		"a name that is free": {"ip6-localhost", task.Policy{ForwardHosts: []string{"ip6-localhost"}}, false, ""},
		"everything":          {"0.0.0.0", task.Policy{ForwardHosts: []string{"10.0.0.0/8"}}, true, "does not allow connections to 0.0.0.0"},
	} {
		p := wire.ForwardParams{Host: c.host, Port: echo(t)}
		var refusal *wire.ErrorDetail
		err := checkForward(&p, c.owner)
		switch {
		case c.early && (!errors.As(err, &refusal) || refusal.Code != wire.CodeTaskForbidden || !strings.Contains(refusal.Message, c.want)):
			t.Errorf("%s: %v", name, err)
		case !c.early && err != nil:
			t.Errorf("%s: %v", name, err)
		}
	}
	owner := task.Policy{ForwardHosts: []string{"10.0.0.0/8"}}
	if err := judge(owner, "192.0.2.1:80"); err == nil {
		t.Error("an address that a name leads to is not judged")
	}
	if err := judge(owner, "no address"); err == nil {
		t.Error("what is no address is not refused")
	}
	if err := errors.Join(judge(owner, "10.1.2.3:80"), judge(owner, "[::1]:80")); err != nil {
		t.Error(err)
	}
	refused, stop := context.WithCancel(t.Context())
	stop()
	if _, err := dialer(&wire.ForwardParams{Host: "10.0.0.1", Port: 1}, owner)(refused); err == nil {
		t.Error("a connection after the end")
	}
}
