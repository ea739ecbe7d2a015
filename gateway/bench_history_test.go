package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/history"
	"muster/gateway/internal/view"
)

const (
	historyNodes = 2500
	historyTimes = 4 // what a node takes does not grow with the nodes: a quarter of them takes a quarter of the bench's time
	historyGPUs  = 8
	historyMost  = 5 // percent of a core
)

// history measures the processor time of an hour of samples and of its roll-up, by a clock that does not wait.
func (m *bench) history(t *table) {
	now := time.Now().Truncate(time.Hour)
	began := now
	book := history.New(history.Config{Path: filepath.Join(m.dir, "history.db"), Bound: 8 << 30, Now: func() time.Time { return now }})
	round := make([]view.Sample, historyNodes)
	for i := range round {
		round[i] = view.Sample{NodeID: fmt.Sprint("n-", i), RunID: "0123456789abcdef", Interval: 30 * time.Second, Hardware: m.historyReading()}
	}
	before := m.processorTime()
	for now.Before(began.Add(time.Hour)) {
		for i := range round {
			round[i].At = now
			*round[i].Hardware.Probe.SampledAt = now
			for g := range round[i].Hardware.GPUs {
				*round[i].Hardware.GPUs[g].PowerWatts += float64((i+g+now.Minute())%7) - 3
			}
		}
		book.Take(m.Context(), round)
		for range 6 {
			book.Turn(m.Context())
			now = now.Add(5 * time.Second)
		}
	}
	for range 3 * historyNodes / 100 { // as many turns as the roll-up may take, and more
		book.Turn(m.Context())
		now = now.Add(5 * time.Second)
	}
	used := (m.processorTime() - before).Hours() * 100 * historyTimes
	t.bound(fmt.Sprintf("history, %d nodes with %d GPUs every 30 s", historyNodes*historyTimes, historyGPUs), " % of a core", used,
		historyMost, fmt.Sprintf("of %d nodes, times %d", historyNodes, historyTimes),
		"reading the heartbeats' JSON, which is done once for all who look at them")
}

func (m *bench) historyReading() *wire.Hardware {
	var h wire.Hardware
	m.must(json.Unmarshal([]byte(seededHardware), &h))
	one := h.GPUs[0]
	h.GPUs = nil
	for i := range historyGPUs {
		power := *one.PowerWatts
		gpu := one
		gpu.UUID = fmt.Sprint(one.UUID, "-", i)
		gpu.PowerWatts = &power
		h.GPUs = append(h.GPUs, gpu)
	}
	return &h
}

func (m *bench) processorTime() time.Duration {
	var used syscall.Rusage
	m.must(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
