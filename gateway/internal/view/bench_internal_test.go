package view

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/store"
)

// cpu is the time that this process has had of all cores.
func cpu(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// fleetOf is a picture of so many nodes that have reported, and a heartbeat of each.
func fleetOf(nodes, gpus int) (*Fleet, []Sample) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	p := Open(Config{Ref: func() store.StatusRef { return store.StatusRef{Now: now} }})
	rows := make([]store.Node, nodes)
	samples := make([]Sample, nodes)
	for i := range rows {
		name := fmt.Sprintf("node-%05d", i)
		rows[i] = store.Node{ID: "id-" + name, Name: name, Tenant: "platform", Provider: "vast_ai", InstanceID: fmt.Sprint(i), State: "active",
			Labels: map[string]string{"tier": "sovereign", "price_per_hour": "1.99"}, GPUsExpected: gpus}
		h := &wire.Hardware{Probe: wire.Probe{State: wire.ProbeOK, SampledAt: &now}, CPUs: some(64), Load1: some(1.5)}
		for g := range gpus {
			h.GPUs = append(h.GPUs, wire.GPU{Index: g, UUID: fmt.Sprintf("GPU-%d-%d", i, g), Name: "NVIDIA H100 80GB HBM3",
				MemoryTotalMiB: some(int64(81559)), MemoryUsedMiB: some(int64(39233)), UtilizationPercent: some(97.0),
				TemperatureCelsius: some(61.0), PowerWatts: some(412.5), PowerLimitWatts: some(700.0), MemorySource: wire.MemoryDevice})
		}
		samples[i] = Sample{NodeID: rows[i].ID, At: now, Interval: 30 * time.Second, Hardware: h}
	}
	p.putAll(rows)
	p.Take(context.Background(), samples)
	return p, samples
}

// BenchmarkPicture says what 10,000 nodes cost, in time of a core: a round of heartbeats, the first bytes and all bytes of GET fleet, and
// what one watch reads of a round.
func BenchmarkPicture(b *testing.B) {
	for _, gpus := range []int{1, 8} {
		p, samples := fleetOf(10_000, gpus)
		watch := p.Watch(Query{})
		for name, do := range map[string]func(){
			"Take": func() { p.Take(context.Background(), samples) },
			"FirstByte": func() {
				rows, totals := p.Rows(Query{})
				_ = json.NewEncoder(&bytes.Buffer{}).Encode([]any{totals, rows[:20]})
			},
			"WholeFleet": func() {
				var out bytes.Buffer
				rows, _ := p.Rows(Query{})
				for _, row := range rows {
					out.Reset()
					_ = json.NewEncoder(&out).Encode(row)
				}
			},
			"Watch": func() {
				watch.seen = 0
				watch.look()
			},
			"Tick": p.tick,
		} {
			b.Run(fmt.Sprintf("%s/%dgpus", name, gpus), func(b *testing.B) {
				before := cpu(b)
				for b.Loop() {
					do()
				}
				b.ReportMetric(float64(cpu(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
			})
		}
	}
}
