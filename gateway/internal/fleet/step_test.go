package fleet_test

import (
	"testing"
	"time"

	"muster/agent/wire"
)

// TestDeadAfterAStep: a node that falls silent while the clock is set turns stale three intervals later by the time that passes, and one
// that goes on stays online.
func TestDeadAfterAStep(t *testing.T) {
	for _, by := range []time.Duration{20 * time.Second, 3 * time.Minute, time.Hour, 10 * year, -3 * time.Minute, -time.Hour} {
		f := newTide(t, true)
		dead := f.enrolled("dead")
		alive := f.enrolled("alive")
		f.pass(20 * time.Minute)
		f.tell(dead, "D", 1)
		for i := range uint64(14) {
			if f.tell(alive, "A", i+1); i == 1 {
				f.set(by)
			}
			f.flush()
			f.pass(15 * time.Second)
			silent := time.Duration(i+1) * 15 * time.Second
			want := wire.StatusOnline
			if silent > 3*pace {
				want = wire.StatusStale
			}
			if got := []string{f.seen("dead").Status, f.seen("alive").Status}; got[0] != want || got[1] != wire.StatusOnline {
				t.Errorf("a step of %s, silent for %s: got %v, want %s", by, silent, got, want)
			}
		}
	}
}
