// Package clean ends what an allocation has left on its GPUs, and says what is still in the way.
//
// It ends the programs and containers of the allocation and removes its accounts, and touches nothing else: a process of anybody else is
// named, and never killed. A GPU is clean only if everything was looked at and nothing was found. If something cannot be looked at, it
// counts as left.
package clean

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"muster/agent/internal/account"
	"muster/agent/internal/gpu"
	"muster/agent/internal/task"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

const (
	waitPace = 3 * time.Second  // between two looks for what is in the way
	waitTime = time.Minute      // for it to go: other work on this node waits meanwhile, and the gateway asks again
	lastTime = 10 * time.Second // of the task that is kept for its result
	lookTime = time.Minute      // for one look
)

// Cleaner cleans the GPUs of this machine. Its fields must not change after the first call.
type Cleaner struct {
	Root string // where the machine's files are; empty: /
	// Look looks at the GPUs now, and Ask returns what nvidia-smi prints. nil: the agent was told not to look at GPUs.
	Look func(ctx context.Context) gpu.Reading
	Ask  func(ctx context.Context, args ...string) ([]byte, error)
	// End ends the programs and containers of an allocation, and returns their names.
	End func(ctx context.Context, out io.Writer, allocation string) ([]string, error)
	// EndAccount removes an account with its home directory if muster made it for this allocation. Any other account of that name stays,
	// and is no error: it is in nobody's way.
	EndAccount func(ctx context.Context, name, allocation string, out io.Writer) (account.Deprovisioned, error)
}

// Do does a task gpu.clean. The value of the outcome is the cleaning.
func (c Cleaner) Do(ctx context.Context, job task.Job, params *wire.GPUClean) task.Outcome {
	done := wire.Cleaning{Removed: []string{}}
	left := c.end(ctx, job, params, &done)
	left = append(left, c.wait(ctx, job, params)...)
	done.Left = shortened(left)
	done.Clean = len(left) == 0
	for _, l := range done.Left {
		fmt.Fprintf(job.Output, "left: %s: %s\n", strings.TrimSpace(l.GPU+" "+l.What), l.Next)
	}
	raw, err := json.Marshal(done)
	values := wire.TaskValues{wire.ValueCleaning: raw}
	if err == nil {
		_, err = wire.ReadCleaning(values) // as the gateway will
	}
	if err != nil {
		return task.Failed(err)
	}
	return task.Outcome{Values: values}
}

// end ends what belongs to the allocation, and gives what it could not.
func (c Cleaner) end(ctx context.Context, job task.Job, params *wire.GPUClean, done *wire.Cleaning) (left []wire.Left) {
	ended, err := c.End(ctx, job.Output, params.Allocation)
	for _, name := range ended {
		done.Removed = append(done.Removed, "the workload "+name)
	}
	if err != nil {
		left = append(left, wire.Left{What: fmt.Sprintf("workloads of the allocation: %v", err),
			Next: "muster task run NODE workload.status shows them, and workload.stop ends one"})
	}
	for _, name := range params.Users {
		gone, err := c.EndAccount(ctx, name, params.Allocation, job.Output)
		for _, one := range gone.Removed {
			done.Removed = append(done.Removed, "the account "+one)
		}
		if err != nil {
			left = append(left, wire.Left{What: fmt.Sprintf("the account %s: %v", name, err),
				Next: "once that is gone: muster task run NODE deprovision_user remove_home=true username=" + name})
		}
	}
	done.Removed = done.Removed[:min(len(done.Removed), wire.MaxLeft)]
	return left
}

// wait looks until nothing is in the way, or no time is left, and gives what is there then.
func (c Cleaner) wait(ctx context.Context, job task.Job, params *wire.GPUClean) []wire.Left {
	until := time.Now().Add(waitTime)
	if end, limited := ctx.Deadline(); limited && end.Add(-lastTime).Before(until) {
		until = end.Add(-lastTime)
	}
	for told := ""; ; {
		left := c.look(ctx, params.GPUs)
		if len(left) == 0 || !time.Now().Add(waitPace).Before(until) || !transport.Sleep(ctx, waitPace) {
			return left
		}
		if now := left[0].What; now != told {
			told = now
			fmt.Fprintf(job.Output, "waiting: %s\n", now)
		}
	}
}

// look gives what is in the way of the GPUs now.
func (c Cleaner) look(ctx context.Context, uuids []string) (left []wire.Left) {
	s := c.see(ctx)
	if s.trouble != "" {
		return []wire.Left{{What: s.trouble, Next: "muster node show NODE says more; muster looks again"}}
	}
	if s.holders.hidden > 0 {
		left = append(left, wire.Left{What: fmt.Sprintf("what %d processes have open cannot be seen", s.holders.hidden),
			Next: "run the agent as root; in a container also with the capability SYS_PTRACE"})
	}
	for _, uuid := range uuids {
		left = append(left, s.judge(uuid)...)
	}
	return left
}

// shortened is as much as a cleaning can have, as lines.
func shortened(left []wire.Left) []wire.Left {
	all := []wire.Left{}
	for _, l := range left {
		l.What = wire.Plain(l.What, wire.MaxSaw)
		l.Next = wire.Plain(l.Next, wire.MaxSaw)
		if !slices.Contains(all, l) && len(all) < wire.MaxLeft {
			all = append(all, l)
		}
	}
	return all
}
