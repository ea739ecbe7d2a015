package transport

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// ErrIdentityChanged is wrapped by the error of a call that was cut because the node got another identity. Its owner makes the
// call again: it goes out under the new one.
var ErrIdentityChanged = errors.New("the node's identity changed during this call")

const (
	drainTime = 5 * time.Second // for calls that run when the identity changes, until they are cut
	cutTime   = 3 * time.Second // for calls that were cut, until Use stops waiting for them; curl needs pipeGrace
)

// tenure is the time in which one identity is in use, with the calls and connections that belong to it. Once a renewed certificate has
// been used, the gateway takes a request under the one before for that of a copied node. So no connection outlives its tenure, and no
// call runs in two of them.
type tenure struct {
	identity Identity
	lines    lines
	life     context.Context // done when the calls are cut
	cut      context.CancelFunc

	// Under the client's lock:
	calls    int
	drained  chan struct{} // closed when the last call has left; nil: nobody waits for that
	endpoint *endpoint     // in use
}

func (c *Client) newTenure(id Identity, to *url.URL) *tenure {
	t := &tenure{identity: id}
	t.life, t.cut = context.WithCancel(context.Background())
	t.endpoint = c.newEndpoint(to, t)
	return t
}

// Use makes the client speak for an identity from now on. Calls that run under the previous identity may end within drainTime, or a tenth
// of the time that the next certificate has left. Then they are cut, with ErrIdentityChanged. New calls wait meanwhile. When Use returns,
// nothing more is sent under the previous identity, and its connections are closed.
func (c *Client) Use(id Identity) {
	c.using.Lock()
	defer c.using.Unlock()
	next := make(chan struct{})
	c.mu.Lock()
	old := c.tenure
	c.changing = next
	c.mu.Unlock()
	if old != nil { // a short-lived certificate must not spend its life on draining
		left := id.Certificate.Leaf.NotAfter.Sub(c.Now())
		c.end(old, min(drainTime, left/10))
	}
	c.mu.Lock()
	c.follow(id.Gateways)
	c.tenure = c.newTenure(id, c.begin(id))
	c.changing = nil
	c.mu.Unlock()
	close(next)
}

// end closes a tenure that no call can enter any more.
func (c *Client) end(t *tenure, drain time.Duration) {
	drained := make(chan struct{})
	c.mu.Lock()
	t.drained = drained
	if t.calls == 0 {
		close(drained)
	}
	c.mu.Unlock()
	if !within(drained, drain) {
		c.cfg.Logger.Info("calls under the identity before are cut: they begin anew under the new one", "host", c.at(t).base.Host)
	}
	t.cut()
	c.at(t).close()
	t.lines.cut()
	within(drained, cutTime) // a curl is killed by another goroutine
}

// within reports whether done is closed in time.
func within(done <-chan struct{}, limit time.Duration) bool {
	select {
	case <-done:
		return true
	default: // also if there is no time left
	}
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// enter makes a call part of the tenure of the identity in use. While the identity changes, the call waits. The caller calls leave.
func (c *Client) enter(ctx context.Context) (*tenure, error) {
	for {
		c.mu.Lock()
		t := c.tenure
		changing := c.changing
		if changing == nil && t != nil {
			t.calls++
		}
		c.mu.Unlock()
		switch {
		case changing == nil && t == nil:
			return nil, fmt.Errorf("speak to %s as a node: no identity yet", c.base.Host)
		case changing == nil:
			return t, nil
		}
		select {
		case <-changing:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// leave ends a call. The last one lets end go on.
func (c *Client) leave(t *tenure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.calls--
	if t.calls == 0 && t.drained != nil {
		close(t.drained)
	}
}
