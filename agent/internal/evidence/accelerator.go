package evidence

import (
	"context"
	"fmt"
	"slices"

	"muster/agent/internal/gpu"
	"muster/agent/internal/gpu/smi"
	"muster/agent/internal/host"
	"muster/agent/wire"
)

// lookAtGPUs reads the GPUs as their driver names them. Rows of an earlier look count for nothing.
func (r *run) lookAtGPUs(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	reading, gpus := r.fresh(bounded)
	r.probe = reading.Probe
	if len(gpus) == 0 {
		return
	}
	r.gpus = gpus
	if reading.DriverVersion != nil {
		r.facts.DriverVersion = wire.Plain(*reading.DriverVersion, wire.MaxText)
	}
	var details map[string]smi.GPU
	var parts map[string][]wire.MIGInstance
	if slices.ContainsFunc(r.gpus, func(g wire.GPU) bool { return g.Vendor == wire.VendorNVIDIA }) {
		if text, err := r.ask(ctx, "-q"); err == nil {
			details = smi.Parse(text)
		}
		if text, err := r.ask(ctx, "nvlink", "--status"); err == nil {
			r.links = gpu.ParseNVLinks(text)
		}
		text, err := r.ask(ctx, "-L")
		if err != nil && slices.ContainsFunc(r.gpus, wire.GPU.IsDivided) {
			r.fail(fmt.Sprintf("which parts the divided GPUs have cannot be read: %v", err))
			return // a part must not be taken for a whole card
		}
		parts = gpu.ParseList(text)
	}
	r.facts.Accelerators = accelerators(r.gpus, details, r.links, parts)
}

// fresh looks at the GPUs. The rows are those of this look alone.
func (r *run) fresh(ctx context.Context) (gpu.Reading, []wire.GPU) {
	began := r.now()
	reading := r.Look(ctx)
	return reading, reading.Rows(began)
}

// fail forgets the rows: as they are they would say too little.
func (r *run) fail(why string) {
	r.gpus = nil
	r.probe.State = wire.ProbeFailed
	r.probe.Error = why
}

func (r *run) ask(ctx context.Context, args ...string) ([]byte, error) {
	bounded, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return r.Ask(bounded, args...)
}

// accelerators are the GPUs that can be named; nil: there are none.
func accelerators(gpus []wire.GPU, details map[string]smi.GPU, links map[string]*wire.NVLinks,
	parts map[string][]wire.MIGInstance) (all []wire.AcceleratorID) {
	for _, g := range gpus {
		a := wire.AcceleratorID{UUID: g.UUID, Address: host.Address(g.BusID), Name: wire.Plain(g.Name, wire.MaxText), MemoryMiB: g.MemoryTotalMiB,
			Serial: details[g.UUID].Serial, Module: details[g.UUID].Module}
		if g.MemorySource != wire.MemoryDevice {
			a.MemoryMiB = nil
		}
		if l := links[g.UUID]; l != nil {
			a.Links = l.Total
		}
		if g.IsDivided() {
			a.MIG = append([]wire.MIGInstance{}, parts[g.UUID]...) // not null: it is divided, even if it has no part yet
		}
		twice := slices.ContainsFunc(all, func(o wire.AcceleratorID) bool {
			return o.UUID == a.UUID || o.Address == a.Address && a.Address != ""
		})
		if a.Valid() && !twice {
			all = append(all, a)
		}
	}
	return all
}
