package process_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
)

// TestGPUs: a program sees the GPUs that it was given, and the next one gets others.
func TestGPUs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	zero := int64(0)
	b.GPUs = func(context.Context) (wire.Probe, []wire.GPU) {
		at := time.Now()
		return wire.Probe{State: wire.ProbeOK, SampledAt: &at}, []wire.GPU{{Index: 0, UUID: "GPU-00000000-1", MemoryUsedMiB: &zero}, {Index: 1, UUID: "GPU-00000000-2", MemoryUsedMiB: &zero}}
	}
	for _, name := range []string{"a", "b"} {
		o := b.start(wire.WorkloadProcess{Name: name, GPUCount: 1, Command: []string{"sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 1000"}})
		if o.Error != "" {
			t.Fatalf("%+v", o)
		}
	}
	if got := b.awaitText("a", "\n") + b.awaitText("b", "\n"); got != "GPU-00000000-1\nGPU-00000000-2\n" {
		t.Errorf("they see %q", got)
	}
	o := b.start(wire.WorkloadProcess{Name: "c", GPUCount: 1, Command: []string{"true"}})
	if o.Code != wire.CodeTaskForbidden ||
		!strings.Contains(o.Error, "of the 2 GPUs of this node 0 are free, and 1 is wanted: GPU 0: the run a has it; GPU 1: the run b has it") ||
		strings.Contains(o.Error, "gpus=") { // muster run has no such option
		t.Errorf("%+v", o)
	}
}

// TestGPUsCanceled: what is canceled during a look at the GPUs is not started.
func TestGPUsCanceled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	canceled := errors.New("somebody canceled the task")
	for _, p := range []wire.WorkloadProcess{{GPUs: []string{"GPU-00000000-1"}}, {GPUCount: 1}} {
		ctx, cancel := context.WithCancelCause(b.Context())
		b.GPUs = func(context.Context) (wire.Probe, []wire.GPU) {
			cancel(canceled)
			at := time.Now()
			return wire.Probe{State: wire.ProbeOK, SampledAt: &at}, []wire.GPU{{UUID: "GPU-00000000-1", MemoryUsedMiB: new(int64)}}
		}
		p.Name = "a"
		p.Command = []string{"true"}
		o := b.Start(ctx, job("t-a-"+b.State, b.out), &p, nil)
		if o.Error != canceled.Error() || len(b.Runs()) > 0 {
			t.Errorf("%+v, %+v", o, b.Runs())
		}
	}
}

// TestGPUsUnknown: no GPU is chosen from an old reading.
func TestGPUsUnknown(t *testing.T) {
	b := newBench(t)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.Now = func() time.Time { at = at.Add(10 * time.Second); return at }
	sampled := at
	zero := int64(0)
	b.GPUs = func(context.Context) (wire.Probe, []wire.GPU) {
		return wire.Probe{State: wire.ProbeHung, SampledAt: &sampled}, []wire.GPU{{UUID: "GPU-00000000-1", MemoryUsedMiB: &zero}}
	}
	o := b.start(wire.WorkloadProcess{Name: "c", GPUCount: 1, Command: []string{"true"}})
	if o.Code != wire.CodeTaskForbidden || !strings.Contains(o.Error, "hung") {
		t.Errorf("%+v", o)
	}
}
