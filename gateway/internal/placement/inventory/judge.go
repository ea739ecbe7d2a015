package inventory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/gateway/internal/placement/inventory/slot"
	"muster/gateway/internal/view/hardware"
)

// memoryShort is how much less than its label a GPU may show: the driver keeps some.
const memoryShort = 0.97

// judge adds to evidence what the node cannot judge itself: how many GPUs there should be, and what is paid for.
func (s *Service) judge(ctx context.Context, row *api.NodeRow, e *wire.Evidence, accept bool) error {
	gpus := hardware.GPUs(e.Facts)
	if want := row.GPUsExpected; want != nil && len(gpus) < *want {
		failed := wire.Check{Name: wire.CheckGPUs, State: wire.CheckFailed, Saw: fmt.Sprintf("%d of %d expected GPUs", len(gpus), *want)}
		setCheck(e, failed)
	}
	if !accept {
		return nil
	}
	promised, err := s.Records.Promised(ctx, row.ID)
	if err != nil {
		return err
	}
	setCheck(e, asPaid(row.GPUsExpected, promised, gpus))
	return nil
}

func setCheck(e *wire.Evidence, c wire.Check) {
	for i := range e.Checks {
		if e.Checks[i].Name == c.Name {
			e.Checks[i] = c
			return
		}
	}
	e.Checks = append(e.Checks, c)
}

// asPaid compares the GPUs with what is paid for: their number, and what labels promise of model and memory.
func asPaid(want *int, promised map[string]string, gpus []hardware.GPU) wire.Check {
	c := wire.Check{Name: wire.CheckAsPaid, State: wire.CheckOK, Saw: seen(gpus)}
	if want == nil {
		c.State = wire.CheckUnknown
		c.Saw += "; nothing says how many are paid for: muster node gpus NAME --expect N"
		return c
	}
	if len(gpus) != *want {
		c.State = wire.CheckFailed
		c.Saw += fmt.Sprintf("; %d are paid for", *want)
	}
	model := promised[label.GPUModel]
	memory, err := strconv.ParseFloat(promised[label.GPUMemory], 64)
	for _, g := range gpus {
		switch {
		case model != "" && !hardware.Is(g.Model, model):
			c.State = wire.CheckFailed
			c.Saw += "; " + model + " is paid for"
			return c
		case err == nil && (g.MemoryMiB == nil || float64(*g.MemoryMiB) < memory*1024*memoryShort):
			c.State = wire.CheckFailed
			c.Saw += "; " + promised[label.GPUMemory] + " GiB each are paid for"
			return c
		}
	}
	return c
}

// seen describes GPUs in one line, such as 8 x h100-sxm of 79 GiB.
func seen(gpus []hardware.GPU) string {
	if len(gpus) == 0 {
		return "no GPU"
	}
	counts := map[string]int{}
	var kinds []string
	for _, g := range gpus {
		kind := g.Model
		if g.MemoryMiB != nil {
			kind += fmt.Sprintf(" of %d GiB", *g.MemoryMiB/1024)
		}
		if counts[kind]++; counts[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d x %s", counts[kind], kind)
	}
	return strings.Join(kinds, ", ")
}

// missing are what a profile asks for and evidence does not show, one line each. Too few GPUs count for any profile.
func missing(p api.Profile, e wire.Evidence) []string {
	lines := slot.Missing(p, e, checkOf(e, wire.CheckAsPaid))
	if gpus := checkOf(e, wire.CheckGPUs); gpus.State == wire.CheckFailed && !slices.Contains(p.Checks, wire.CheckGPUs) {
		lines = append(lines, wire.CheckGPUs+" failed: "+gpus.Saw)
	}
	return lines
}
