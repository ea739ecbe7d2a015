package transport

import (
	"time"

	"muster/agent/wire"
)

// Local returns the time by this machine's clock.
func (c *Client) Local() time.Time { return c.cfg.Now() }

// Now returns the time by the gateway's clock, as far as it was proven, else by this machine's.
func (c *Client) Now() time.Time { return c.cfg.Now().Add(c.Offset()) }

// Offset returns the gateway's clock minus this machine's: zero until a proven answer said otherwise.
func (c *Client) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

// LearnTime takes over the gateway's time from an answer whose proof the caller has checked. A time that no clock can have is ignored.
func (c *Client) LearnTime(t time.Time) {
	if t.Year() < 2000 || t.Year() > 9000 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = t.Sub(c.cfg.Now())
}

// LearnEpoch takes over the gateway's epoch from an answer whose proof the caller has checked. A wrong epoch only costs one more round
// trip.
func (c *Client) LearnEpoch(epoch string) {
	if epoch == "" || len(epoch) > wire.MaxEpoch {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch = epoch
}
