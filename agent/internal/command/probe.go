package command

import (
	"context"

	"muster/agent/flags"
	"muster/agent/internal/identity"
)

const probeExamples = `  muster-agent probe
  muster-agent probe -o table
  muster-agent probe --nvidia-smi /opt/bin/nvidia-smi
  muster-agent probe --capture > capture.txt   for a bug report; ids are masked
`

// Probe runs the command probe.
func Probe(ctx context.Context, p Program, args []string) error {
	o := struct {
		NvidiaSMI, State, O string
		NoGPU, Capture      bool
	}{NvidiaSMI: "nvidia-smi", State: identity.DefaultPath(p.Getenv, p.System.UID), O: JSON}
	err := p.Flags("probe", "Looks at this machine once and prints what the agent would report.", probeExamples,
		nvidiaFlag(), noGPUFlag(), outputFlag("FORMAT: json, or table for people"),
		stateFlag(": the disk that is reported is the one that holds it"),
		flags.Flag{Name: "capture", Off: true, Usage: "print nvidia-smi's own output with identifiers masked"}).Parse(args, &o)
	if err != nil {
		return err
	}
	if err := CheckFormat(o.O); err != nil {
		return err
	}
	if o.Capture && o.NoGPU {
		return Usagef("--capture and --no-gpu exclude each other")
	}
	m := NewMachine(o.NvidiaSMI, o.NoGPU, 0, o.State)
	if m.Prober != nil {
		m.Prober.ReadOnly = true // the state directory may be that of an agent at work
		m.Kernel.ReadOnly = true
	}
	if o.Capture {
		raw, err := m.Prober.Capture(ctx)
		p.Stdout.Write(raw)
		return err
	}
	if m.Prober != nil {
		m.Prober.Probe(ctx)
		m.Kernel.Look()
		defer m.Kernel.Close()
	}
	h, _ := m.Read()
	if o.O == Table {
		reasons, detail := m.Health()
		table{p.Stdout}.print(h, reasons, detail)
		return nil
	}
	return p.PrintJSON(h)
}
