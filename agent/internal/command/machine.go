package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"muster/agent/internal/amd"
	"muster/agent/internal/gpu"
	"muster/agent/internal/host"
	"muster/agent/internal/owner"
	"muster/agent/wire"
)

// Machine is what the agent sees of the computer that it runs on: its GPUs, its memory and disk. No reading waits for nvidia-smi.
type Machine struct {
	Prober   *gpu.Prober       // nil: GPUs are not looked at
	Kernel   *host.Log         // nil with Prober
	Runs     func() []wire.Run // nil: nobody knows of any
	stateDir string
	cost     wire.Cost // of the last reading; one goroutine alone calls Read, Hardware, Notices and Cost
	cut      string    // says what was left out of the last reading; empty: nothing was
}

// NewMachine makes a machine whose GPUs nobody has looked at yet. expected is how many GPUs the credential named; 0: it named no number.
func NewMachine(nvidiaSMI string, noGPU bool, expected int, stateDir string) *Machine {
	m := &Machine{stateDir: stateDir}
	if !noGPU {
		m.Prober = &gpu.Prober{Path: nvidiaSMI, Expected: expected, State: stateDir}
		m.Prober.AMD = &amd.Prober{SystemMemory: func() (total, used *int64) { return host.SystemMemory("/") }}
		m.Prober.Who = (&owner.Finder{}).Fill
		m.Kernel = &host.Log{State: stateDir}
	}
	return m
}

// Watch looks at the GPUs at this pace until ctx is done. It calls tell whenever the reasons against work on this machine have changed.
func (m *Machine) Watch(ctx context.Context, interval time.Duration, tell func()) error {
	if m.Prober == nil {
		<-ctx.Done()
		return nil
	}
	defer m.Kernel.Close()
	m.Kernel.Look()   // before the first look at the GPUs, because that may hang, and then this says why
	told := "nothing" // differs from every list of reasons, so that the first look is news
	m.Prober.Run(ctx, interval, func() {
		m.Kernel.Look()
		reasons, _ := m.Health()
		if now := fmt.Sprint(reasons); now != told {
			told = now
			tell()
		}
	})
	return nil
}

// Hardware returns a reading as JSON of at most limit bytes. It is nil before the first look at the GPUs.
func (m *Machine) Hardware(limit int) json.RawMessage {
	h, ok := m.Read()
	if !ok {
		return nil
	}
	raw, cut := fit(h, limit)
	m.cut = cut
	return raw
}

// fit encodes a reading in at most limit bytes, and says in cut what it left out. If the reading is too long, fit first leaves out
// the values that lists do not show, and then as many GPUs as it must.
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

// Read reads the host now and takes the newest reading of the GPUs. ok is false before the first look at them has ended.
func (m *Machine) Read() (h wire.Hardware, ok bool) {
	h = host.Read("/", m.stateDir)
	m.cost = host.Cost("/")
	if m.Prober == nil {
		h.Probe = wire.Probe{State: wire.ProbeAbsent, Error: "the agent was told not to look at GPUs (--no-gpu)"}
	} else {
		m.Prober.Reading().Fill(&h)
		h.Xids = m.Kernel.Report(m.Prober.Locate)
	}
	if m.Runs != nil {
		h.Runs = m.Runs()
	}
	if h.GPUs == nil {
		h.GPUs = []wire.GPU{}
	}
	return h, h.Probe.State != ""
}

// Health lists the reasons against work on this machine, in the words of package wire. It is nil before the first look. If the
// agent must not look at GPUs, there is no reason.
func (m *Machine) Health() (reasons []string, detail map[string]string) {
	if m.Prober == nil {
		return []string{}, nil
	}
	return m.Prober.Reading().Health()
}

// Seen returns how many GPUs exist, nil if no look could tell.
func (m *Machine) Seen() *int {
	if m.Prober == nil {
		return nil
	}
	return m.Prober.Reading().Seen
}

// Expect sets how many GPUs are expected to the number that the gateway has on record.
func (m *Machine) Expect(n int) {
	if m.Prober != nil {
		m.Prober.Expect(n)
	}
}

// Notices returns what a person should know of this machine.
func (m *Machine) Notices() (all []string) {
	if m.cut != "" {
		all = append(all, m.cut)
	}
	if m.Prober != nil && m.Prober.Trouble() != "" {
		all = append(all, m.Prober.Trouble())
	}
	if m.Prober != nil && !m.Prober.LessUntil().IsZero() {
		all = append(all, "nvidia-smi was slow: until "+m.Prober.LessUntil().UTC().Format("15:04 MST")+
			" it is asked for fewer values, and the others are unknown")
	}
	return all
}

// Cost returns what the agent itself used at the last reading.
func (m *Machine) Cost() wire.Cost {
	cost := m.cost
	if m.Prober != nil {
		cost.ProbeMillis = m.Prober.Reading().Probe.TookMS
	}
	return cost
}

// Place returns the provider of the machine and its instance id there. What the operator says wins over what can be found out here. An
// instance id that was found counts only for the provider with which it was found.
func Place(ctx context.Context, getenv func(string) string, provider, instanceID string) (string, string) {
	if instanceID != "" {
		return provider, instanceID
	}
	foundProvider, foundInstance := host.Detector{Env: getenv}.Detect(ctx)
	if provider != "" && provider != foundProvider {
		return provider, ""
	}
	return foundProvider, foundInstance
}
