package sqlite

import (
	"sync/atomic"
	"time"
)

// calm is how long writes must succeed before an outage is over. On a disk that is nearly full, a small write succeeds now and then.
const calm = time.Minute

// outages tells of writes that fail because of the machine. Only the writer calls note.
type outages struct {
	tell atomic.Pointer[func(error)]
	now  func() time.Time
	told map[string]bool // the reasons of this outage; nil: there is none
	last time.Time       // when a write failed
}

// note takes the outcome of one commit: an *Outage, or nil.
func (o *outages) note(failed *Outage) {
	if failed == nil && o.told == nil {
		return
	}
	now := o.now()
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

func (o *outages) say(err error) {
	if tell := o.tell.Load(); tell != nil {
		(*tell)(err)
	}
}

// Outages sets the function that is told about outages. It gets an *Outage when writes begin to fail, once for each reason. It gets
// nil when writes have succeeded for a minute. The writer calls tell, so tell must return soon, and must not write to the database.
func (db *DB) Outages(tell func(error)) { db.write.outages.tell.Store(&tell) }
