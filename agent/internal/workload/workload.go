// Package workload runs containers on the node, with docker, podman or nerdctl, whichever is there. It installs none of them. Programs that
// run without a container are workloads too: package process has them, and they share their names with the containers.
//
// What belongs to muster is told by labels on the containers alone, so that the agent finds its containers again after a restart, and
// never touches another one. An image is named by its digest, pulled by it, and checked before it runs. No param can become an option
// of the engine's command, and nothing goes through a shell.
package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"muster/agent/internal/child"
	"muster/agent/internal/process"
	"muster/agent/internal/task"
	"muster/agent/wire"
)

// defaultSettle is how long a new container is watched. A wrong command, a missing file or a missing driver shows within that time.
const defaultSettle = 3 * time.Second

// Host is the machine that the containers run on.
type Host struct {
	Runs   process.Host  // programs without a container
	State  string        // the agent's state directory; it holds which engines have been used
	Node   string        // the node's id, for a label; empty: not said
	Env    []string      // what the engines' commands get; nil: the agent's own, without its variables
	Settle time.Duration // how long a new container is watched; 0: 3 s
	// Exec runs a command of an engine to its end; nil: child.Run does.
	Exec func(ctx context.Context, c child.Command) error
}

func (h Host) env() []string {
	if h.Env != nil {
		return slices.Clone(h.Env)
	}
	return child.Environ()
}

func (h Host) exec() func(context.Context, child.Command) error {
	if h.Exec != nil {
		return h.Exec
	}
	return child.Run
}

func (h Host) settle() time.Duration { return cmp.Or(h.Settle, defaultSettle) }

// view is what the engines of the node say.
type view struct {
	found   []container
	engines []engine // that answer
	silent  []silent
	// trouble says that there may be more containers: an engine that was used here does not answer now. What was found is true.
	trouble error
}

// look asks all engines for the containers of a workload; the empty name stands for all workloads.
func (h Host) look(ctx context.Context, name string) view {
	var v view
	v.engines, v.silent = h.engines(ctx)
	var failed []error
	for _, e := range v.engines {
		some, err := e.workloads(ctx, name)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s cannot say which containers there are: %w", e.name, err))
		}
		v.found = append(v.found, some...)
	}
	for _, s := range v.silent {
		if h.used(s.name) {
			failed = append(failed, fmt.Errorf("%s has run workloads on this node, and does not answer now: %w; start it again first (%s)",
				s.name, s.err, startHint(s.name)))
		}
	}
	sort.Slice(v.found, func(i, j int) bool { return v.found[i].workload() < v.found[j].workload() })
	v.trouble = errors.Join(failed...)
	return v
}

// Allocations returns the allocations of muster's containers, by the first 12 digits of their ids. It asks no engine if none was used.
func (h Host) Allocations(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	if !slices.ContainsFunc(order[:], h.used) {
		return all, nil
	}
	v := h.look(ctx, "")
	for _, c := range v.found {
		all[c.ID[:min(12, len(c.ID))]] = c.label(labelAllocation)
	}
	return all, v.trouble
}

// runs are the programs of this name; the empty name stands for all of them.
func (h Host) runs(name string) (all []wire.Run) {
	for _, r := range h.Runs.Runs() {
		if name == "" || r.Name == name {
			all = append(all, r)
		}
	}
	return all
}

// Process starts a program. Its name must be no container's.
func (h Host) Process(ctx context.Context, job task.Job, params *wire.WorkloadProcess) task.Outcome {
	var holders []process.Holder
	v := h.look(ctx, "")
	if v.trouble != nil {
		fmt.Fprintf(job.Output, "%v\n", v.trouble)
	}
	for _, c := range v.found {
		if c.workload() == params.Name {
			return task.Failf("the name %s is a container's on this node, %s in %s: stop that first (workload.stop name=%s), or use another name",
				params.Name, c.State.Status, c.engine.name, params.Name)
		}
		if gpus := c.label(labelGPUs); c.alive() && gpus != "" {
			holders = append(holders, process.Holder{Name: "the container " + c.workload(), GPUs: strings.Split(gpus, ",")})
		}
	}
	return h.Runs.Start(ctx, job, params, holders)
}

// one gives the container of a workload. If it is not there, the failure names those that are.
func (h Host) one(ctx context.Context, name string) (container, error) {
	v := h.look(ctx, "")
	for _, c := range v.found {
		if c.workload() == name {
			return c, nil
		}
	}
	if v.trouble != nil {
		return container{}, v.trouble
	}
	there := names(v.found)
	for _, r := range h.runs("") {
		there = append(there, r.Name)
	}
	hint := "it has " + strings.Join(there, ", ")
	if len(there) == 0 {
		hint = "it has none at all"
	}
	return container{}, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no workload %q on this node", name), hint)
}

func names(all []container) (texts []string) {
	for _, c := range all {
		texts = append(texts, c.workload())
	}
	return texts
}
