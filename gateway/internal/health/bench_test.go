package health_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/view"
)

// BenchmarkRound judges one heartbeat of each of 10,000 nodes with 8 GPUs, as every 30 seconds, and goes once over all nodes, as every 15.
func BenchmarkRound(b *testing.B) {
	for _, settings := range []int{0, 20} {
		b.Run(fmt.Sprintf("settings=%d", settings), func(b *testing.B) {
			d := newWorld(b)
			for i := range settings {
				d.set(condition.GPUHot, fmt.Sprintf("rack=%d", i), to(80.0), false)
			}
			samples := fleetOf(d, 10_000, 8)
			b.ResetTimer()
			before := cpu(b)
			for b.Loop() {
				d.now = d.now.Add(pace)
				at := d.now
				for i := range samples {
					samples[i].At = at
					samples[i].Hardware.Probe.SampledAt = &at
				}
				d.Take(b.Context(), samples)
				d.Round(b.Context())
			}
			b.ReportMetric((cpu(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op") // others may use this machine too
		})
	}
}

// cpu is what this process has used so far.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func fleetOf(d *world, nodes, gpus int) []view.Sample {
	var samples []view.Sample
	for i := range nodes {
		id := fmt.Sprint("n-", i)
		d.nodes[id] = &api.NodeRow{ID: id, LastSeen: &start, PricePerHour: to(2.0), Name: id, Tenant: "platform",
			State: wire.StateActive, Status: wire.StatusOnline, Labels: map[string]string{"rack": "7"}}
		s := reading(nil)
		s.NodeID = id
		s.Interval = pace
		g := s.Hardware.GPUs[0]
		for j := range gpus - 1 {
			g.UUID = fmt.Sprint("GPU-", j, id)
			s.Hardware.GPUs = append(s.Hardware.GPUs, g)
		}
		samples = append(samples, s)
	}
	return samples
}
