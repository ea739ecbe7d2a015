package main

import (
	"context"
	"encoding/json"
	"os"

	"muster/agent/internal/identity"
)

const probeExamples = `  muster-agent probe
  muster-agent probe -o table
  muster-agent probe --nvidia-smi /opt/bin/nvidia-smi
  muster-agent probe --capture > capture.txt     for a bug report: identifiers are masked
`

func (p program) probe(ctx context.Context, args []string) error {
	f := p.flags("probe", "Looks at this machine once and prints what the agent would report.", probeExamples)
	nvidiaSMI := f.String("nvidia-smi", "nvidia-smi", "`PATH` or name of nvidia-smi")
	noGPU := f.Bool("no-gpu", false, "do not look at GPUs")
	capture := f.Bool("capture", false, "print nvidia-smi's own output with identifiers masked")
	state := f.String("state", identity.DefaultPath(p.getenv, os.Geteuid()), "state `DIR`: the disk that is reported is the one that holds it")
	output := f.String("o", "json", "`FORMAT`: json, or table for people")
	if err := f.parse(args); err != nil {
		return err
	}
	if *output != "table" && *output != "json" {
		return usagef("-o is table or json")
	}
	if *capture && *noGPU {
		return usagef("--capture and --no-gpu exclude each other")
	}
	m := newMachine(*nvidiaSMI, *noGPU, 0, *state)
	if m.prober != nil {
		m.prober.ReadOnly = true
	}
	if *capture {
		raw, err := m.prober.Capture(ctx)
		p.stdout.Write(raw)
		return err
	}
	if m.prober != nil {
		m.prober.Probe(ctx)
	}
	h, _ := m.read()
	if *output == "table" {
		reasons, detail := m.health()
		p.printProbe(h, reasons, detail)
		return nil
	}
	encoder := json.NewEncoder(p.stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(h)
}
