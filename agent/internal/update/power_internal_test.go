package update

import (
	"testing"

	"muster/agent/disk"
	"muster/agent/disk/disktest"
)

// TestPowerCuts: after a loss of power at any step of an update there is a version to be started, whatever of the rest the disk has kept.
// What follows brings the update to its end. The numbers below which no pointer is obeyed stay.
func TestPowerCuts(t *testing.T) {
	f := newFleet(t)
	for name, crashes := range map[string]bool{"good": false, "crashes": true} {
		t.Run(name, func(t *testing.T) {
			var n *life
			var floor int64
			disktest.CutEverywhere(t, func(m *disktest.Machine) { n = newLifeIn(t, m.Dir, f, crashes) }, func(m *disktest.Machine) {
				alive := true
				steps := disk.Steps(func(s disk.Step) error {
					if m.Steps(s) != nil {
						alive = false
						panic(errKilled)
					}
					return nil
				})
				for turns := 0; alive && turns < 40 && !n.settled(false); turns++ {
					n.turn(steps)
				}
				floor = 0
				if r, err := n.load(); err == nil && alive {
					floor = r.Floors["stable"]
				}
			}, func(dir, happened string) {
				after := *n
				after.t = t
				after.files = newFiles(dir)
				after.runnable(happened)
				if r, err := after.load(); err != nil || r.Floors["stable"] < floor {
					t.Errorf("%s: the floor is %d and was %d, %v", happened, r.Floors["stable"], floor, err)
				}
				for turns := 0; turns < 40 && !after.settled(false); turns++ {
					after.turn(nil)
					after.runnable(happened)
				}
				if !after.settled(false) {
					r, err := after.load()
					t.Errorf("%s: current %.8s, good %.8s, %+v, %v", happened, after.Current(), after.Good(), r, err)
				}
			})
		})
	}
}
