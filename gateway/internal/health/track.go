package health

import "time"

// verdict is what one look says of one thing.
type verdict int

const (
	unknown verdict = iota // it cannot be told
	bad
	between // not bad enough to be found, not good enough to be cured
	good
)

// look is what one look at one thing said.
type look struct {
	verdict verdict
	text    string // of a bad one: one sentence with the value
}

// track follows one thing from look to look.
type track struct {
	open  bool
	since time.Time // of an open one: when it began to be bad
	text  string    // of the last bad look

	looks int       // in a row that speak for a change: bad ones where it is closed, good ones where it is open
	began time.Time // the first of these
	last  time.Time // the last look that told anything
}

// see takes a look and reports whether the track opened or closed. Looks that are further apart than gap are no row.
func (t *track) see(l look, at time.Time, gap time.Duration, r *Rule) (changed bool) {
	if l.verdict == unknown {
		return false
	}
	if at.Sub(t.last) > gap || at.Before(t.last) {
		t.looks = 0
	}
	t.last = at
	if l.verdict == bad {
		t.text = l.text
	}
	towards, hold := bad, r.Found
	if t.open {
		towards, hold = good, r.Cured
	}
	if l.verdict != towards {
		t.looks = 0
		return false
	}
	if t.looks == 0 {
		t.began = at
	}
	t.looks++
	if t.looks < hold.Looks || at.Sub(t.began) < hold.For {
		return false
	}
	t.open = !t.open
	t.looks = 0
	if t.open {
		t.since = t.began
	}
	return true
}

// idle is true where the track says nothing that a new one would not.
func (t *track) idle() bool { return !t.open && t.looks == 0 }
