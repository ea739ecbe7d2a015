package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/internal/host"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// machine is what the agent sees of the computer that it runs on. Its readings never wait for nvidia-smi.
type machine struct {
	prober   *gpu.Prober // nil: GPUs are not looked at
	stateDir string
	facts    host.Facts // of the last reading; one goroutine reads
}

func newMachine(nvidiaSMI string, noGPU bool, expected int, stateDir string) *machine {
	m := &machine{stateDir: stateDir}
	if !noGPU {
		m.prober = &gpu.Prober{Path: nvidiaSMI, Expected: expected}
	}
	return m
}

// watch looks at the GPUs at this pace until ctx is done, and tells of the end of the first look.
func (m *machine) watch(ctx context.Context, interval time.Duration, news chan<- struct{}) {
	if m.prober == nil {
		return
	}
	m.prober.Probe(ctx)
	news <- struct{}{}
	if transport.Sleep(ctx, interval) {
		m.prober.Run(ctx, interval)
	}
}

// hardware is a reading in JSON, nil before the first look at the GPUs.
func (m *machine) hardware() json.RawMessage {
	h, ok := m.read()
	if !ok {
		return nil
	}
	raw, err := json.Marshal(h)
	if err != nil {
		return nil
	}
	return raw
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

// health says in the wire's words what speaks against work on this machine. A machine that is known to have no GPUs is
// healthy; one whose expected GPUs cannot be seen is not.
func (m *machine) health() []string {
	if m.prober == nil {
		return nil
	}
	r := m.prober.Reading()
	switch {
	case r.Probe.State == wire.ProbeHung:
		return []string{wire.HealthProbeHung}
	case r.Probe.State != wire.ProbeFailed && r.Probe.State != wire.ProbeAbsent:
		return nil
	case r.GPUsExpected != nil && *r.GPUsExpected > len(r.GPUs):
		return []string{wire.HealthGPUMissing}
	case r.Probe.State == wire.ProbeFailed:
		return []string{wire.HealthProbeFailed}
	}
	return nil
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
		return "no GPU seen: there is no nvidia-smi on this machine"
	case wire.ProbeHung, wire.ProbeFailed:
		return "GPU probe " + r.Probe.State + ": " + r.Probe.Error
	}
	var names []string
	counts := map[string]int{}
	for _, device := range r.GPUs {
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
