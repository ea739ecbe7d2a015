package update

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/disk/disktest"
	"muster/agent/wire"
)

// guarded is what a guard decides now.
func (n *node) guarded() Verdict {
	at := time.Now()
	return Settle(n.t.Context(), Settling{Base: n.Base, Running: true, clock: func() (string, int64) { return "one", at.UnixMilli() },
		Call: func(context.Context) error { return nil }})
}

// TestProvenWithoutRoom: a version that has proven itself, and cannot write that down, stays, says so, and writes it as soon as it can. The
// guard leaves it alone meanwhile, and no longer.
func TestProvenWithoutRoom(t *testing.T) {
	for _, fault := range []syscall.Errno{syscall.ENOSPC, syscall.EROFS} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.run(time.Hour)
			n.settle()
			began := time.Now()
			room := began.Add(10 * time.Minute)
			n.steps = disktest.Named(func(step string) error {
				if time.Now().Before(room) && (fault == syscall.EROFS || fullDisk(step) != nil) {
					return fault
				}
				return nil
			})
			go func() { // the guard, from the end of the trial on
				time.Sleep(wire.TrialTime + 3*time.Second)
				for ; time.Now().Before(room.Add(-time.Second)); time.Sleep(5 * time.Second) {
					if v := n.guarded(); v.Decision != GoOn || n.Current() == n.old {
						t.Errorf("%v: after %v the guard says %+v", fault, time.Since(began), v)
						return
					}
					if n.Good() != n.old {
						t.Error("it was written")
						return
					}
					if said := n.notices.get(); len(said) != 1 || !strings.Contains(said[0], "cannot be written down") {
						t.Errorf("%v: after %v the notices are %q", fault, time.Since(began), said)
						return
					}
				}
			}()
			if err := n.run(11 * time.Minute); err != nil {
				t.Errorf("%v: %v", fault, err)
			}
			if n.Good() != hexOf(n.layer) || len(n.notices.get()) > 0 {
				t.Errorf("%v: good %.8s, notices %q, said %q", fault, n.Good(), n.notices.get(), n.said)
			}
			if r, err := n.load(); err != nil || r.Last.Phase != wire.UpdateCommitted {
				t.Errorf("%v: %+v, %v", fault, r.Last, err)
			}
		})
	}
}

// TestProvenEnds: the lock says no more than that this process lives.
func TestProvenEnds(t *testing.T) {
	p := newPlace(t)
	p.settle()
	p.up()
	s := p.settling()
	s.Running = true
	u := New(Config{Folder: p.Base, State: newFleet(t).state(), Digest: digestPrefix + p.new})
	p.at += wire.TrialTime
	u.showProven()
	u.showProven()
	if v := Settle(t.Context(), s); v.Decision != GoOn || p.Current() != p.new {
		t.Errorf("with the lock: %+v", v)
	}
	u.hideProven()
	u.hideProven()
	if v := Settle(t.Context(), s); v.Decision != GoBack || v.Code != wire.UpdateHung {
		t.Errorf("without the lock: %+v", v)
	}
	if err := os.RemoveAll(p.Base + "/versions"); err != nil {
		t.Fatal(err)
	}
	u.showProven()
	if u.shown != nil || (&settling{files: p.files, record: Record{Last: Last{To: p.new}}}).showsProven() {
		t.Error("a version that is gone shows something")
	}
}
