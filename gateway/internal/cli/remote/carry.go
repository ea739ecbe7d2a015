package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// carrier carries connections over one session.
type carrier struct {
	*passage
	places chan struct{} // holds one for each connection
	done   chan struct{} // closed when the session has ended

	dialing sync.Mutex // numbers rise on the way to the node

	mu    sync.Mutex // guards all below
	last  int
	calls map[int]*call
	why   error // of done
}

// call is one connection.
type call struct {
	answer chan pipe.Dialed
	broke  func()
}

func newCarrier(v *passage) *carrier {
	c := &carrier{passage: v, places: make(chan struct{}, wire.MaxConnections), done: make(chan struct{}), calls: map[int]*call{}}
	go c.listen()
	return c
}

// listen takes what the node says, until the session ends.
func (c *carrier) listen() {
	err := c.hear()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = err
	close(c.done)
}

func (c *carrier) hear() error {
	for {
		kind, data, err := c.attached.Next()
		if err != nil {
			return err
		}
		switch kind {
		case pipe.FrameDialed:
			var d pipe.Dialed
			if json.Unmarshal(data, &d) == nil {
				c.dialed(d)
			}
		case pipe.FrameHangUp:
			var d pipe.Dial
			if json.Unmarshal(data, &d) == nil {
				c.broken(d.Channel)
			}
		case pipe.FrameExit:
			if _, err := c.passage.ended(data); err != nil {
				return err
			}
			return errors.New("the node ended the session")
		}
	}
}

func (c *carrier) dialed(d pipe.Dialed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.calls[d.Channel]; one != nil {
		select {
		case one.answer <- d:
		default: // a second answer means nothing
		}
	}
}

// broken ends a connection because the node's side broke.
func (c *carrier) broken(channel int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.calls[channel]; one != nil {
		one.broke()
	}
}

// breakAll ends all connections. One whose other direction has ended waits for its client alone, and hears of nothing else.
func (c *carrier) breakAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.calls {
		one.broke()
	}
}

// reason is why the session is over.
func (c *carrier) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// connect carries a connection until it ends. The error says that the node has none for it, or that the session is over.
func (c *carrier) connect(ctx context.Context, conn pipe.Conn) error {
	defer conn.Close()
	select {
	case c.places <- struct{}{}:
	case <-c.done:
		return &overError{c.reason()}
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.places }()
	one := &call{answer: make(chan pipe.Dialed, 1), broke: func() { conn.Close() }}
	channel, err := c.dial(one)
	if err != nil {
		return c.cutBy(ctx, err)
	}
	defer c.forget(channel)
	select {
	case d := <-one.answer:
		end := c.attached.Channel(channel)
		end.Most = c.share
		if d.Error != "" {
			conn.Close() // who has it must not wait for the node
			finish(end)
			return &unreachedError{d.Error}
		}
		err := pipe.Join(conn, end, func() { _ = c.attached.SendJSON(pipe.FrameHangUp, pipe.Dial{Channel: channel}) })
		return c.cutBy(ctx, err)
	case <-c.done:
		return &overError{c.reason()}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unreachedError says that the node has no connection to the port, in the node's words.
type unreachedError struct{ why string }

func (e *unreachedError) Error() string { return e.why }

// overError says that a connection ended with its session.
type overError struct{ error }

func (e *overError) Unwrap() error { return e.error }

// cutBy is why a connection ended before its time. Of the end of the session the channel pipe.Main says more.
func (c *carrier) cutBy(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, pipe.ErrLost):
		return &overError{err}
	case !isOver(err):
		return err
	}
	select {
	case <-c.done:
		return &overError{c.reason()}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// share is how many bytes a piece may have now.
func (c *carrier) share() int { return pipe.Share(len(c.places)) }

// finish ends a channel that carries nothing, so that its number counts as used. The node does the same.
func finish(end *pipe.End) {
	_ = end.CloseWrite()
	_, _ = io.Copy(io.Discard, end)
	end.Close()
}

// dial asks the node for a connection.
func (c *carrier) dial(one *call) (channel int, err error) {
	c.dialing.Lock()
	defer c.dialing.Unlock()
	c.mu.Lock()
	c.last++
	channel = c.last
	c.calls[channel] = one
	c.mu.Unlock()
	if err := c.attached.SendJSON(pipe.FrameDial, pipe.Dial{Channel: channel}); err != nil {
		c.forget(channel)
		return 0, err
	}
	return channel, nil
}

func (c *carrier) forget(channel int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, channel)
}
