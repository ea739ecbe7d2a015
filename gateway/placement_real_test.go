//go:build real

package main

import (
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
)

// TestPlacementBlocked: what cannot be cleaned is blocked with the reason and what to do, stays so over a kill of the gateway, is given to
// nobody, and is free some time after it is clean. The agent waits a minute before it says so, and the gateway two before it asks again.
func TestPlacementBlocked(t *testing.T) {
	t.Parallel()
	l := newRented(t)
	l.approve()
	a := l.create("--count", "8")
	l.set("used=39233")
	l.muster("alloc", "release", a.ID)
	l.within(3*time.Minute, "the slots are blocked", func() bool { return l.states()[api.SlotBlocked] == 9 })
	for _, one := range l.slots() {
		if !strings.Contains(one.Reason, "39233 MiB of its memory are in use") || !strings.Contains(one.Next, "--gpu-reset") {
			t.Errorf("blocked: %+v", one)
		}
	}
	l.gateway.kill()
	l.open()
	l.until("the node is heard again, and blocked", func() bool {
		return strings.Contains(l.muster("node", "ls", "-o", "wide"), api.CapacityBlocked)
	})
	l.refused("taken", "alloc", "create", "--gpu", "h100")
	l.set("")
	l.within(4*time.Minute, "the GPUs are free", func() bool { return l.show(a.ID).State == api.AllocationReleased })
	l.create("--count", "8")
}
