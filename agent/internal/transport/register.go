package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"muster/agent/sign"
	"muster/agent/wire"
)

// Register posts a register request. A machine that is a node already signs it too, with that node's key; own is nil for others. Nothing of
// the answer is proven yet: the caller checks its Muster-Proof. The error wraps ErrUntrusted if the gateway must show a trusted certificate
// and does not. Then nothing was sent.
func (c *Client) Register(ctx context.Context, authorization string, own *sign.Signer, body []byte) (Answer, error) {
	if c.cfg.First.NeedTrust && c.base.Scheme != "https" {
		return Answer{}, fmt.Errorf("%w: every node has a pre-shared key, so that it does not prove the gateway, and plain http shows no "+
			"certificate: use the https address, or join with an enrollment token", ErrUntrusted)
	}
	send := func(d *endpoint, via Way) (attempt, error) {
		o := c.outgoing(Request{Path: wire.PathRegister, Kind: kindJSON, Body: body})
		o.header.Set("Authorization", authorization)
		if own != nil {
			if _, err := c.signInto(o, *own); err != nil {
				return attempt{}, err
			}
		}
		answer, err := d.over(via, first).exchange(ctx, o)
		return attempt{Answer: answer}, err
	}
	a, err := c.carry(ctx, nil, func(d *endpoint, via Way) (attempt, error) {
		a, err := send(d, via)
		// The chain may lack the pinned root: fetch the roots, and try once more.
		if errors.Is(err, ErrUntrusted) && c.fetchPinned(ctx, via) {
			a, err = send(d, via)
		}
		d.over(via, first).close()
		return a, err
	})
	return a.Answer, err
}

// fetchPinned fetches the gateway's roots and keeps those that have a pin. It is needed because a server may leave its root out of the
// handshake. Anybody may answer: the pin proves the root.
func (c *Client) fetchPinned(ctx context.Context, via Way) bool {
	if c.cfg.First.Pins == nil {
		return false
	}
	through := c.endpoint.over(via, anyone)
	answer, err := through.exchange(ctx, c.get(wire.PathRoots))
	through.close()
	if err != nil || answer.Status != http.StatusOK {
		return false
	}
	stranger := func(root *x509.Certificate) bool { return !c.cfg.First.Pins.Fits(root) }
	roots := slices.DeleteFunc(certificatesIn(answer.Body), stranger)
	c.mu.Lock()
	c.pinned = roots
	c.mu.Unlock()
	return len(roots) > 0
}
