package limit

import "time"

// atOnce is how many an Allowance lets through at once.
const atOnce = 5

// Allowance bounds what one node can have written, so that a broken node does not fill the log or the disk: some at once, and then one in
// each pause. The zero value is the whole allowance. Its owner guards it with a lock.
type Allowance struct{ full time.Time } // when all are free again

// Take takes one, and reports whether there was one left.
func (a *Allowance) Take(now time.Time, pause time.Duration) bool {
	if left := a.full.Sub(now); left < 0 || left > atOnce*pause { // all are free, or the clock was set back
		a.full = now
	}
	if a.full.Sub(now) > (atOnce-1)*pause {
		return false
	}
	a.full = a.full.Add(pause)
	return true
}
