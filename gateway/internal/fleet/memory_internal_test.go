package fleet

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/view"
)

// TestLookupBeforeADrop: a lookup that began before a drop of its node, or of all, cannot put back what was dropped. One that began before
// the drop of another node can. The order cannot be forced from outside.
func TestLookupBeforeADrop(t *testing.T) {
	var c identityCache
	c.init()
	id := &Identity{NodeID: "n-1", Fingerprint: "f"}
	_, before := c.lookup("f")
	c.drop("n-1")
	c.keep(id, before)
	got, now := c.lookup("f")
	if got != nil {
		t.Error("what was read before the drop was kept")
	}
	c.keep(id, now)
	if got, _ := c.lookup("f"); got != id {
		t.Error("what was read after the drop was not kept")
	}
	c.dropAll()
	c.keep(id, now)
	got, now = c.lookup("f")
	if got != nil {
		t.Error("what was read before the drop of all was kept")
	}
	c.drop("n-2")
	c.keep(id, now)
	if got, _ := c.lookup("f"); got != id {
		t.Error("the drop of another node was taken for its own")
	}
}

// TestGiveBackBesideANewerBeat: a flush fails while the node reports again, without a reading.
func TestGiveBackBesideANewerBeat(t *testing.T) {
	now := time.Now()
	r := &Fleet{now: func() time.Time { return now }}
	first := view.Sample{NodeID: "n-1", At: now, Counter: 1, Hardware: &wire.Hardware{}}
	r.beats.live = map[string]*live{"n-1": {beat: first, dirty: true}}
	waiting := r.takeDirty(false)
	r.beats.live["n-1"].beat = view.Sample{NodeID: "n-1", At: now, Counter: 2}
	r.beats.live["n-1"].dirty = true
	r.giveBack(waiting)
	again := r.takeDirty(false)
	if len(again) != 1 || again[0].Counter != 2 || again[0].Hardware != first.Hardware {
		t.Errorf("got %+v, want the newer beat with the older reading", again)
	}
	r.beats.live = map[string]*live{}
	r.giveBack(again) // a take-over forgot the node meanwhile
	if len(r.takeDirty(false)) != 0 {
		t.Error("a beat came back that a take-over had dropped")
	}
}
