package condition

import "time"

// Verdict is what one look says of one thing.
type Verdict int

// The verdicts.
const (
	Unknown Verdict = iota // it cannot be told: nothing changes
	Bad
	Between // not bad enough to begin, not good enough to end
	Good
)

// Look is what one look at one thing said.
type Look struct {
	Verdict Verdict
	Text    string // of a bad one: one sentence with the value
}

// Known returns a look that found something out for certain.
func Known(isBad bool, text string) Look {
	if isBad {
		return Look{Verdict: Bad, Text: text}
	}
	return Look{Verdict: Good}
}

// Track follows one thing from look to look. The zero value is of a thing that is well.
type Track struct {
	Open  bool
	Since time.Time // when it began to be bad
	Text  string    // of the last bad look

	looks int       // in a row that speak for a change: bad ones where it is closed, good ones where it is open
	began time.Time // the first of these
	last  time.Time // the last look that told anything
}

// See takes a look and reports whether the track opened or closed. Looks that are further apart than gap do not count as looks in a row.
func (t *Track) See(l Look, at time.Time, gap time.Duration, opens, closes Hold) (changed bool) {
	if l.Verdict == Unknown {
		return false
	}
	if at.Sub(t.last) > gap || at.Before(t.last) {
		t.looks = 0
	}
	t.last = at
	if l.Verdict == Bad {
		t.Text = l.Text
	}
	towards, hold := Bad, opens
	if t.Open {
		towards, hold = Good, closes
	}
	if l.Verdict != towards {
		t.looks = 0
		return false
	}
	if t.looks == 0 {
		t.began = at
	}
	t.looks++
	if !t.Open {
		t.Since = t.began
	}
	if t.looks < hold.Looks || at.Sub(t.began) < hold.For {
		return false
	}
	t.Open = !t.Open
	t.looks = 0
	return true
}

// Begin opens the track, whatever the looks said until now.
func (t *Track) Begin() {
	t.Open = true
	t.looks = 0
}

// Idle reports whether the track says nothing that a new one would not say.
func (t *Track) Idle() bool { return !t.Open && t.looks == 0 }

// Closing reports whether the last looks were good, but not for long enough.
func (t *Track) Closing() bool { return t.Open && t.looks > 0 }
