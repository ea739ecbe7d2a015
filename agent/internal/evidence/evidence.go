// Package evidence looks whether a machine is what a profile asks for, or what is paid for.
//
// Each check says what it saw, and ends as ok, failed or unknown. If something cannot be looked at, the check is unknown, and never ok. In
// a container the host's own files prove nothing, so whatever relies on them is unknown there. Nothing is changed on the machine: a file
// that measures the disk has no name from its beginning, and a container that tries the GPUs is removed.
package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/internal/host"
	"muster/agent/internal/task"
	"muster/agent/wire"
)

// Checker looks at this machine. Its fields must not change after the first call.
type Checker struct {
	Root  string // where the machine's files are; empty: /
	State string // a folder on the disk that is measured
	// Look looks at the GPUs now, and Ask returns what nvidia-smi prints. nil: the agent was told not to look at GPUs.
	Look func(ctx context.Context) gpu.Reading
	Ask  func(ctx context.Context, args ...string) ([]byte, error)
	// Engines returns the container runtimes that answer, and Trial runs a container on all GPUs to its end.
	Engines func(ctx context.Context) ([]string, error)
	Trial   func(ctx context.Context, job task.Job, params wire.WorkloadLaunch, began func()) (code int, last string, err error)
	Now     func() time.Time // nil: time.Now
}

// finding is how a check ended.
type finding struct{ state, saw string }

func well(format string, args ...any) finding {
	return finding{wire.CheckOK, fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) finding {
	return finding{wire.CheckFailed, fmt.Sprintf(format, args...)}
}

func unknown(format string, args ...any) finding {
	return finding{wire.CheckUnknown, fmt.Sprintf(format, args...)}
}

// run is one run of checks.
type run struct {
	Checker
	tree
	job     task.Job
	params  *wire.NodeCheck
	facts   wire.Facts
	figures []wire.Figure

	probe  wire.Probe
	gpus   []wire.GPU               // rows that were read now
	links  map[string]*wire.NVLinks // by UUID; nil: not known
	loaded map[string]int           // the best PCIe generation under load, by UUID
}

// askTime bounds each question to nvidia-smi, with the wait for a look that is under way.
const askTime = time.Minute

// Do does a task node.check. The value of the outcome is the evidence.
func (c Checker) Do(ctx context.Context, job task.Job, params *wire.NodeCheck) task.Outcome {
	began := c.now()
	r := &run{Checker: c, tree: tree{host.Tree(c.Root)}, job: job, params: params, figures: []wire.Figure{}, loaded: map[string]int{}}
	r.look(ctx)
	evidence := wire.Evidence{Profile: params.Profile, BootID: wire.Plain(r.Text("proc/sys/kernel/random/boot_id"), wire.MaxRunID), At: began,
		Checks: r.checks(ctx), Facts: r.facts, Figures: r.figures}
	evidence.TookMS = c.now().Sub(began).Milliseconds()
	raw, err := json.Marshal(evidence)
	values := wire.TaskValues{wire.ValueEvidence: raw}
	if err == nil {
		_, err = wire.ReadEvidence(values) // as the gateway will
	}
	if err != nil {
		return task.Failed(err)
	}
	return task.Outcome{Values: values}
}

func (c Checker) now() time.Time {
	if c.Now == nil {
		return time.Now().UTC()
	}
	return c.Now().UTC()
}

// checks makes the checks of the params, and gives them in their order. The program comes first, because it puts the GPUs under load.
func (r *run) checks(ctx context.Context) []wire.Check {
	all := make([]wire.Check, len(r.params.Checks))
	order := slices.Clone(r.params.Checks)
	sort.SliceStable(order, func(i, j int) bool { return order[i] == wire.CheckProgram && order[j] != wire.CheckProgram })
	for _, name := range order {
		f := r.check(ctx, name)
		one := wire.Check{Name: name, State: f.state, Saw: wire.Plain(f.saw, wire.MaxSaw)}
		fmt.Fprintf(r.job.Output, "%-11s %-7s %s\n", one.Name, one.State, one.Saw)
		all[slices.Index(r.params.Checks, name)] = one
	}
	return all
}

func (r *run) check(ctx context.Context, name string) finding {
	if err := context.Cause(ctx); err != nil {
		return unknown("it was not looked at: %v", err)
	}
	switch name {
	case wire.CheckGPUs:
		return r.named()
	case wire.CheckDriver:
		return r.driver()
	case wire.CheckFabric:
		return r.each(r.fabric)
	case wire.CheckNVLink:
		return r.each(r.nvlink)
	case wire.CheckECC:
		return r.each(ecc)
	case wire.CheckRows:
		return r.each(rows)
	case wire.CheckPCIe:
		return r.pcie()
	case wire.CheckRuntime:
		return r.runtime(ctx)
	case wire.CheckDiskRoom:
		return r.diskRoom()
	case wire.CheckDiskSpeed:
		return r.diskSpeed(ctx)
	case wire.CheckDownload:
		return r.way(ctx, name, nil, wire.MaxTaskPiece)
	case wire.CheckUpload:
		return r.way(ctx, name, random(wire.MaxTaskPiece), 0)
	case wire.CheckProgram:
		return r.program(ctx)
	}
	return r.hostCheck(ctx, name)
}

// hostCheck is a check of the machine itself.
func (r *run) hostCheck(ctx context.Context, name string) finding {
	if r.facts.Contained {
		return unknown("the agent is in a container, which does not show its host")
	}
	switch name {
	case wire.CheckKVM:
		return r.kvm()
	case wire.CheckIOMMU:
		return r.eachCard(r.iommu)
	case wire.CheckVFIO:
		return r.eachCard(r.vfio)
	case wire.CheckOVS:
		return r.ovs(ctx)
	case wire.CheckLibvirt:
		return r.libvirt(ctx)
	case wire.CheckBareMetal:
		return r.bareMetal()
	}
	return unknown("this agent does not know the check: update it")
}

func (r *run) figure(name string, value float64, unit string) {
	r.figures = append(r.figures, wire.Figure{Name: name, Value: value, Unit: unit})
}

// runtime looks for a container runtime.
func (r *run) runtime(ctx context.Context) finding {
	names, err := r.Engines(ctx)
	if err != nil {
		return failed("%v", err)
	}
	return well("%s", list(names))
}

// look reads the facts and the GPUs.
func (r *run) look(ctx context.Context) {
	r.facts = r.read()
	r.facts.Contained = r.Contained()
	if r.Look != nil {
		r.lookAtGPUs(ctx)
	}
	if r.facts.Contained {
		r.facts.PCI = r.own(r.facts.PCI)
	}
}

// own are the devices that a container was given, as far as that is known: those that its driver names. It sees all of its host.
func (r *run) own(all []wire.PCIDevice) []wire.PCIDevice {
	if r.facts.Accelerators == nil {
		return nil
	}
	return slices.DeleteFunc(all, func(d wire.PCIDevice) bool {
		return !slices.ContainsFunc(r.facts.Accelerators, func(a wire.AcceleratorID) bool { return a.Address == d.Address })
	})
}
