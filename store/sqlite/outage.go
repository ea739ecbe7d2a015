package sqlite

import (
	"sync/atomic"
	"time"
)

// calm is how long writes must have succeeded before an outage is over: on a disk that is nearly full a small one fits now and then.
const calm = time.Minute

// outages tells of writes that fail for reasons below the database. note is for the writer alone.
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

// Outages has tell called with an *Outage for each reason for which writes begin to fail, once however many fail, and with nil when
// they have succeeded for a minute. tell must return soon and not write to the database.
func (db *DB) Outages(tell func(error)) { db.write.outages.tell.Store(&tell) }
