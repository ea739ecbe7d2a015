package history_test

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"muster/gateway/internal/view"
	store "muster/store/history"
)

func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkHour keeps an hour of 500 nodes with 8 GPUs and rolls it up. It tells how much of a core 10,000 nodes would take.
func BenchmarkHour(b *testing.B) {
	const nodes = 500
	for range b.N {
		d := newStore(b, 4*gib)
		round := make([]view.Sample, nodes)
		for i := range round {
			round[i] = d.beat(fmt.Sprint("n-", i), 8)
		}
		before := processorTime(b)
		for d.now.Before(noon().Add(time.Hour)) {
			for i := range round {
				round[i].At = d.now
				*round[i].Hardware.Probe.SampledAt = d.now
				for g := range round[i].Hardware.GPUs {
					*round[i].Hardware.GPUs[g].PowerWatts += float64((i+g)%7) - 3
				}
			}
			d.Take(b.Context(), round)
			for range 6 {
				d.Turn(b.Context())
				d.now = d.now.Add(5 * time.Second)
			}
		}
		for range 40 { // until the hour is rolled up
			d.Turn(b.Context())
			d.now = d.now.Add(30 * time.Second)
		}
		used := processorTime(b) - before
		if due, err := d.File().Due(b.Context(), d.now.Add(-2*time.Minute), 10); err != nil || len(due) > 0 {
			b.Fatalf("%d hours are due, %v", len(due), err)
		}
		b.ReportMetric(used.Hours()*100*10_000/nodes, "%core/10000nodes")
	}
}

// BenchmarkYear keeps a year of two nodes with 8 GPUs, day by day with what is dropped each day. It tells the size for 100 nodes.
func BenchmarkYear(b *testing.B) {
	const nodes = 2
	for range b.N {
		d := newStore(b, 4*gib)
		path := filepath.Join(b.TempDir(), "year.db")
		d.Path = path
		d.now = noon().Truncate(24 * time.Hour)
		d.Turn(b.Context())
		var work []*workload
		for i := range nodes {
			work = append(work, newWorkload(uint64(i), 8))
		}
		for range 365 {
			for i, w := range work {
				fill(b, d.File(), w, int64(i+1), d.now, 24*time.Hour)
			}
			d.now = d.now.Add(24 * time.Hour)
			d.Turn(b.Context())
		}
		size, err := d.File().Size(b.Context())
		must(b, err)
		b.ReportMetric(float64(size.File-size.Free)*100/nodes/1e6, "MB/100nodes")
		if oldest, err := d.File().Oldest(b.Context(), store.Hours); err != nil || d.now.Sub(oldest) < 364*24*time.Hour {
			b.Fatalf("hours begin at %s, %v", oldest, err)
		}
	}
}
