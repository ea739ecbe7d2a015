package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"muster/agent/wire"
)

// Register posts a register request. Nothing about the answer is proven yet: the caller checks its Muster-Proof. The error
// wraps ErrUntrusted where the gateway would have to show a certificate and does not; then nothing was sent.
func (c *Client) Register(ctx context.Context, authorization string, body []byte) (Answer, error) {
	if c.cfg.First.NeedTrust && c.base.Scheme != "https" {
		return Answer{}, fmt.Errorf("%w: a pre-shared key proves membership, not the gateway, and plain http shows no certificate: "+
			"use the https address, or join with an enrollment token", ErrUntrusted)
	}
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {authorization}}
	answer, err := c.first.exchange(ctx, http.MethodPost, wire.PathRegister, header, body)
	if errors.Is(err, ErrUntrusted) && c.fetchPinned(ctx) {
		answer, err = c.first.exchange(ctx, http.MethodPost, wire.PathRegister, header, body)
	}
	c.first.close()
	return answer, err
}

// fetchPinned asks anyone for the roots and keeps the one that has the pin: servers need not send theirs in the handshake,
// and the pin alone makes it believable.
func (c *Client) fetchPinned(ctx context.Context) bool {
	pin := c.cfg.First.Pin
	if pin == nil {
		return false
	}
	answer, err := c.anyone.exchange(ctx, http.MethodGet, wire.PathRoots, http.Header{}, nil)
	c.anyone.close()
	if err != nil || answer.Status != http.StatusOK {
		return false
	}
	root := pinnedRoot(answer.Body, *pin)
	c.mu.Lock()
	c.pinned = root
	c.mu.Unlock()
	return root != nil
}
