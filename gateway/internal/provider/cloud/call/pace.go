package call

import (
	"context"
	"sync"
	"time"
)

// pace keeps the least time between calls of one class. Each call takes the next free moment, and waits for it.
type pace struct {
	every map[string]time.Duration
	now   func() time.Time
	sleep func(context.Context, time.Duration) error

	mu   sync.Mutex
	free map[string]time.Time // when the next call of a class may go
}

// wait waits until a call may go.
func (p *pace) wait(ctx context.Context, class string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d := p.take(class); d > 0 {
		return p.sleep(ctx, d)
	}
	return nil
}

// take takes the next free moment, and says how far it is.
func (p *pace) take(class string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	at := p.free[class]
	if at.Before(now) {
		at = now
	}
	p.set(class, at.Add(p.every[class]))
	return at.Sub(now)
}

// hold has no call of a class go for a time.
func (p *pace) hold(class string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := p.now().Add(d); until.After(p.free[class]) {
		p.set(class, until)
	}
}

func (p *pace) set(class string, at time.Time) {
	if p.free == nil {
		p.free = map[string]time.Time{}
	}
	p.free[class] = at
}

// sleep waits, and ends with ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
