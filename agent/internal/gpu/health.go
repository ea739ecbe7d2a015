package gpu

import (
	"slices"
	"strings"

	"muster/agent/wire"
)

// Marks of a GPU's health. They are not about one field.
const (
	markReset        = "gpu_requires_reset"
	markLost         = "gpu_is_lost"
	markRemapFailure = "row_remap_failure"
	markUnreadable   = "gpu_unreadable"   // several of the sensors that every device has could not be read
	markRecovery     = "recovery_action:" // followed by what the driver wants somebody to do
)

// Health lists the reasons against work on this machine, in the words of package wire, and explains each for a person. It is nil until the
// first look of this run has ended or passed its deadline. If a look could not tell something, the earlier answer stays: a GPU is not
// healthy again because a call hangs.
func (r Reading) Health() (reasons []string, detail map[string]string) {
	if r.Probe.State == "" {
		return nil, nil
	}
	reasons = []string{}
	detail = map[string]string{}
	add := func(reason, text string) {
		reasons = append(reasons, reason)
		detail[reason] = wire.Plain(text, wire.MaxHealthDetail)
	}
	if r.missing != "" {
		add(wire.HealthGPUCountDropped, r.missing)
	}
	if faults := faultsOf(r.GPUs); faults != "" {
		add(wire.HealthGPUFault, faults)
	}
	switch {
	case r.Probe.State == wire.ProbeHung:
		add(wire.HealthProbeHung, r.Probe.Error)
	case r.unread:
		add(wire.HealthProbeFailed, r.Probe.Error)
	}
	return reasons, detail
}

// faultsOf names the GPUs that must not be used, and says why. It is empty if there are none.
func faultsOf(gpus []wire.GPU) string {
	var names []string
	for _, g := range gpus {
		if marks := severe(g.Health); len(marks) > 0 {
			names = append(names, deviceOf(g).String()+": "+strings.Join(marks, " "))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return enumerate(names, len(names), wire.MaxHealthDetail-100) + "; " + cureOf(gpus)
}

// severe picks the marks of a device that must not be used.
func severe(marks []string) []string {
	return slices.DeleteFunc(slices.Clone(marks), func(mark string) bool {
		action, isAction := strings.CutPrefix(mark, markRecovery)
		asks := strings.Contains(action, "reset") || strings.Contains(action, "reboot") || strings.Contains(action, "drain")
		return !(isAction && asks) && !slices.Contains([]string{markReset, markLost, markRemapFailure, markUnreadable}, mark)
	})
}

// cureOf is the one next step that covers all faults.
func cureOf(gpus []wire.GPU) string {
	var all []string
	for _, g := range gpus {
		all = append(all, severe(g.Health)...)
	}
	has := func(part string) bool {
		return slices.ContainsFunc(all, func(mark string) bool { return strings.Contains(mark, part) })
	}
	switch {
	case has("reboot"), has(markLost), has(markUnreadable):
		return "restart the machine"
	case has(markRemapFailure):
		return "the board's memory is worn out: have it replaced"
	case has("p2p"):
		return "end the work that uses GPUs together, then reset it"
	}
	return "end the work on it, then reset it (nvidia-smi --gpu-reset)"
}
