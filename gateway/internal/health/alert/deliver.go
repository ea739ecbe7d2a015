package alert

import (
	"context"
	"errors"
	"time"

	"muster/gateway/internal/httpserver/post"
	"muster/store"
)

const (
	firstPause   = 5 * time.Second // after a failure; each further one doubles it
	longestPause = time.Hour       // a receiver may ask for so much
	mostPause    = 10 * time.Minute
	tellAgain    = time.Minute
	mostInBatch  = 100 // alerts in one request, where a receiver takes many
)

// send lets each receiver that is not busy be told of what is due, each in a goroutine of its own: a slow one delays nobody else.
func (d *Service) send(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, batch := range d.due(d.Now()) {
		r := d.receivers[name]
		for _, v := range batch {
			v.busy = true
		}
		r.busy = true
		d.busy.Go(func() { d.serve(ctx, r, batch) })
	}
}

// serve tells one receiver what was due, until it fails. If a receiver takes many alerts at once, it gets them so.
func (d *Service) serve(ctx context.Context, r *receiver, all []*delivery) {
	for len(all) > 0 && d.uses(r) {
		size := 1
		if r.Kind == KindAlertmanager {
			size = min(len(all), mostInBatch)
		}
		batch := all[:size]
		all = all[size:]
		messages := d.messages(batch)
		_, err := d.post(ctx, &r.sealed, messages, d.Now())
		if !d.told(ctx, r, batch, messages, err) {
			break
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range all {
		v.busy = false
	}
	r.busy = false
}

// uses is false for a receiver that was removed or changed meanwhile.
func (d *Service) uses(r *receiver) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.receivers[r.Name] == r
}

// messages are what deliveries say, as it is now.
func (d *Service) messages(batch []*delivery) []message {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]message, 0, len(batch))
	for _, v := range batch {
		all = append(all, d.message(d.alerts[v.Alert], v.Want))
	}
	return all
}

// told notes how a request went, and reports whether the next may follow at once.
func (d *Service) told(ctx context.Context, r *receiver, batch []*delivery, messages []message, err error) (goesOn bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range batch {
		v.busy = false
	}
	if err != nil && ctx.Err() != nil { // the gateway stops: nobody knows what the receiver has heard
		return false
	}
	now := d.Now()
	r.note(err, now, d.Rand())
	for i, v := range batch {
		v.dirty = true
		if err == nil {
			v.Told = messages[i].State
			v.ToldAt = &now
			v.Error = ""
			v.Tries = 0
			continue
		}
		d.failed(r, v, err, now)
	}
	var refused *post.Error
	return err == nil || errors.As(err, &refused) && refused.Refused
}

// failed sets when a delivery is tried again. After a day it is given up.
func (d *Service) failed(r *receiver, v *delivery, err error, now time.Time) {
	v.Tries++
	v.Error = err.Error()
	v.NextAt = now.Add(pause(v.Tries, d.Rand()))
	if v.Told == v.Want || now.Sub(v.Since) < giveUp {
		return
	}
	v.GaveUp = true
	a := d.alerts[v.Alert]
	if a == nil {
		return
	}
	d.events = append(d.events, store.Event{At: now, Kind: "alert.given_up", Actor: "gateway", NodeID: a.NodeID, NodeName: a.NodeName,
		Tenant: a.Tenant, Outcome: store.OutcomeNone,
		Detail: map[string]string{"alert": a.ID, "cause": a.Cause, "receiver": r.Name, "state": v.Want, "error": v.Error}})
}

// pause is how long to wait after so many failures in a row.
func pause(tries int, chance float64) time.Duration {
	return post.Pause(firstPause, mostPause, tries-1, chance)
}

// rests is true while a receiver that failed as a whole is left alone.
func (r *receiver) rests(now time.Time) bool {
	return now.Before(r.until) && r.until.Sub(now) <= longestPause // a clock that was set back holds nothing up
}

// note keeps how the last request to a receiver went. One that cannot be reached is left alone for a while, with all that it is to hear.
func (r *receiver) note(err error, now time.Time, chance float64) {
	r.dirty = true
	if err == nil {
		r.contact.SentAt = &now
		r.contact.Error = ""
		r.fails = 0
		return
	}
	r.contact.FailedAt = &now
	r.contact.Error = err.Error()
	var refused *post.Error
	if errors.As(err, &refused) && refused.Refused {
		return
	}
	r.fails++
	wait := pause(r.fails, chance)
	if refused != nil && refused.After > 0 {
		wait = min(refused.After, longestPause)
	}
	r.until = now.Add(wait)
}
