package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"muster/agent/internal/process"
	"muster/agent/internal/task"
	"muster/agent/wire"
)

// maxRows bounds what a report says about containers, in bytes of JSON. The rest of TaskValues is for what stands around it.
const maxRows = wire.MaxTaskValues - 4<<10

// row is what a report says about one workload.
type row struct {
	Name       string     `json:"name"`
	Image      string     `json:"image"`
	State      string     `json:"state"`
	ExitCode   *int       `json:"exit_code"` // nil: it has not ended
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
	Task       string     `json:"task"`
	Runtime    string     `json:"runtime"`
	GPUs       []string   `json:"gpus"`
	Program    string     `json:"program,omitempty"` // of one without a container
	User       string     `json:"user,omitempty"`
	Why        string     `json:"why,omitempty"` // what else is known of its end
	Allocation string     `json:"allocation,omitempty"`
}

func rowOf(r wire.Run) row {
	return row{Name: r.Name, State: r.State, ExitCode: r.ExitCode, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, Task: r.Task,
		Runtime: process.Runtime, GPUs: r.GPUs, Program: r.Program, User: r.User, Why: r.Why,
		Allocation: r.Allocation}
}

func newRow(c container) row {
	r := row{Name: c.workload(), Image: c.label(labelImage), State: c.State.Status, StartedAt: moment(c.State.StartedAt),
		Task: c.label(labelTask), Runtime: c.engine.name, GPUs: []string{}, Allocation: c.label(labelAllocation)}
	if gpus := c.label(labelGPUs); gpus != "" {
		r.GPUs = strings.Split(gpus, ",")
	}
	if !c.alive() {
		r.FinishedAt = moment(c.State.FinishedAt)
	}
	if r.FinishedAt != nil {
		r.ExitCode = &c.State.ExitCode
	}
	return r
}

// Status says how the workloads are, as a table and as values.
func (h Host) Status(ctx context.Context, job task.Job, params *wire.WorkloadStatus) task.Outcome {
	v := h.look(ctx, params.Name)
	var all []row
	for _, r := range h.runs(params.Name) {
		all = append(all, rowOf(r))
	}
	for _, c := range v.found {
		all = append(all, newRow(c))
	}
	rows := []row{}
	size := 0
	for _, r := range all {
		raw, _ := json.Marshal(r) // texts and numbers can always be written
		size += len(raw) + 1
		if size > maxRows {
			break
		}
		rows = append(rows, r)
	}
	runtimes := []string{}
	for _, e := range v.engines {
		runtimes = append(runtimes, e.name)
	}
	table(job, rows)
	return task.Ended(v.trouble, map[string]any{"workloads": rows, "left_out": len(all) - len(rows), "runtimes": runtimes})
}

func table(job task.Job, rows []row) {
	if len(rows) == 0 {
		fmt.Fprintln(job.Output, "no workloads")
		return
	}
	lines := [][]string{{"NAME", "STATE", "STARTED", "RUNTIME", "IMAGE OR PROGRAM"}}
	for _, r := range rows {
		state := r.State
		if r.ExitCode != nil {
			state = fmt.Sprintf("%s (%d)", r.State, *r.ExitCode)
		}
		started := "-"
		if r.StartedAt != nil {
			started = r.StartedAt.Format(time.RFC3339)
		}
		lines = append(lines, []string{r.Name, state, started, r.Runtime, r.Image + r.Program})
	}
	widths := make([]int, len(lines[0])-1) // all but the last, which ends the line
	for _, line := range lines {
		for i := range widths {
			widths[i] = max(widths[i], len(line[i]))
		}
	}
	for _, line := range lines {
		for i, width := range widths {
			fmt.Fprintf(job.Output, "%-*s  ", width, line[i])
		}
		fmt.Fprintln(job.Output, line[len(widths)])
	}
}
