package transport

import (
	"context"
	"net/http"

	"muster/agent/wire"
)

// mostTrust is the largest chain of trust sets in bytes. A set has 2 to 3 KiB, and a gateway adds one per rotation.
const mostTrust = 8 << 20

// FetchTrust fetches the gateway's chain of trust sets. Anybody may have answered: only the signatures in the chain prove anything. The
// error is an *Unproven if the answer does not look like a gateway's.
func (c *Client) FetchTrust(ctx context.Context) ([]byte, error) {
	a, err := c.carry(ctx, c.current(), func(d *endpoint, via Way) (attempt, error) {
		through := d.over(via, anyone)
		defer through.close()
		answer, err := through.exchange(ctx, c.outgoing(Request{Path: wire.PathTrust, Most: mostTrust}))
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
