package main

import (
	"context"
	"encoding/json"
	"os"

	"muster/agent/internal/identity"
)

const probeExamples = `  muster-agent probe
  muster-agent probe --nvidia-smi /opt/bin/nvidia-smi
  muster-agent probe --capture > capture.txt     for a bug report: identifiers are masked
`

func (p program) probe(ctx context.Context, args []string) error {
	f := p.flags("probe", "Looks at this machine once and prints what the agent would report, as JSON.", probeExamples)
	nvidiaSMI := f.String("nvidia-smi", "nvidia-smi", "`PATH` or name of nvidia-smi")
	noGPU := f.Bool("no-gpu", false, "do not look at GPUs")
	capture := f.Bool("capture", false, "print nvidia-smi's own output with identifiers masked")
	state := f.String("state", identity.DefaultPath(p.getenv, os.Geteuid()), "state `DIR`: the disk that is reported is the one that holds it")
	if err := f.parse(args); err != nil {
		return err
	}
	if *capture && *noGPU {
		return usagef("--capture and --no-gpu exclude each other")
	}
	m := newMachine(*nvidiaSMI, *noGPU, 0, *state)
	if *capture {
		raw, err := m.prober.Capture(ctx)
		p.stdout.Write(raw)
		return err
	}
	if m.prober != nil {
		m.prober.Probe(ctx)
	}
	h, _ := m.read()
	encoder := json.NewEncoder(p.stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(h)
}
