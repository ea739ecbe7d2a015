package session

import (
	"context"
	"sync"
	"time"

	"muster/agent/wire"
)

// clock ends a session that is idle for too long, or that lasts too long.
type clock struct {
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	idle  *time.Timer // nil: no bound
	limit *time.Timer
	rest  time.Duration // that the session may be idle
}

func newClock(cancel context.CancelCauseFunc) *clock { return &clock{cancel: cancel} }

// start counts from now on. A bound of 0 is none: the gateway's own count then.
func (c *clock) start(b wire.SessionBounds) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.IdleSeconds > 0 {
		c.rest = time.Duration(b.IdleSeconds) * time.Second
		c.idle = time.AfterFunc(c.rest, func() { c.cancel(errIdle) })
	}
	limit := wire.MaxSession
	if b.LimitSeconds > 0 {
		limit = time.Duration(b.LimitSeconds) * time.Second
	}
	c.limit = time.AfterFunc(limit, func() { c.cancel(errLimit) })
}

// touch says that the session is in use.
func (c *clock) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil && c.idle.Stop() {
		c.idle.Reset(c.rest)
	}
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		c.idle.Stop()
	}
	if c.limit != nil {
		c.limit.Stop()
	}
}
