package transport

import (
	"context"
	"net/http"

	"muster/agent/wire"
)

// FetchTrust fetches the gateway's chain of trust sets from whoever answers: only the signatures in it are worth anything.
// The error is an *Unproven where what came does not look like a gateway's.
func (c *Client) FetchTrust(ctx context.Context) ([]byte, error) {
	defer c.keepHandshake()()
	a, err := c.carry(ctx, func(via Way) (attempt, error) {
		through := c.over(via, anyone)
		defer through.close()
		answer, err := through.exchange(ctx, http.MethodGet, wire.PathTrust, http.Header{}, nil)
		return attempt{Answer: answer}, err
	})
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, a.Unproven()
	}
	return a.Body, nil
}

// keepHandshake has what was found out about the node's own connection outlive a handshake with whoever answers.
func (c *Client) keepHandshake() (restore func()) {
	c.mu.Lock()
	asked, chained := c.asked, c.chained
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		c.asked, c.chained = asked, chained
		c.mu.Unlock()
	}
}
