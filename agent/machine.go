package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/internal/host"
	"muster/agent/wire"
)

// machine is what the agent sees of the computer that it runs on. Its readings never wait for nvidia-smi.
type machine struct {
	prober   *gpu.Prober // nil: GPUs are not looked at
	stateDir string
	facts    host.Facts // of the last reading; one goroutine reads
	cut      string     // why a part of the last reading was left out; empty: it is whole
}

func newMachine(nvidiaSMI string, noGPU bool, expected int, stateDir string) *machine {
	m := &machine{stateDir: stateDir}
	if !noGPU {
		m.prober = &gpu.Prober{Path: nvidiaSMI, Expected: expected, State: stateDir}
	}
	return m
}

// watch looks at the GPUs at this pace until ctx is done, and tells of what speaks against work, when that has changed.
func (m *machine) watch(ctx context.Context, interval time.Duration, news chan<- struct{}) {
	if m.prober == nil {
		return
	}
	told := "nothing"
	m.prober.Run(ctx, interval, func() {
		reasons, _ := m.health()
		if now := fmt.Sprint(reasons); now != told {
			told = now
			select {
			case news <- struct{}{}:
			default:
			}
		}
	})
}

// hardware is a reading in JSON of at most limit bytes, nil before the first look at the GPUs.
func (m *machine) hardware(limit int) json.RawMessage {
	h, ok := m.read()
	if !ok {
		return nil
	}
	raw, cut := fit(h, limit)
	m.cut = cut
	return raw
}

// fit encodes a reading. Where it is too long, what is not asked for in lists is left out of the GPUs' rows first, and then as
// many rows as it takes.
func fit(h wire.Hardware, limit int) (raw json.RawMessage, cut string) {
	raw, err := json.Marshal(h)
	if err != nil || len(raw) <= limit {
		return raw, ""
	}
	all := len(h.GPUs)
	h.GPUs = slices.Clone(h.GPUs)
	for i, g := range h.GPUs {
		h.GPUs[i] = gpu.Short(g)
	}
	for raw, _ = json.Marshal(h); len(raw) > limit && len(h.GPUs) > 0; raw, _ = json.Marshal(h) {
		h.GPUs = h.GPUs[:min(len(h.GPUs)-1, len(h.GPUs)*limit/len(raw))]
	}
	if len(h.GPUs) == all {
		return raw, fmt.Sprintf("the report on %d GPUs is too long: it has their most important values alone", all)
	}
	return raw, fmt.Sprintf("the report on %d GPUs is too long: it has the first %d of them, with the most important values", all, len(h.GPUs))
}

func (m *machine) read() (h wire.Hardware, ok bool) {
	m.facts = host.Read("/", m.stateDir)
	m.facts.Fill(&h)
	if m.prober == nil {
		h.Probe = wire.Probe{State: wire.ProbeAbsent, Error: "the agent was told not to look at GPUs (--no-gpu)"}
	} else {
		m.prober.Reading().Fill(&h)
	}
	if h.GPUs == nil {
		h.GPUs = []wire.GPU{}
	}
	return h, h.Probe.State != ""
}

// health says in the wire's words what speaks against work on this machine, nil before the first look. A machine whose GPUs
// are not to be looked at is healthy as far as they go.
func (m *machine) health() (reasons []string, detail map[string]string) {
	if m.prober == nil {
		return []string{}, nil
	}
	return m.prober.Reading().Health()
}

// seen is how many GPUs are known to exist, nil where no look has told.
func (m *machine) seen() *int {
	if m.prober == nil {
		return nil
	}
	return m.prober.Reading().Seen
}

// expect takes over how many GPUs the gateway has on record.
func (m *machine) expect(n int) {
	if m.prober != nil {
		m.prober.Expect(n)
	}
}

// notices says what a person should know of this machine.
func (m *machine) notices() (all []string) {
	if m.cut != "" {
		all = append(all, m.cut)
	}
	if m.prober != nil && m.prober.Trouble() != "" {
		all = append(all, m.prober.Trouble())
	}
	return all
}

// cost is what the agent takes, as of the last reading.
func (m *machine) cost() wire.Cost {
	if m.prober == nil {
		return m.facts.Cost(nil)
	}
	return m.facts.Cost(m.prober.Reading().Probe.TookMS)
}

// summary is what a person wants to know of the GPUs in a few words, empty before the first look.
func (m *machine) summary() string {
	if m.prober == nil {
		return "GPUs are not looked at (--no-gpu)"
	}
	return summarize(m.prober.Reading())
}

func summarize(r gpu.Reading) string {
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

// wrong names the GPUs that are gone or must not be used.
func wrong(r gpu.Reading) (text string) {
	_, detail := r.Health()
	for _, reason := range [...]string{wire.HealthGPUMissing, wire.HealthGPUFault} {
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

// place is where the machine is rented: what the operator says, else what the machine says of itself.
func place(ctx context.Context, getenv func(string) string, provider, instanceID string) (string, string) {
	if instanceID != "" {
		return provider, instanceID
	}
	foundProvider, foundInstance := host.DetectProvider(ctx, getenv, "/", nil)
	if provider != "" && provider != foundProvider {
		return provider, ""
	}
	return foundProvider, foundInstance
}
