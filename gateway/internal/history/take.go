package history

import (
	"context"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/view"
	"muster/store/history"
)

// Bounds of what waits in memory.
const (
	mostWaiting = 65536     // samples: some minutes of the largest fleet, while the disk takes none
	mostGPUs    = 256       // of one node
	quiet       = time.Hour // a node that is not heard for so long is dropped from memory
)

// node is what is known of a node in memory.
type node struct {
	id     string
	names  history.Names
	named  int64          // the day on which they came
	asked  int            // how many of uuids had been asked for when names came
	uuids  []string       // by the place that waiting samples name a GPU by
	places map[string]int // in uuids
	minute history.Minute // that waits for its end
	cost   cost
	heard  time.Time
}

// cost is what the last sample said of the agent's processor time.
type cost struct {
	run    string
	at     time.Time
	millis *int64
}

// Take keeps what heartbeats say until their minute is over.
func (b *Store) Take(_ context.Context, samples []view.Sample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range samples {
		s := &samples[i]
		n := b.node(s.NodeID, s.At)
		start := history.Raw.Number(s.At)
		if start != n.minute.Start {
			b.end(n)
		}
		n.minute.Start = start
		n.minute.Samples = append(n.minute.Samples, n.sample(s))
		b.waiting++
	}
	b.makeRoom()
}

// node finds a node in memory, or puts it there. The caller holds the lock.
func (b *Store) node(id string, heard time.Time) *node {
	n := b.nodes[id]
	if n == nil {
		n = &node{id: id, places: map[string]int{}}
		b.nodes[id] = n
	}
	n.heard = heard
	return n
}

// end hands a node's minute to those that are written next. The caller holds the lock.
func (b *Store) end(n *node) {
	if len(n.minute.Samples) == 0 {
		return
	}
	b.ended = append(b.ended, ended{n, n.minute})
	n.minute = history.Minute{}
}

// makeRoom drops the oldest minutes where too many samples wait. The caller holds the lock.
func (b *Store) makeRoom() {
	for b.waiting > mostWaiting && len(b.ended) > 0 {
		b.dropped += b.next()
	}
}

// place is where a GPU stands among the node's; -1: there is no room for one more.
func (n *node) place(uuid string) int {
	at, known := n.places[uuid]
	if known {
		return at
	}
	if len(n.uuids) == mostGPUs {
		return -1
	}
	n.uuids = append(n.uuids, uuid)
	n.places[uuid] = len(n.uuids) - 1
	return len(n.uuids) - 1
}

// sample turns a heartbeat into numbers. What it does not say is missing.
func (n *node) sample(s *view.Sample) history.Sample {
	out := history.Sample{At: s.At.UnixMilli(), Interval: max(s.Interval, 0).Round(time.Second)}
	for m := range out.Node {
		out.Node[m] = history.Missing
	}
	if h := s.Hardware; h != nil {
		out.Node[history.Load] = parts(h.Load1, 100)
		out.Node[history.Memory] = parts(h.MemoryUsedMiB, 1)
		out.Node[history.Disk] = parts(h.DiskUsedMiB, 1)
	}
	if c := s.Cost; c != nil {
		out.Node[history.AgentMemory] = parts(c.RSSKiB, 1)
		out.Node[history.ProbeTime] = parts(c.ProbeMillis, 1)
		out.Node[history.AgentCPU] = n.cost.next(s)
	}
	if fresh(s) {
		out.GPUs = n.gpus(s.Hardware.GPUs)
	}
	return out
}

func (n *node) gpus(all []wire.GPU) []history.GPUSample {
	out := make([]history.GPUSample, 0, len(all))
	for i := range all {
		g := &all[i]
		at := n.place(g.UUID)
		if at < 0 || g.UUID == "" {
			continue
		}
		clock := (*int64)(nil)
		if g.Clocks != nil {
			clock = g.Clocks.SMMHz
		}
		out = append(out, history.GPUSample{GPU: at, Values: [history.GPUMetrics]int64{
			history.Utilization: parts(g.UtilizationPercent, 10), history.GPUMemory: parts(g.MemoryUsedMiB, 1),
			history.Temperature: parts(g.TemperatureCelsius, 10), history.Power: parts(g.PowerWatts, 10), history.SMClock: parts(clock, 1),
		}})
	}
	return out
}

// parts are a value in parts of its unit, if it is known.
func parts[T int64 | float64](v *T, each float64) int64 {
	if v == nil {
		return history.Missing
	}
	return parted(float64(*v), each)
}

// next is the share of a core, in thousandths of a percent, that the agent took since the sample before. A new run begins anew.
func (c *cost) next(s *view.Sample) int64 {
	last := *c
	*c = cost{run: s.RunID, at: s.At, millis: s.Cost.CPUMillis}
	passed := s.At.Sub(last.at)
	if last.millis == nil || c.millis == nil || last.run != c.run || passed < time.Second || *c.millis < *last.millis {
		return history.Missing
	}
	return parted(float64(*c.millis-*last.millis)/float64(passed.Milliseconds())*100, 1000)
}

// fresh is true if a heartbeat's rows of GPUs are of now. After a failed look at the GPUs the last rows stay in the heartbeats: they are
// no samples.
func fresh(s *view.Sample) bool {
	interval := s.Interval.Seconds()
	return s.Hardware != nil && len(s.Hardware.GPUs) > 0 && !api.Old(s.Hardware.Probe, &interval, &s.SkewMillis, s.At)
}
