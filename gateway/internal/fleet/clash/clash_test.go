package clash_test

import (
	"fmt"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet/clash"
	"muster/store"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// hear plays one heartbeat that arrives so long after start.
func hear(b *clash.Runs, run string, counter uint64, after time.Duration) (overtaken bool, clashing *store.Run) {
	at := start.Add(after)
	beat := &wire.HeartbeatRequest{RunID: run, Counter: counter}
	return b.Hear(beat, "f-"+run, clash.Proof{At: at}, clash.Moment{Now: at, Up: after})
}

// TestHear: an agent that starts again ends its earlier run. Two that go on beside one another clash.
func TestHear(t *testing.T) {
	var b clash.Runs
	for i := range 3 {
		if overtaken, other := hear(&b, "a", uint64(i+1), time.Duration(i)*time.Minute); overtaken || other != nil {
			t.Fatalf("heartbeat %d of one run: overtaken %v, clashes with %v", i, overtaken, other)
		}
	}
	if overtaken, _ := hear(&b, "a", 2, 3*time.Minute); !overtaken {
		t.Error("a heartbeat with an older counter is not overtaken")
	}
	if _, other := hear(&b, "b", 1, 4*time.Minute); other != nil {
		t.Errorf("a start clashes with %+v", other)
	}
	hear(&b, "b", 2, 5*time.Minute)
	if _, other := hear(&b, "a", 4, 9*time.Minute); other == nil || other.ID != "b" || other.Fingerprint != "f-b" {
		t.Errorf("the earlier run lives on: it clashes with %+v, want b", other)
	}
	if rows := b.Rows(); len(rows) != 2 || rows[0].ID != "a" {
		t.Errorf("rows %+v, want the one first that was heard last", rows)
	}
}

// TestUnsaved: a run is written when it begins and when it ends, and again where that write failed.
func TestUnsaved(t *testing.T) {
	var b clash.Runs
	hear(&b, "a", 1, 0)
	first := b.TakeUnsaved()
	if len(first) != 1 || len(b.TakeUnsaved()) != 0 {
		t.Errorf("unsaved at first: %+v", first)
	}
	b.Resave(append(first, store.Run{ID: "forgotten"}))
	if again := b.TakeUnsaved(); len(again) != 1 || again[0].ID != "a" {
		t.Errorf("unsaved after a write that failed: %+v", again)
	}
	hear(&b, "b", 1, time.Second)
	if both := b.TakeUnsaved(); len(both) != 2 {
		t.Errorf("unsaved when another run begins: %+v", both)
	}
}

// TestBounds: the run that was silent longest makes room.
func TestBounds(t *testing.T) {
	var b clash.Runs
	for i := range store.MaxRuns + 3 {
		hear(&b, fmt.Sprintf("run%d", i), 1, time.Duration(i)*time.Minute)
	}
	rows := b.Rows()
	if len(rows) != store.MaxRuns || rows[len(rows)-1].ID != "run3" {
		t.Errorf("%d runs, the oldest %s", len(rows), rows[len(rows)-1].ID)
	}
}

// TestRead: a book goes on where the database left it, with the times set back where the clock was.
func TestRead(t *testing.T) {
	var b clash.Runs
	hear(&b, "a", 1, 0)
	seen := start.Add(time.Hour)
	again := clash.Read(store.Node{RunID: "a", Counter: 9, LastSeen: &seen}, b.Rows(), time.Second)
	row := again.Rows()[0]
	if row.Counter != 9 || !row.Last.Equal(seen) || row.LastBeat != 3 {
		t.Errorf("read %+v, want the counter and the time of the node's own row", row)
	}
	again.SetBack(start.Add(time.Minute), time.Hour)
	if row = again.Rows()[0]; !row.Last.Equal(start) || !row.First.Equal(start) {
		t.Errorf("set back by an hour: %+v", row)
	}
}
