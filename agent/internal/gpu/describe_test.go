package gpu_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/gpu"
)

func TestDescribe(t *testing.T) {
	out := gpu.Output{Stdout: []byte("Driver Version : 590\n"), Stderr: []byte("odd\n")}
	p := gpu.Prober{Path: "/bin/sh", Exec: func(_ context.Context, call gpu.Call) gpu.Output {
		if len(call.Args) != 1 || call.Args[0] != "-q" {
			t.Errorf("%q", call.Args)
		}
		return out
	}}
	if text, err := p.Describe(t.Context()); err != nil || string(text) != "Driver Version : 590\nodd\n" {
		t.Errorf("%q %v", text, err)
	}
	out.Code = 9
	if text, err := p.Describe(t.Context()); err == nil || !strings.Contains(err.Error(), "exit code 9") || len(text) == 0 {
		t.Errorf("%q %v", text, err)
	}
	out.Err = errors.New("no memory")
	if _, err := p.Describe(t.Context()); err == nil {
		t.Error("it could not be started, and there is no error")
	}
	none := gpu.Prober{Path: "/nowhere/nvidia-smi"}
	if _, err := none.Describe(t.Context()); err == nil {
		t.Error("there is none, and no error")
	}
}

// TestAsk: what is asked for is what is run, and what it complains about is no part of the answer.
func TestAsk(t *testing.T) {
	t.Parallel()
	code := 0
	p := gpu.Prober{Path: "/bin/sh", Exec: func(_ context.Context, call gpu.Call) gpu.Output {
		return gpu.Output{Stdout: []byte(strings.Join(call.Args, " ")), Stderr: []byte("odd"), Code: code}
	}}
	if text, err := p.Ask(t.Context(), "nvlink", "--status"); err != nil || string(text) != "nvlink --status" {
		t.Errorf("%q %v", text, err)
	}
	code = 6
	if _, err := p.Ask(t.Context(), "nvlink", "--status"); err == nil || !strings.Contains(err.Error(),
		"nvidia-smi nvlink ended with exit code 6") {
		t.Errorf("%v", err)
	}
}

// TestFresh: a look that is under way is waited for, and then there is one more.
func TestFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{known: []string{"index", "uuid"}, gpus: []map[string]string{h100(0)}}
		p := gpu.Prober{Path: "/bin/sh", Exec: func(ctx context.Context, call gpu.Call) gpu.Output {
			time.Sleep(time.Second)
			return m.exec(ctx, call)
		}}
		go p.Probe(t.Context())
		synctest.Wait()
		began := time.Now()
		r := p.Fresh(t.Context())
		if r.Probe.SampledAt == nil || r.Probe.SampledAt.Sub(began) < 2*time.Second {
			t.Errorf("the reading is of %v, asked at %v", r.Probe.SampledAt, began)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		go p.Probe(t.Context())
		synctest.Wait()
		if r := p.Fresh(ctx); r.Probe.SampledAt.After(time.Now()) || ctx.Err() == nil {
			t.Errorf("it has not waited: %+v", r.Probe)
		}
		time.Sleep(time.Minute)
	})
}

// TestDescribeWaits: there is one nvidia-smi at a time.
func TestDescribeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := 0
		p := gpu.Prober{Path: "/bin/sh", Exec: func(ctx context.Context, call gpu.Call) gpu.Output {
			running++
			if running > 1 {
				t.Errorf("%q beside another one", call.Args)
			}
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
			}
			running--
			return gpu.Output{Stdout: []byte("x"), Stopped: ctx.Err() != nil}
		}}
		looked := make(chan bool)
		go func() { p.Probe(t.Context()); close(looked) }()
		synctest.Wait()
		if _, err := p.Describe(t.Context()); err != nil {
			t.Error(err)
		}
		<-looked
	})
}

// TestDescribeWedged: beside one that hangs, none is started.
func TestDescribeWedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gpu.Prober{Path: "/bin/sh", Deadline: time.Second, Exec: func(ctx context.Context, _ gpu.Call) gpu.Output {
			<-ctx.Done()
			return gpu.Output{Stopped: true}
		}}
		if _, err := p.Describe(t.Context()); err == nil || !strings.Contains(err.Error(), "did not end within 1s") {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stuck := make(chan bool)
		p = gpu.Prober{Path: "/bin/sh", Exec: func(context.Context, gpu.Call) gpu.Output { <-stuck; return gpu.Output{} }}
		go p.Probe(t.Context())
		synctest.Wait()
		if _, err := p.Describe(ctx); err == nil || !strings.Contains(err.Error(), "has not ended") {
			t.Errorf("%v", err)
		}
		close(stuck)
		synctest.Wait()
	})
}
