package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"net/url"
	"slices"

	"muster/agent/wire"
)

// endpoint is one gateway, and what carries requests to it. Several gateways may lead to the same one: what a node learns at one endpoint
// is true at the others too, but for what their connections prove.
type endpoint struct {
	base   *url.URL
	direct [roles]exchanger // strict and lenient only with an identity
	curl   [roles]exchanger

	// Under the client's lock:
	asked   bool // the last handshake asked for a client certificate
	chained bool // the last handshake chained to muster's root
	mutual  bool // the client certificate is proof enough, so requests go unsigned
}

// newEndpoint makes an endpoint for an identity's tenure; nil: there is no identity. It connects to nothing yet.
func (c *Client) newEndpoint(base *url.URL, t *tenure) *endpoint {
	d := &endpoint{base: base}
	for r := range roles {
		d.curl[r] = &curl{client: c, endpoint: d, role: r}
	}
	d.direct[first] = newDirect(c, d, nil, c.verifyFirst)
	d.direct[anyone] = newDirect(c, d, nil, func([]*x509.Certificate) (bool, error) { return false, nil })
	if t != nil {
		d.direct[strict] = newDirect(c, d, t, c.verifyNode(base.Hostname(), t.identity, false))
		d.direct[lenient] = newDirect(c, d, t, c.verifyNode(base.Hostname(), t.identity, true))
	}
	return d
}

// over is the exchanger of a role on a way.
func (d *endpoint) over(via Way, r role) exchanger {
	if via == Curl {
		return d.curl[r]
	}
	return d.direct[r]
}

// close closes the connections that nobody uses.
func (d *endpoint) close() {
	for _, e := range d.direct {
		if e != nil {
			e.close()
		}
	}
}

// at is the endpoint in use for a tenure; nil: for calls before there is one.
func (c *Client) at(t *tenure) *endpoint {
	if t == nil {
		return c.endpoint
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return t.endpoint
}

func (c *Client) isMutual(d *endpoint) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return d.mutual
}

// setMutual says whether requests go unsigned. They do so only on a connection that asked for the certificate and chains to muster's root.
func (c *Client) setMutual(d *endpoint, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.mutual = on && d.asked && d.chained
}

// Follow takes over the URLs of all gateways from an answer whose proof the caller has checked. The gateway in use stays, until it cannot
// be reached.
func (c *Client) Follow(gateways []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follow(gateways)
}

// follow is Follow under the lock. An agent that joined without TLS keeps to its URL: who joins so has a tunnel or a proxy, which the
// others are not behind.
func (c *Client) follow(gateways []string) {
	c.others = nil
	if c.base.Scheme == "https" {
		c.others = wire.Gateways(gateways)
	}
}

// Through returns the URL of the gateway in use, if it is another one than Gateway.
func (c *Client) Through() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tenure == nil || c.tenure.endpoint.base.String() == c.base.String() {
		return ""
	}
	return c.tenure.endpoint.base.String()
}

// begin is where the tenure of an identity begins: where the one before was, and at first where the node was heard last. The caller holds
// the lock.
func (c *Client) begin(id Identity) *url.URL {
	if c.tenure != nil {
		return c.tenure.endpoint.base
	}
	if slices.Contains(c.others, id.Last) && id.Home == c.base.String() {
		if u, err := url.Parse(id.Last); err == nil {
			return u
		}
	}
	return c.base
}

// ErrSilent is the cause with which a caller ends a call that took too long: see context.WithTimeoutCause. It counts as an answer that did
// not come.
var ErrSilent = errors.New("no answer in the time that there was for it")

// unreached reports whether an error means that the gateway was not reached, or that its answer broke off.
func unreached(ctx context.Context, err error) bool {
	switch {
	case err == nil, errors.Is(err, errKeep), errors.Is(err, errTooLarge), errors.Is(err, ErrIdentityChanged):
		return false
	}
	return ctx.Err() == nil || errors.Is(context.Cause(ctx), ErrSilent)
}

// move goes on to the next gateway after one that was not reached, unless another call has done so. The URL that the client was made for
// is the first of them. Calls that are still under way at the one before may end there.
func (c *Client) move(t *tenure, from *endpoint, why error) {
	c.mu.Lock()
	if t == nil || t.endpoint != from {
		c.mu.Unlock()
		return
	}
	own := c.base.String()
	all := append([]string{own}, slices.DeleteFunc(slices.Clone(c.others), func(u string) bool { return u == own })...)
	next, err := url.Parse(all[(slices.Index(all, from.base.String())+1)%len(all)])
	if err != nil || *next == *from.base {
		c.mu.Unlock()
		return
	}
	t.endpoint = c.newEndpoint(next, t)
	c.mu.Unlock()
	from.close()
	c.cfg.Logger.Info("a gateway was not reached: trying the next one", "host", from.base.Host, "next", next.Host, "error", why)
}
