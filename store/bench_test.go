package store_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/store"
)

// perSecond reports a rate, which is what the budgets speak of.
func perSecond(b *testing.B, what string, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), what+"/s")
}

// BenchmarkEnrol has 32 callers at once, as a gateway under a rush of joining nodes.
func BenchmarkEnrol(b *testing.B) {
	s := open(b)
	must(b, s.CreateToken(b.Context(), token("mse_many", 1<<30)))
	var next atomic.Int64
	b.SetParallelism(16) // times GOMAXPROCS, 2 on the machine of the budgets
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			e := enrolment("mse_many", fmt.Sprintf("node-%08d", next.Add(1)))
			e.AgentLabels = map[string]string{"tier": "sovereign"}
			e.Hardware = hardware(1)
			if err := s.Enrol(b.Context(), e); err != nil {
				b.Error(err)
			}
		}
	})
	perSecond(b, "enrolments", b.N)
}

func hardware(gpus int) string {
	const row = `{"index":0,"uuid":"GPU-00000000-0000-0000-0000-000000000000","name":"NVIDIA H100 80GB HBM3","memory_total_mib":81559,` +
		`"memory_used_mib":39233,"utilization_percent":99,"temperature_celsius":60,"power_watts":500.5},`
	return `{"gpus":[` + strings.TrimSuffix(strings.Repeat(row, gpus), ",") + `]}`
}

// fleet fills a store with n enrolled nodes that have been heard from.
func fleet(b *testing.B, n int) *store.Store {
	b.Helper()
	s := open(b)
	must(b, s.CreateToken(b.Context(), token("mse_many", 1<<30)))
	var beats []store.Beat
	errs := make(chan error, 64)
	for i := range n {
		e := enrolment("mse_many", fmt.Sprintf("node-%08d", i))
		e.AgentLabels = map[string]string{"zone": fmt.Sprint(i % 7)}
		e.Events = nil
		if i%100 == 0 {
			e.AgentLabels["tier"] = "sovereign"
		}
		if i >= cap(errs) {
			must(b, <-errs)
		}
		go func() { errs <- s.Enrol(b.Context(), e) }()
		beats = append(beats, beat(e.Node.ID))
	}
	for range min(n, cap(errs)) {
		must(b, <-errs)
	}
	for i := 0; i < n; i += 500 {
		must(b, s.SaveBeats(b.Context(), beats[i:min(n, i+500)], after(time.Hour)))
	}
	return s
}

func beat(id string) store.Beat {
	return store.Beat{NodeID: id, At: after(time.Hour), RunID: "run", Counter: 1, Interval: 30 * time.Second, Address: "192.0.2.1",
		Agent: `{"version":"1.0","os":"linux","arch":"amd64"}`, Cost: `{"rss_kib":6400}`, Hardware: hardware(1)}
}

func BenchmarkFleet(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		s := fleet(b, n)
		for _, c := range []struct {
			name string
			q    store.NodeQuery
		}{
			{"first page", store.NodeQuery{}},
			{"tenant", store.NodeQuery{Tenant: "default"}},
		} {
			b.Run(fmt.Sprintf("nodes %d/%s", n, c.name), func(b *testing.B) {
				for b.Loop() {
					if _, _, _, err := s.Nodes(b.Context(), c.q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("nodes %d/identity", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Identity(b.Context(), "print-node-00000042"); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("nodes %d/beats", n), func(b *testing.B) {
			first := 0
			for b.Loop() {
				beats := make([]store.Beat, 0, 500)
				for i := range 500 {
					beats = append(beats, beat(fmt.Sprintf("id-node-%08d", (first+i)%n)))
				}
				first += 500
				must(b, s.SaveBeats(b.Context(), beats, after(time.Hour)))
			}
			perSecond(b, "rows", 500*b.N)
		})
	}
}

// BenchmarkBeats stores one round of 10,000 nodes, as the fleet does it: 500 beats in a batch. A whole one has the report of a node with
// eight GPUs.
func BenchmarkBeats(b *testing.B) {
	const nodes = 10_000
	s := fleet(b, nodes)
	round := 0
	for name, kind := range map[string]func(*store.Beat){
		"alive": func(b *store.Beat) { b.Alive = true },
		"whole": func(*store.Beat) {},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				round++
				for first := 0; first < nodes; first += 500 {
					var beats []store.Beat
					for i := range 500 {
						one := beat(fmt.Sprintf("id-node-%08d", first+i))
						one.At = after(time.Hour + time.Duration(round)*time.Second)
						one.Hardware = hardware(8)
						kind(&one)
						beats = append(beats, one)
					}
					must(b, s.SaveBeats(b.Context(), beats, after(time.Hour)))
				}
			}
			perSecond(b, "rows", nodes*b.N)
		})
	}
}
