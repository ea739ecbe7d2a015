package command

import (
	"context"

	"muster/agent/internal/identity"
)

const probeExamples = `  muster-agent probe
  muster-agent probe -o table
  muster-agent probe --nvidia-smi /opt/bin/nvidia-smi
  muster-agent probe --capture > capture.txt   for a bug report; ids are masked
`

// Probe is the command probe.
func Probe(ctx context.Context, p Program, args []string) error {
	f := p.Flags("probe", "Looks at this machine once and prints what the agent would report.", probeExamples)
	nvidiaSMI := f.String("nvidia-smi", "nvidia-smi", "`PATH` or name of nvidia-smi")
	noGPU := f.Bool("no-gpu", false, "do not look at GPUs")
	capture := f.Bool("capture", false, "print nvidia-smi's own output with identifiers masked")
	state := f.String("state", identity.DefaultPath(p.Getenv, p.System.UID), "state `DIR`: the disk that is reported is the one that holds it")
	output := f.String("o", JSON, "`FORMAT`: json, or table for people")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := CheckFormat(*output); err != nil {
		return err
	}
	if *capture && *noGPU {
		return Usagef("--capture and --no-gpu exclude each other")
	}
	m := NewMachine(*nvidiaSMI, *noGPU, 0, *state)
	if m.Prober != nil {
		m.Prober.ReadOnly = true // the state directory may be that of an agent at work
		m.Kernel.ReadOnly = true
	}
	if *capture {
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
	if *output == Table {
		reasons, detail := m.Health()
		table{p.Stdout}.print(h, reasons, detail)
		return nil
	}
	return p.PrintJSON(h)
}
