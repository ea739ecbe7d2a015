package market_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/provider/cloud"
)

// TestConstantMemory: while a new view of an account comes, no more memory is needed beyond the one before than the new one takes, with
// what the database gets of it: about 1,250 bytes a machine were seen, of 5,000 as of twice as
// many: one that needs more for each where there are more is found by that. What belongs to a page is not kept.
func TestConstantMemory(t *testing.T) {
	const most = 1900
	for _, machines := range []int{5_000, 10_000} {
		if got := beyond(t, machines) / machines; got > most {
			t.Errorf("with %d machines a sync needs %d bytes for each, want at most %d", machines, got, most)
		}
	}
}

// beyond is how many bytes a sync needs at most beyond what was in use before it.
func beyond(t *testing.T, machines int) int {
	h := added(t)
	views := 0
	h.cloud.list = func(take func([]cloud.Instance)) error {
		views++
		for n := 0; n < machines; n += 25 {
			take(large(n, views))
		}
		return nil
	}
	h.must(h.Sync(t.Context(), cloud.Vast))
	defer debug.SetGCPercent(debug.SetGCPercent(5)) // so that what is in use is known at each moment
	h.now = h.now.Add(time.Minute)
	runtime.GC()
	before := inUse()
	peak, done := before, make(chan error)
	go func() { done <- h.Sync(t.Context(), cloud.Vast) }()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			h.must(err)
			return peak - before
		case <-ticker.C:
			peak = max(peak, inUse())
		}
	}
}

// large is a page of machines, none of which is as in the view before.
func large(from, view int) []cloud.Instance {
	page := make([]cloud.Instance, 25)
	for i := range page {
		id := fmt.Sprint(40_000_000 + from + i)
		page[i] = machine(id, func(m *cloud.Instance) {
			m.Name, m.Host, m.Region, m.GPU = "muster-"+id, "m"+id, "Sweden, SE", "RTX 4090"
			m.Why = fmt.Sprint("success, running image ", view, strings.Repeat(" of pytorch", 10))
			m.Running, m.Storage = to(2*cloud.Dollar), to(cloud.Dollar/100)
		})
	}
	return page
}

// inUse is what the last collection of garbage found in use, in bytes.
func inUse() int {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}
