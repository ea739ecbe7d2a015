package clean

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/internal/gpu/smi"
	"muster/agent/wire"
)

// How much memory of a GPU, and of a part of one, the driver takes without any process, in MiB at most.
const (
	idleMiB     = 1024
	idlePartMiB = 256
)

// sight is what one look has seen.
type sight struct {
	trouble string // why it saw nothing; empty: it saw
	gpus    []wire.GPU
	states  map[string]smi.GPU            // by the UUIDs of NVIDIA's GPUs
	parts   map[string][]wire.MIGInstance // by the UUIDs of the divided ones
	holders holders
}

// see looks at the GPUs, at their processes, and at who has their files open.
func (c Cleaner) see(ctx context.Context) (s sight) {
	if c.Look == nil {
		return sight{trouble: "the agent was told not to look at GPUs (--no-gpu)"}
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	began := time.Now()
	reading := c.Look(ctx)
	if s.gpus = reading.Rows(began); len(s.gpus) == 0 {
		return sight{trouble: "the GPUs cannot be read: " + cmp.Or(reading.Probe.Error, reading.Probe.State)}
	}
	if slices.ContainsFunc(s.gpus, func(g wire.GPU) bool { return g.Vendor == wire.VendorNVIDIA }) {
		var err error
		if s.states, err = c.states(ctx, s.gpus); err != nil {
			return sight{trouble: fmt.Sprintf("the processes on the GPUs cannot be read: %v", err)}
		}
	}
	if slices.ContainsFunc(s.gpus, wire.GPU.IsDivided) {
		text, err := c.Ask(ctx, "-L")
		if err != nil {
			return sight{trouble: fmt.Sprintf("which parts the divided GPUs have cannot be read: %v", err)}
		}
		s.parts = gpu.ParseList(text)
	}
	s.holders = c.holders()
	return s
}

// states asks for the processes on NVIDIA's GPUs. Where the long answer fails, the list of those that compute is enough: whoever draws has
// the GPU's file open. Parts of divided GPUs are in the long answer alone.
func (c Cleaner) states(ctx context.Context, gpus []wire.GPU) (map[string]smi.GPU, error) {
	text, err := c.Ask(ctx, "-q")
	if err == nil {
		return smi.Parse(text), nil
	}
	if slices.ContainsFunc(gpus, wire.GPU.IsDivided) {
		return nil, err
	}
	text, second := c.Ask(ctx, gpu.ComputeApps()...)
	listed, whole := gpu.ParseProcesses(text)
	if second != nil || !whole {
		return nil, err
	}
	states := map[string]smi.GPU{}
	for _, g := range gpus {
		var s smi.GPU
		for _, p := range listed[g.UUID].List {
			s.Processes = append(s.Processes, smi.Process{PID: p.PID, Computes: true})
		}
		if g.Vendor == wire.VendorNVIDIA {
			states[g.UUID] = s
		}
	}
	return states, nil
}

// judge says what is in the way of one GPU, or of one part of a GPU.
func (s sight) judge(uuid string) (left []wire.Left) {
	for _, g := range s.gpus {
		if g.UUID == uuid {
			return s.whole(g)
		}
		if i := slices.IndexFunc(s.parts[g.UUID], func(m wire.MIGInstance) bool { return m.UUID == uuid }); i >= 0 {
			return s.part(g, uuid, i)
		}
	}
	return []wire.Left{{GPU: uuid, What: "no driver names this GPU", Next: "bind it to its driver again, or look for Xid in dmesg"}}
}

// whole judges a GPU that is not divided.
func (s sight) whole(g wire.GPU) (left []wire.Left) {
	add := func(what, next string) { left = append(left, wire.Left{GPU: g.UUID, What: what, Next: next}) }
	if g.IsDivided() {
		add("it is divided (MIG), and muster has not done that",
			"as root: nvidia-smi mig -dci, nvidia-smi mig -dgi, then nvidia-smi -mig 0, each with -i "+g.UUID)
	}
	state, known := s.states[g.UUID]
	if g.Vendor == wire.VendorNVIDIA && !known {
		add("nvidia-smi -q says nothing of its processes", "look for Xid in dmesg")
	}
	var seen []int
	for _, p := range state.Processes {
		isScreen := !p.Computes && s.holders.isSystem(p.PID)
		if !isScreen && !slices.Contains(seen, p.PID) {
			add(s.holders.describe(p.PID, p.Name)+" uses it", end(p.PID))
		}
		seen = append(seen, p.PID)
	}
	pids, sure := s.holders.of(g)
	for _, pid := range pids {
		switch what := s.holders.describe(pid, ""); {
		case slices.Contains(seen, pid):
		case sure:
			add(what+" has its file open", end(pid))
		default:
			add(what+" has the file of a GPU open, and of which one cannot be told", end(pid))
		}
	}
	if len(left) == 0 {
		left = append(left, memory(g.UUID, g.MemorySource, g.MemoryUsedMiB, idleMiB)...)
	}
	return left
}

// part judges one part of a divided GPU, the one at this place. Which part a file in /dev is open for cannot be told.
func (s sight) part(g wire.GPU, uuid string, place int) (left []wire.Left) {
	parts := s.states[g.UUID].Parts
	if place >= len(parts) {
		return []wire.Left{{GPU: uuid, What: "nvidia-smi -q says nothing of this part", Next: "look for Xid in dmesg"}}
	}
	one := parts[place]
	for _, p := range s.states[g.UUID].Processes {
		if p.Instance == one.Instance {
			left = append(left, wire.Left{GPU: uuid, What: s.holders.describe(p.PID, p.Name) + " uses it", Next: end(p.PID)})
		}
	}
	if len(left) == 0 {
		left = memory(uuid, g.MemorySource, one.UsedMiB, idlePartMiB)
	}
	return left
}

// memory judges memory that is in use although no process is seen. What a GPU shares with the CPU says nothing.
func memory(uuid, source string, used *int64, idle int64) []wire.Left {
	switch {
	case source != wire.MemoryDevice:
		return nil
	case used == nil:
		return []wire.Left{{GPU: uuid, What: "it does not say how much of its memory is in use", Next: "look for Xid in dmesg"}}
	case *used > idle:
		return []wire.Left{{GPU: uuid, What: fmt.Sprintf("%d MiB of its memory are in use, and no process is seen", *used),
			Next: "end what uses it, or reset it (nvidia-smi --gpu-reset -i " + uuid + ")"}}
	}
	return nil
}

func end(pid int) string {
	return fmt.Sprintf("end it (kill %d), or find out whose it is: it belongs to no workload of the allocation", pid)
}
