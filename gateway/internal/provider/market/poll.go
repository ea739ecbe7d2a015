package market

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"muster/gateway/internal/provider/cloud"
	"muster/store"
)

const (
	longestPause = 10 * time.Minute // between two tries
	longestRead  = 10 * time.Minute // of all pages
	jitter       = 0.2              // of a pause, either way
)

// Run looks at all accounts until ctx ends.
func (d *Service) Run(ctx context.Context) error {
	defer d.end()
	for {
		d.start(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-d.changed:
		}
	}
}

// start polls each account that nobody polls.
func (d *Service) start(ctx context.Context) {
	d.changing.Lock()
	defer d.changing.Unlock()
	for _, a := range d.accounts {
		if a.stop != nil {
			continue
		}
		own, cancel := context.WithCancel(ctx)
		a.stop = cancel
		a.done = make(chan struct{})
		go func() {
			defer close(a.done)
			d.poll(own, a)
		}()
	}
}

// end waits for the pollers.
func (d *Service) end() {
	d.changing.Lock()
	defer d.changing.Unlock()
	for _, a := range d.accounts {
		if a.stop != nil {
			a.stop()
			<-a.done
		}
	}
}

// poll looks at one account again and again. The first look is not at once for all accounts.
func (d *Service) poll(ctx context.Context, a *account) {
	pause := time.Duration(d.Rand() * float64(time.Second))
	for {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.wake:
			timer.Stop()
		case <-timer.C:
		}
		_ = d.view(ctx, a) // it is on record
		pause = d.pause(a)
	}
}

// pause is how long nobody asks: longer with each failure in a row, and as long as the company wants.
func (d *Service) pause(a *account) time.Duration {
	d.mu.RLock()
	defer d.mu.RUnlock()
	grown := time.Duration(min(float64(d.Every)*math.Pow(2, float64(a.fails)), float64(longestPause)))
	some := 1 - jitter + 2*jitter*d.Rand()
	return max(time.Duration(float64(grown)*some), min(a.again, longestPause))
}

// Soon asks for a look at an account, and does not wait for it. A company that does not answer well keeps its pause.
func (d *Service) Soon(name string) {
	a := d.find(name)
	if a == nil {
		return
	}
	d.mu.RLock()
	fails := a.fails
	d.mu.RUnlock()
	if fails == 0 {
		a.nudge()
	}
}

// nudge has an account looked at soon.
func (a *account) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Sync looks at an account at once, and waits for the view.
func (d *Service) Sync(ctx context.Context, name string) error {
	a := d.find(name)
	if a == nil {
		return noAccount(name)
	}
	return d.view(ctx, a)
}

// view takes a complete view of an account, or says on record why there is none.
func (d *Service) view(ctx context.Context, a *account) error {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-a.turn }()
	c, err := d.Cloud(a.Name)
	if err != nil {
		return err
	}
	began := d.Now()
	limited, cancel := context.WithTimeout(ctx, longestRead)
	defer cancel()
	all, err := read(limited, c)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return d.failed(ctx, a, fmt.Errorf("all pages took longer than %s", longestRead))
	case err != nil:
		return d.failed(ctx, a, err)
	}
	if err := d.took(ctx, a, c, began, all); err != nil {
		if ctx.Err() == nil {
			d.Logger.Error("what an account has is not written", "account", a.Name, "error", err)
		}
		return err
	}
	d.Changed()
	return nil
}

// failed notes that there is no view. The first failure in a row is an event.
func (d *Service) failed(ctx context.Context, a *account, err error) error {
	now := d.Now()
	d.mu.Lock()
	text := plain(err, a.key)
	isFirst := a.FailedAt == nil
	if isFirst {
		a.FailedAt = &now
	}
	since := *a.FailedAt
	a.Error = text
	a.fails++
	said := &cloud.Error{Kind: cloud.Unclear, Text: text}
	if was := new(cloud.Error); errors.As(err, &was) {
		said = &cloud.Error{Kind: was.Kind, Status: was.Status, Text: plain(errors.New(was.Text), a.key), Again: was.Again}
	}
	a.again = said.Again
	d.mu.Unlock()
	var events []store.Event
	if isFirst {
		d.Logger.Warn("a provider does not show its instances", "account", a.Name, "error", text)
		e := d.event("provider.failed", a, store.Actor{Name: "gateway"}, map[string]string{"error": text})
		e.Security, e.Outcome = false, "failed"
		events = append(events, e)
	}
	if err := d.Records.Failed(ctx, a.Name, since, text, events...); err != nil && ctx.Err() == nil {
		d.Logger.Error("a failure of a provider is not written", "account", a.Name, "error", err)
	}
	d.Changed()
	return said
}
