package engine

import (
	"sync"
	"time"
)

// calm is how long writes must succeed before an outage is over. On a disk that is nearly full, a small write succeeds now and then.
const calm = time.Minute

// Outages tells a function about writes that fail because of the machine or of the way to the database.
type Outages struct {
	Now func() time.Time

	mu   sync.Mutex
	tell func(error)
	told map[string]bool // the reasons of this outage; nil: there is none
	last time.Time       // when a write failed
}

// Tell sets the function that is told. It gets an *Outage when writes begin to fail, once for each reason. It gets nil when writes have
// succeeded for a minute. tell must return soon, and must not write to the database.
func (o *Outages) Tell(tell func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tell = tell
}

// Note takes the outcome of one commit: an *Outage, or nil.
func (o *Outages) Note(failed *Outage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if failed == nil && o.told == nil {
		return
	}
	now := o.Now()
	if failed == nil {
		if past := now.Sub(o.last); past >= calm || past < 0 {
			o.told = nil
			o.say(nil)
		}
		return
	}
	o.last = now
	if o.told == nil {
		o.told = map[string]bool{}
	}
	if reason := failed.Error(); !o.told[reason] {
		o.told[reason] = true
		o.say(failed)
	}
}

func (o *Outages) say(err error) {
	if o.tell != nil {
		o.tell(err)
	}
}
