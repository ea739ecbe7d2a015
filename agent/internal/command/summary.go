package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/wire"
)

// Summary returns Summarize of the newest reading.
func (m *Machine) Summary() string {
	if m.Prober == nil {
		return "GPUs are not looked at (--no-gpu)"
	}
	return strings.Join(slices.DeleteFunc([]string{Summarize(m.Prober.Reading()), newest(m.Kernel.Report(m.Prober.Locate))},
		func(part string) bool { return part == "" }), "; ")
}

// newest describes the newest event of the kernel's log. It is empty if there is none.
func newest(x *wire.Xids) string {
	if x == nil || len(x.Events) == 0 {
		return ""
	}
	last := x.Events[len(x.Events)-1]
	return fmt.Sprintf("%d reports of the kernel about GPUs since the boot, the last at %s: %s", len(x.Events),
		last.At.Format(time.RFC3339), last.Text)
}

// Summarize describes a reading of the GPUs for a person in a few words. It is empty before the first look.
func Summarize(r gpu.Reading) string {
	switch r.Probe.State {
	case "":
		return ""
	case wire.ProbeAbsent:
		if r.Probe.Error != "" {
			return "no GPU seen: " + r.Probe.Error + wrong(r)
		}
		return "no GPU seen: there is no nvidia-smi on this machine"
	case wire.ProbeHung, wire.ProbeFailed:
		return "GPU probe " + r.Probe.State + ": " + r.Probe.Error + wrong(r)
	}
	return models(r.GPUs) + wrong(r)
}

// wrong names the GPUs that do not answer or must not be used. A probe that fails has said why already, so its reasons are left out.
func wrong(r gpu.Reading) (text string) {
	_, detail := r.Health()
	for _, reason := range [...]string{wire.HealthGPUCountDropped, wire.HealthGPUFault} {
		if detail[reason] != "" {
			text += " (" + reason + ": " + detail[reason] + ")"
		}
	}
	return text
}

// models counts GPUs by name.
func models(gpus []wire.GPU) string {
	var names []string
	counts := map[string]int{}
	for _, device := range gpus {
		if counts[device.Name]++; counts[device.Name] == 1 {
			names = append(names, device.Name)
		}
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%dx %s", counts[name], name)
	}
	if len(names) == 0 {
		return "no GPU seen"
	}
	return strings.Join(names, ", ")
}
