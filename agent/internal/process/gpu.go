package process

import (
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
)

const (
	// A GPU with more memory in use than both of these is at work. A driver and a desktop take less.
	freeMemoryMiB   = 1024
	freeMemoryShare = 0.05
	// freeUtilization is what a desktop or a monitor shows, in percent.
	freeUtilization = 5.0
)

// Holder is a program or container that keeps GPUs for itself.
type Holder struct {
	Name string   // for a person
	GPUs []string // UUIDs, or wire.AllGPUs
}

// choose picks GPUs that nothing uses. The refusal says of each of the others why it is not free.
func choose(want int, gpus []wire.GPU, holders []Holder) ([]string, error) {
	var free, taken []string
	for _, g := range gpus {
		if why := inUse(g, holders); why != "" {
			taken = append(taken, fmt.Sprintf("GPU %d: %s", g.Index, why))
			continue
		}
		free = append(free, g.UUID)
	}
	if len(free) >= want {
		return free[:want], nil
	}
	text := fmt.Sprintf("of the %d GPUs of this node %s free, and %s wanted", len(gpus), are(len(free)), are(want))
	switch len(gpus) {
	case 0:
		text = "this node shows no GPU"
	case 1:
		text = fmt.Sprintf("this node has 1 GPU, %s free, and %s wanted", are(len(free)), are(want))
	}
	if len(taken) > 0 {
		text += ": " + strings.Join(taken, "; ")
	}
	return nil, wire.Refuse(wire.CodeTaskForbidden, text,
		"muster gpu ls finds room on another node; without --gpus the program sees all GPUs, also those in use")
}

func are(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// inUse says what speaks against giving a GPU to a new program; empty: nothing. What is not known speaks against it, as long as nothing
// else tells.
func inUse(g wire.GPU, holders []Holder) string {
	for _, h := range holders {
		if slices.Contains(h.GPUs, g.UUID) || slices.Contains(h.GPUs, wire.AllGPUs) {
			return h.Name + " has it"
		}
	}
	processes := g.Processes != nil && g.Processes.Count != nil
	memory := g.MemoryUsedMiB != nil && g.MemorySource != wire.MemoryUnified
	switch {
	case g.UUID == "":
		return "it does not tell its UUID"
	case len(g.Health) > 0:
		return strings.Join(g.Health, ", ")
	case g.IsDivided():
		return "it is divided (MIG): leave --gpus out, and name one of its instances with --env CUDA_VISIBLE_DEVICES=MIG-UUID"
	case processes && *g.Processes.Count > 0:
		return fmt.Sprintf("%d processes use it", *g.Processes.Count)
	case g.UtilizationPercent != nil && *g.UtilizationPercent > freeUtilization:
		return fmt.Sprintf("it is %.0f%% busy", *g.UtilizationPercent)
	case memory && float64(*g.MemoryUsedMiB) > max(freeMemoryMiB, freeMemoryShare*float64(total(g))):
		return fmt.Sprintf("%d MiB of its memory are in use", *g.MemoryUsedMiB)
	case !processes && !memory:
		return "it does not tell whether it is in use"
	}
	return ""
}

func total(g wire.GPU) int64 {
	if g.MemoryTotalMiB == nil {
		return 0
	}
	return *g.MemoryTotalMiB
}

// visible are the variables by which a program sees these GPUs and no others.
func visible(uuids []string, gpus []wire.GPU) []string {
	if len(uuids) == 0 || uuids[0] == wire.AllGPUs {
		return nil
	}
	name := "CUDA_VISIBLE_DEVICES"
	for _, g := range gpus {
		if g.Vendor == wire.VendorAMD && slices.Contains(uuids, g.UUID) {
			name = "ROCR_VISIBLE_DEVICES"
		}
	}
	return []string{name + "=" + strings.Join(uuids, ",")}
}
