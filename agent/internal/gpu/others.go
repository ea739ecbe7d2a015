package gpu

import (
	"context"
	"fmt"
	"slices"

	"muster/agent/wire"
)

// lookAtOthers reads AMD's GPUs. It reports false if the look is over: ctx is done, or their driver hangs, which it publishes.
func (p *Prober) lookAtOthers(ctx context.Context) bool {
	if p.AMD == nil {
		return true
	}
	p.others = p.AMD.Look(ctx)
	switch {
	case ctx.Err() != nil:
		return false
	case !p.others.Hung:
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enter(wire.ProbeHung, "AMD's driver does not answer, and a reading of its GPUs in /sys does not end: look for amdgpu in dmesg, "+
		"restart the machine if it stays so", p.others.Since)
	return false
}

// addOthers puts AMD's GPUs behind those of NVIDIA, and goes on with their indices.
func (p *Prober) addOthers(o *outcome) {
	next := 0
	for _, g := range o.gpus {
		next = max(next, g.Index+1)
	}
	for _, g := range p.others.GPUs {
		g.Index += next
		o.gpus = append(o.gpus, g)
	}
}

// othersAlone is the outcome if there is no nvidia-smi, and AMD's GPUs are there.
func (p *Prober) othersAlone() outcome {
	took := p.others.Took.Milliseconds()
	o := outcome{state: wire.ProbeOK, took: &took, told: true, whole: true}
	p.addOthers(&o)
	o.exist = len(o.gpus)
	expected := p.expectedNow(o.exist)
	if missing := expected - o.exist; missing > 0 {
		o.missing = fmt.Sprintf("%d of %d GPUs answer; gone: %s", o.exist, expected, p.nameMissing(missing, o.gpus, nil, nil))
		o.fail(counted(o.exist, expected) + "look for the others in lspci, and for amdgpu in dmesg; there is no nvidia-smi on this machine")
	}
	return o
}

// silent is the outcome where nvidia-smi says nothing about NVIDIA's GPUs, of which there are some. Their last rows stay, and AMD's with
// them, because all rows have one time.
func (p *Prober) silent(o outcome, out Output, table Table) outcome {
	o.unread = true
	o.whole = false
	o.cause = causeOf(out)
	o.fail(explain(out, table.Notes))
	return o
}

// alone reports whether nvidia-smi finds no device on a machine that has GPUs of AMD and never had one of NVIDIA.
func (p *Prober) alone(out Output) bool {
	return len(p.others.GPUs) > 0 && noDevices(out) && !p.known(wire.VendorNVIDIA)
}

// known reports whether the last readings had a GPU of this vendor.
func (p *Prober) known(vendor string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remember()
	return slices.ContainsFunc(p.reading.GPUs, func(g wire.GPU) bool { return g.Vendor == vendor }) ||
		slices.ContainsFunc(p.roster, func(d device) bool { return d.Vendor == vendor })
}
