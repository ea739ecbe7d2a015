package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"muster/agent/internal/command"
	"muster/agent/internal/heartbeat"
	"muster/agent/internal/identity"
	"muster/agent/internal/logs"
	"muster/agent/internal/update"
	"muster/agent/internal/workload"
	"muster/agent/wire"
)

// loop is one thing that the agent does for as long as it runs.
type loop struct {
	name string
	run  func(context.Context) error // runs until ctx is done; an error before that ends the agent
}

// loops are everything that an enrolled agent does, in the order in which they start. They end in the reverse order. The heartbeat ends
// first, because it reports what the others see.
func (a *foreground) loops(state identity.State) ([]loop, error) {
	m := command.NewMachine(a.NvidiaSMI, a.NoGPU, state.Gateway.GPUsExpected, a.State)
	news := make(chan struct{}, 1) // one entry is enough: a heartbeat reports everything that is new
	tell := func() {
		select {
		case news <- struct{}{}:
		default: // a report is due already
		}
	}
	runs := a.runs(m, news)
	workloads := workload.Host{State: a.State, Node: state.NodeID, Runs: runs}
	m.Runs = runs.Runs
	if m.Prober != nil {
		m.Prober.Who = a.owners(runs, workloads).Fill
	}
	reader := a.logs(workloads)
	sessions := a.sessions(runs.Accounts, reader)
	tasks := a.tasks(state, m, workloads, sessions, tell)
	updates := a.updates(state, holdBoth(tasks, sessions), tasks.Answered, tell)
	shipping := a.shipping(state, reader)
	beat, err := heartbeat.New(heartbeat.Config{
		Client: a.Client, Directory: a.Directory, State: state, Interval: a.Interval, Agent: a.Agent, Wake: news,
		Fill: a.reporting(m, updates, shipping), Expect: m.Expect,
		Notices: func() []string { return slices.Concat(a.notices(), m.Notices(), tasks.Notices(), updates.Notices()) },
		Work:    updates.Waiting(tasks.Wait), Heard: heard(updates, shipping), Pace: updates.Pace, Spare: updates.Spare,
		Status: a.Status, Logger: a.Log, GPUs: m.Summary, Progress: a.notifier.Progress,
	})
	if err != nil {
		return nil, err
	}
	return []loop{
		{"memory", giveMemoryBack},
		{"GPUs", func(ctx context.Context) error { return m.Watch(ctx, a.gpuInterval(state), tell) }},
		{"sessions", sessions.Run},
		{"runs", runs.Watch},
		{"tasks", tasks.Run},
		{"updates", updates.Run},
		{"log shipping", shipping.Run},
		{"ending", a.awaitEnd},
		{"heartbeat", beat.Run},
	}, nil
}

// reporting puts into a heartbeat what the parts of the agent know.
func (a *foreground) reporting(m *command.Machine, updates *update.Updater, shipping *logs.Shipper) func(*wire.HeartbeatRequest) {
	return func(r *wire.HeartbeatRequest) {
		r.Hardware = m.Hardware(heartbeat.MostHardware)
		r.Cost = m.Cost() // of the reading
		r.Cost.Starts = a.starts.Report(time.Now())
		r.Health, r.HealthDetail = m.Health()
		r.GPUsSeen = m.Seen()
		r.Agent.ReleaseEnds = updates.Ends()
		r.Update = updates.Report()
		r.Unshipped = shipping.Unshipped()
	}
}

// gpuInterval is the time between two looks at the GPUs. What the operator says wins. Otherwise it is the interval of the heartbeats,
// because nobody sees a look in between. It is never shorter than command.LeastGPUInterval.
func (a *foreground) gpuInterval(state identity.State) time.Duration {
	return max(cmp.Or(a.GPUInterval, a.Interval, heartbeat.Wish(state.Gateway.IntervalSeconds)), command.LeastGPUInterval)
}

// runLoops starts the loops in their order. When ctx is done, or when one of them ends by itself, it ends all of them one after the
// other, the last one first, and waits for each. The error is that of the loop that ended by itself.
//
// Each loop has a context of its own, which does not end with ctx: else all would end at once, and in no order. If a part has failed,
// that is the cause by which the others end.
func runLoops(ctx context.Context, loops []loop) error {
	ended := make(chan error, len(loops))
	var ends []func(why error)
	for _, one := range loops {
		own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		gone := make(chan struct{})
		ends = append(ends, func(why error) { cancel(why); <-gone })
		go func() {
			defer close(gone)
			err := one.run(own)
			if err == nil && own.Err() == nil {
				err = fmt.Errorf("the part %q of the agent ended by itself", one.name)
			}
			ended <- err
		}()
	}
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-ended:
	}
	why := failed
	if isAsked(failed) {
		why = nil
	}
	for i := len(ends) - 1; i >= 0; i-- {
		ends[i](why)
	}
	return failed
}
