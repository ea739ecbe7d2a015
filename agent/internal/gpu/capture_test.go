package gpu_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"muster/agent/internal/gpu"
)

// captured plays an nvidia-smi that prints identifiers in every place where they may stand.
func captured(table string) func(context.Context, gpu.Call) gpu.Output {
	return func(_ context.Context, call gpu.Call) gpu.Output {
		switch {
		case call.Args[0] == "--help-query-gpu":
			return gpu.Output{Stdout: []byte("\"index\"\n\"name\" or \"gpu_name\"\n\"uuid\"\n\"serial\"\n\"made.up\"\n\"platform.host_id\"\n")}
		case call.Args[0] == "-L":
			return gpu.Output{Stdout: []byte("GPU 0: NVIDIA H100 (UUID: GPU-0badf00d-1234-5678-9abc-def012345678)\n" +
				"  MIG 1g.10gb Device 0: (UUID: MIG-0badf00d-1234-5678-9abc-def012345678)\n")}
		case strings.Contains(call.Args[0], "made.up"):
			return gpu.Output{Code: 2, Stdout: []byte("Field \"made.up\" is not a valid field to query.\n")}
		default:
			return gpu.Output{Stdout: []byte(table), Stderr: []byte("GPU-0BADF00D-1234-5678-9abc-def012345678 is odd\n"), Code: 15}
		}
	}
}

func TestCapture(t *testing.T) {
	const table = "index, name, uuid, serial, platform.host_id\n" +
		"0, NVIDIA H100 80GB, GPU-0badf00d-1234-5678-9abc-def012345678, 1654321098765, box-7a\n" +
		"1, NVIDIA H100 80GB, [GPU requires reset], [N/A], N/A\n" +
		"2, NVIDIA, Inc, 1654321098765, [N/A], box-7a\n"
	const want = `$ nvidia-smi --query-gpu=index,name,uuid,serial,made.up,platform.host_id --format=csv
# exit 2, 0 ms
Field "made.up" is not a valid field to query.

$ nvidia-smi --query-gpu=index,name,uuid,serial,platform.host_id --format=csv
# exit 15, 0 ms
index, name, uuid, serial, platform.host_id
0, NVIDIA H100 80GB, GPU-00000000-0000-0000-0000-000000000000, 0000000000000, 000-00
1, NVIDIA H100 80GB, [GPU requires reset], [N/A], N/A
0, 000000, 000, 0000000000000, [N/A], 000-00
stderr: GPU-00000000-0000-0000-0000-000000000000 is odd

$ nvidia-smi -L
# exit 0, 0 ms
GPU 0: NVIDIA H100 (UUID: GPU-00000000-0000-0000-0000-000000000000)
  MIG 1g.10gb Device 0: (UUID: MIG-00000000-0000-0000-0000-000000000000)

`
	synctest.Test(t, func(t *testing.T) {
		p := gpu.Prober{Path: "/bin/sh", Exec: captured(table)}
		got, err := p.Capture(t.Context())
		if err != nil || string(got) != want {
			t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
		}
	})
}

func TestCaptureOfAFailure(t *testing.T) {
	m := newMachine()
	m.help = &gpu.Output{Code: 9, Stdout: []byte("NVIDIA-SMI has failed\n")}
	m.answer = m.help
	m.list = *m.help
	p, _ := prober(t, m)
	got, err := p.Capture(t.Context())
	if err != nil || !strings.Contains(string(got), "--query-gpu="+coreFields) || strings.Count(string(got), "# exit 9") != 3 {
		t.Errorf("got %v\n%s", err, got)
	}
}

func TestCaptureErrors(t *testing.T) {
	p := gpu.Prober{Path: "/nowhere/nvidia-smi"}
	if got, err := p.Capture(t.Context()); err == nil || len(got) != 0 || !strings.Contains(err.Error(), "--nvidia-smi") {
		t.Errorf("no program: got %q, %v", got, err)
	}
	m := newMachine()
	m.help = &gpu.Output{Err: context.Canceled}
	m.answer = m.help
	broken, _ := prober(t, m)
	if got, err := broken.Capture(t.Context()); err != nil || !strings.Contains(string(got), "# nvidia-smi cannot be started") {
		t.Errorf("cannot be started: got %q, %v", got, err)
	}
	synctest.Test(t, func(t *testing.T) {
		hung := gpu.Prober{Path: "/bin/sh", Exec: func(ctx context.Context, call gpu.Call) gpu.Output {
			if call.Args[0] != "-L" {
				return captured("index, uuid\n0, x\n")(ctx, call)
			}
			<-ctx.Done()
			return gpu.Output{Stopped: true}
		}}
		got, err := hung.Capture(t.Context())
		if err == nil || !strings.Contains(err.Error(), "did not end within 20s") || !strings.Contains(string(got), "index, uuid\n0, 0\n") {
			t.Errorf("hung: got %q, %v", got, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := hung.Capture(ctx); err == nil {
			t.Error("cancelled: got no error")
		}
	})
}
