package main

import (
	"context"
	"encoding/json"
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
