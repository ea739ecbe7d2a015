package evidence

import (
	"context"
	"errors"
	"sync"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/wire"
)

const (
	samplePace = 3 * time.Second  // between two looks at the links while the program runs
	otherTime  = 90 * time.Second // of the task that is kept for the other checks
)

// program runs the operator's container on all GPUs, and looks at their links meanwhile.
func (r *run) program(ctx context.Context) finding {
	if r.params.Image == "" {
		return unknown("no image was named")
	}
	if end, limited := ctx.Deadline(); limited {
		margin := min(otherTime, time.Until(end)/2)
		bounded, cancel := context.WithDeadlineCause(ctx, end.Add(-margin),
			errors.New("the time of the task was over: give it more (timeout_seconds)"))
		defer cancel()
		ctx = bounded
	}
	sampling, stop := context.WithCancel(ctx)
	defer stop()
	var sampler sync.WaitGroup
	code, last, err := r.Trial(ctx, r.job, wire.WorkloadLaunch{Image: r.params.Image, Command: r.params.Command, Login: r.params.Login,
		GPUs: []string{wire.AllGPUs}}, func() { sampler.Go(func() { r.sample(sampling) }) })
	stop()
	sampler.Wait()
	switch {
	case err != nil:
		return unknown("%v", err)
	case code != 0:
		return failed("exit code %d; its last words: %s", code, last)
	}
	return well("exit code 0; its last words: %s", last)
}

// sample notes the best generation of each link until ctx is done. A GPU that does not work says nothing of its link under load.
func (r *run) sample(ctx context.Context) {
	if r.Look == nil {
		return
	}
	for first := true; first || transport.Sleep(ctx, samplePace); first = false {
		_, gpus := r.fresh(ctx)
		for _, g := range gpus {
			busy := g.UtilizationPercent != nil && *g.UtilizationPercent > 0 || g.PerformanceState != nil && *g.PerformanceState == 0
			if busy && g.PCIe != nil && g.PCIe.Generation != nil {
				r.loaded[g.UUID] = max(r.loaded[g.UUID], *g.PCIe.Generation)
			}
		}
	}
}
