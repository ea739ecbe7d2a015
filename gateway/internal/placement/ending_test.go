package placement

import (
	"testing"
	"time"

	"muster/gateway/api"
)

// TestEndsSoonSince: an allocation ends soon since a quarter of an hour before its end, or since it began.
func TestEndsSoonSince(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	long, err := w.ask(ada, api.NewAllocation{TTLSeconds: 3600})
	w.must(err)
	w.pass(46 * time.Minute)
	short, err := w.ask(ada, api.NewAllocation{TTLSeconds: 600})
	w.must(err)
	since := map[string]time.Time{}
	for _, h := range w.Ending() {
		since[h.Allocation] = h.Since
	}
	if len(since) != 2 || !since[long.ID].Equal(start.Add(45*time.Minute)) || !since[short.ID].Equal(w.clock()) {
		t.Errorf("they end soon since %v", since)
	}
}
