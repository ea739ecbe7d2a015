package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"muster/agent/internal/task"
	"muster/agent/pipe"
	"muster/agent/wire"
)

const (
	dialTime = 10 * time.Second
	// mostConnections is how many there are at the same time. An operator counts one no more when the node still waits for the last answer.
	mostConnections = wire.MaxChannels
	// mostRefused is how many channels of refused connections wait for their ends at the same time.
	mostRefused = 64
	// mostByCurl is how many are carried at the same time where each request is a process. More wait.
	mostByCurl = 32
)

// forwarding carries connections from the operator to one port.
type forwarding struct {
	main    *pipe.End
	open    func(channel int) *pipe.End
	dial    func(context.Context) (net.Conn, error)
	places  chan struct{} // holds one for each connection that is carried
	refused chan struct{} // holds one for each connection that is refused, until its channel has ended

	writing sync.Mutex // of frames

	mu   sync.Mutex // guards all below
	last int        // channel; each number is used once, and they only rise
	live map[int]func()
}

// checkForward refuses a port, and a host, that the node's owner does not let sessions reach. A host that is only a name is looked up when
// there is a connection.
func checkForward(p *wire.ForwardParams, owner task.Policy) error {
	if err := owner.CheckPort(p.Port); err != nil {
		return err
	}
	address, err := netip.ParseAddr(p.Host)
	switch {
	case ourselves(p.Host), owner.NamesHost(p.Host):
		return nil
	case err == nil:
		return owner.CheckAddress(address)
	case len(owner.ForwardHosts) == 0:
		return wire.Refuse(wire.CodeTaskForbidden, fmt.Sprintf("the policy of this node does not allow connections to %.100q", p.Host),
			"without forward_hosts in "+task.PolicyFile+" only the node itself is reached: its owner adds the name there")
	}
	return nil
}

// ourselves tells that a host is the node itself. What its resolver makes of the name does not count.
func ourselves(host string) bool { return host == "" || strings.EqualFold(host, "localhost") }

// forward carries connections until the operator says that no more will come, or ctx is done.
func forward(ctx context.Context, main *pipe.End, frames *pipe.Frames, open func(channel int) *pipe.End, most int, p *wire.ForwardParams,
	owner task.Policy) error {
	if err := checkForward(p, owner); err != nil {
		return err
	}
	f := &forwarding{
		main: main, open: open, dial: dialer(p, owner), places: make(chan struct{}, most), refused: make(chan struct{}, mostRefused),
		live: map[int]func(){},
	}
	if err := f.tell(pipe.FrameReady, pipe.Ready{}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for {
		kind, data, err := frames.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case kind != pipe.FrameDial && kind != pipe.FrameHangUp:
			continue
		}
		var asked pipe.Dial
		if json.Unmarshal(data, &asked) != nil {
			return wire.Refuse(wire.CodeBadRequest, "a frame about a connection cannot be read", "open the session again")
		}
		if kind == pipe.FrameHangUp {
			f.hangUp(asked.Channel)
			continue
		}
		one, free, err := f.take(ctx, asked.Channel)
		switch {
		case err != nil:
			return err
		case free:
			all.Go(one.carry)
		default:
			select {
			case f.refused <- struct{}{}:
				all.Go(one.refuse)
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// connection is one of a forwarding.
type connection struct {
	*forwarding
	channel int
	all     context.Context // of all connections
	life    context.Context // of the one on the node
	cut     context.CancelFunc
}

// take notes a connection, where there is a free place for it. Its channel must be a new one.
func (f *forwarding) take(ctx context.Context, channel int) (c *connection, free bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if channel <= f.last {
		return nil, false, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("channel %d was used already", channel), "numbers of channels rise")
	}
	f.last = channel
	c = &connection{forwarding: f, channel: channel, all: ctx}
	if len(f.live) >= mostConnections {
		return c, false, nil
	}
	c.life, c.cut = context.WithCancel(ctx)
	f.live[channel] = c.cut
	return c, true, nil
}

// share is how many bytes a piece may have now.
func (f *forwarding) share() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return pipe.Share(len(f.live))
}

// refuse is for a connection without a place.
func (c *connection) refuse() {
	defer func() { <-c.refused }()
	c.fail(fmt.Errorf("there are %d connections already: end one of them", mostConnections))
}

// fail says that there is no connection.
func (c *connection) fail(why error) {
	_ = c.tell(pipe.FrameDialed, pipe.Dialed{Channel: c.channel, Error: why.Error()})
	c.finish()
}

// carry lives as long as the connection does. What goes wrong with it is no matter of the session's.
func (c *connection) carry() {
	defer c.forget()
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-c.life.Done(): // nothing is dialed any more
	}
	conn, err := c.dial(c.life)
	if err != nil {
		c.fail(err)
		return
	}
	stop := context.AfterFunc(c.life, func() { conn.Close() })
	defer stop()
	if c.tell(pipe.FrameDialed, pipe.Dialed{Channel: c.channel}) != nil {
		conn.Close()
		return
	}
	end, free := c.end()
	defer free()
	_ = pipe.Join(conn.(*net.TCPConn), end, func() { _ = c.tell(pipe.FrameHangUp, pipe.Dial{Channel: c.channel}) })
}

// end is this end of the channel. It ends with all others at once, whatever is on its way.
func (c *connection) end() (end *pipe.End, free func() bool) {
	end = c.open(c.channel)
	end.Most = c.share
	return end, context.AfterFunc(c.all, func() { end.Close() })
}

// finish ends a channel that carries nothing, so that its number counts as used. The operator's side does the same.
func (c *connection) finish() {
	end, free := c.end()
	defer free()
	defer end.Close()
	_ = end.CloseWrite()
	_, _ = io.Copy(io.Discard, end)
}

func (c *connection) forget() {
	c.cut()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.live, c.channel)
}

// hangUp ends a connection because the operator's side broke.
func (f *forwarding) hangUp(channel int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cut, there := f.live[channel]; there {
		cut()
	}
}

func (f *forwarding) tell(kind pipe.FrameKind, value any) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	return pipe.WriteJSON(f.main, kind, value)
}

// dialer connects to where the params say. Every address is judged when it is known, so that a name leads nowhere else than its owner's
// policy allows.
func dialer(p *wire.ForwardParams, owner task.Policy) func(context.Context) (net.Conn, error) {
	hosts := []string{p.Host}
	if ourselves(p.Host) {
		hosts = []string{"127.0.0.1", "::1"}
	}
	d := &net.Dialer{Timeout: dialTime}
	if !owner.NamesHost(p.Host) {
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error { return judge(owner, address) }
	}
	return func(ctx context.Context) (conn net.Conn, err error) {
		for _, host := range hosts {
			if conn, err = d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(p.Port))); err == nil {
				return conn, nil
			}
		}
		return nil, explainDial(err, hosts[0], p.Port)
	}
}

func judge(owner task.Policy, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return owner.CheckAddress(at.Addr())
}

// explainDial says what a failed connection means.
func explainDial(err error, host string, port int) error {
	var refusal *wire.ErrorDetail
	var late net.Error
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on port %d there (%s)", port, host)
	case errors.As(err, &late) && late.Timeout():
		return fmt.Errorf("no answer from %s, port %d, within %s", host, port, dialTime)
	}
	return fmt.Errorf("no connection from the node: %w", err)
}
