package gpu_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/wire"
)

const divided = `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-1111-2222-3333-444444444444)
  MIG 1g.10gb     Device  0: (UUID: MIG-aaaaaaaa-0000-4000-8000-000000000001)
  MIG 3g.40gb     Device  1: (UUID: MIG-aaaaaaaa-0000-4000-8000-000000000002)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-00000001-1111-2222-3333-444444444444)
`

func TestMIGInstances(t *testing.T) {
	m := newMachine(with(h100(0), "mig.mode.current", "Enabled"), with(h100(1), "mig.mode.current", "Enabled"), h100(2),
		with(h100(3), "mig.mode.current", "[N/A]"))
	m.list.Stdout = []byte(divided)
	p, c := prober(t, m)
	got := p.Probe(t.Context()).GPUs
	want := "[{1g.10gb MIG-aaaaaaaa-0000-4000-8000-000000000001} {3g.40gb MIG-aaaaaaaa-0000-4000-8000-000000000002}]"
	if fmt.Sprint(got[0].MIGInstances) != want || got[1].MIGInstances == nil || len(got[1].MIGInstances) != 0 ||
		got[2].MIGInstances == nil || got[3].MIGInstances != nil {
		t.Errorf("got %v, %v, %v, %v", got[0].MIGInstances, got[1].MIGInstances, got[2].MIGInstances, got[3].MIGInstances)
	}
	m.change(func(m *machine) { m.list.Code = 9 })
	c.advance(5 * time.Minute)
	if got := p.Probe(t.Context()).GPUs; got[0].MIGInstances != nil {
		t.Errorf("after a failure: got %v, want nothing known", got[0].MIGInstances)
	}
}

// MIG that is switched on shows its instances at the next look, not with the next of the rare ones.
func TestMIGSwitchedOn(t *testing.T) {
	m := newMachine(with(h100(0), "mig.mode.current", "Disabled"))
	p, c := prober(t, m)
	p.Probe(t.Context())
	m.change(func(m *machine) { m.gpus = []map[string]string{with(h100(0), "mig.mode.current", "Enabled")} })
	c.advance(30 * time.Second)
	if got := p.Probe(t.Context()).GPUs[0].MIGInstances; len(got) != 0 {
		t.Errorf("switched on, before an instance is made: %v", got)
	}
	m.change(func(m *machine) { m.list.Stdout = []byte(divided) })
	c.advance(30 * time.Second)
	if got := p.Probe(t.Context()).GPUs[0].MIGInstances; len(got) != 2 {
		t.Errorf("switched on: %v", got)
	}
	c.advance(30 * time.Second)
	p.Probe(t.Context())
	if lists := m.count("-L"); lists != 2 {
		t.Errorf("%d lists where nothing has changed since", lists)
	}
}

// TestCutShort: a look that ends because nobody waits for it any more tells nothing of the driver. So the driver is not asked for less, and
// the next look makes up for it.
func TestCutShort(t *testing.T) {
	m := newMachine(h100(0))
	p, c := prober(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	p.Exec = func(limited context.Context, call gpu.Call) gpu.Output {
		if ctx.Err() == nil && strings.HasPrefix(call.Args[0], "--query-compute") {
			cancel()
			<-limited.Done()
			return gpu.Output{Stopped: true}
		}
		return m.exec(limited, call)
	}
	if got := p.Probe(ctx); got.Probe.State != wire.ProbeOK || !p.LessUntil().IsZero() {
		t.Errorf("%+v, it is asked for less until %v", got.Probe, p.LessUntil())
	}
	c.advance(30 * time.Second)
	if p.Probe(t.Context()); m.count("--query-compute") != 1 {
		t.Errorf("the next look asks for the processes %d times", m.count("--query-compute"))
	}
}

// The version of CUDA is asked for until each driver has answered once, in both of its names.
func TestCUDA(t *testing.T) {
	m := newMachine(h100(0))
	m.all.Stdout = []byte("<nvidia_smi_log>\n<driver_version>590.10.01</driver_version>\n<cuda_version>13.1</cuda_version>\n<gpu>")
	m.all.Code = 9
	p, c := prober(t, m)
	look := func() string {
		for range 12 {
			p.Probe(t.Context())
			c.advance(time.Minute)
		}
		return show(p.Reading().CUDAVersion)
	}
	if got := look(); got != "null" {
		t.Errorf("got %s of an answer that failed", got)
	}
	m.change(func(m *machine) { m.all.Code = 0 })
	failed := m.count("-q")
	if got := look(); got != "13.1" || m.count("-q") != failed+1 {
		t.Errorf("got %s by %d calls after %d that failed", got, m.count("-q"), failed)
	}
	for _, said := range []struct{ driver, text, want string }{
		{"616.56", "<cuda_umd_version>13.4</cuda_umd_version>", "13.4"},
		{"617.1", "<cuda_version>N/A</cuda_version>", "null"},
		{"618.1", "<cuda_version>13.1\x1b[2J</cuda_version>", "null"},
		{"619.1", "<cuda_version>13.1", "null"},
	} {
		m.change(func(m *machine) {
			m.gpus[0]["driver_version"] = said.driver
			m.all.Stdout = []byte(said.text)
		})
		if got := look(); got != said.want {
			t.Errorf("%s: got %s, want %s", said.text, got, said.want)
		}
	}
}

// The rare calls come every five minutes and after a good look. A driver that is slow or fails gets none.
func TestRareCalls(t *testing.T) {
	m := newMachine(h100(0))
	p, c := prober(t, m)
	for range 21 {
		p.Probe(t.Context())
		c.advance(30 * time.Second)
	}
	apps := m.count("--query-compute-apps")
	lists := m.count("-L")
	if apps != 3 || lists != 0 {
		t.Errorf("%d lists of processes and %d of devices in ten minutes; want 3 and none without MIG", apps, lists)
	}
	m.change(func(m *machine) { m.answer = &gpu.Output{Code: 9} })
	c.advance(time.Hour)
	p.Probe(t.Context())
	if apps := m.count("--query-compute-apps"); apps != 3 {
		t.Errorf("a driver that fails was asked for processes")
	}
}

func TestProcesses(t *testing.T) {
	const uuid = "GPU-00000000-1111-2222-3333-444444444444"
	idle := with(h100(0), "memory.used", "4", "utilization.gpu", "0")
	for _, test := range []struct {
		name   string
		gpu    map[string]string
		hidden bool
		apps   gpu.Output
		want   string // count, memory
	}{
		{"two", h100(0), false, gpu.Output{Stdout: []byte(uuid + ", 100, 2048\n" + uuid + ", 101, 36000\n")}, "2 38048"},
		{"one in two instances", h100(0), false, gpu.Output{Stdout: []byte(uuid + ", 100, 2048\n" + uuid + ", 100, 36000\n")}, "1 38048"},
		{"another GPU's", idle, false, gpu.Output{Stdout: []byte("GPU-x, 100, 2048\n")}, "0 0"},
		{"memory that is not told", h100(0), false, gpu.Output{Stdout: []byte(uuid + ", 100, 2048\n" + uuid + ", 101, [N/A]\n")}, "2 null"},
		{"none on a host", idle, false, gpu.Output{}, "0 0"},
		{"none on a host whose driver counts its reserve", with(idle, "memory.used", "600"), false, gpu.Output{}, "0 0"},
		{"none on a host, busy without memory", with(idle, "utilization.gpu", "100"), false, gpu.Output{}, "0 0"},
		{"none on a host, against the memory in use", h100(0), false, gpu.Output{}, "null null"},
		{"none in an idle container", idle, true, gpu.Output{}, "0 0"},
		{"none in a container, busy", with(idle, "utilization.gpu", "3"), true, gpu.Output{}, "null null"},
		{"none in a container, memory in use", with(idle, "memory.used", "500"), true, gpu.Output{}, "null null"},
		{"none in a container, use not known", with(idle, "utilization.gpu", "[N/A]"), true, gpu.Output{}, "null null"},
		{"none in a container, memory not known", with(idle, "memory.used", "[N/A]"), true, gpu.Output{}, "null null"},
		{"none in a container, unified memory", with(idle, "name", "NVIDIA GB10"), true, gpu.Output{}, "null null"},
		{"none on a GB10", with(idle, "name", "NVIDIA GB10"), false, gpu.Output{}, "0 0"},
		{"a part in a container", h100(0), true, gpu.Output{Stdout: []byte(uuid + ", 100, 2048\n")}, "null null"},
		{"all in a container", h100(0), true, gpu.Output{Stdout: []byte(uuid + ", 100, 38900\n")}, "1 38900"},
		{"failed", idle, false, gpu.Output{Code: 9}, "null null"},
		{"not started", idle, false, gpu.Output{Err: fmt.Errorf("no")}, "null null"},
		{"prose", idle, false, gpu.Output{Stdout: []byte("No running processes found\n")}, "null null"},
		{"a comma in a value", idle, false, gpu.Output{Stdout: []byte(uuid + ", 100, a, 1\n")}, "null null"},
		{"no process id", idle, false, gpu.Output{Stdout: []byte(uuid + ", x, 1\n")}, "null null"},
		{"no GPU", idle, false, gpu.Output{Stdout: []byte("[N/A], 1, 1\n")}, "null null"},
	} {
		m := newMachine(test.gpu)
		m.apps = test.apps
		p, _ := prober(t, m)
		p.HidesProcesses = func() bool { return test.hidden }
		got := "null null"
		if all := p.Probe(t.Context()).GPUs[0].Processes; all != nil {
			got = show(all.Count) + " " + show(all.MemoryUsedMiB)
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// The processes with the most memory are named, those that do not say it last, and whoever knows them is asked only if there are some.
func TestProcessList(t *testing.T) {
	m := newMachine(h100(0), with(h100(1), "memory.used", "4"))
	var rows strings.Builder
	for i := range wire.MostProcesses + 4 {
		fmt.Fprintf(&rows, "GPU-00000000-1111-2222-3333-444444444444, %d, %d\n", 100+i, 10*(i%2)+i)
	}
	rows.WriteString("GPU-00000000-1111-2222-3333-444444444444, 100, [N/A]\n")
	m.apps.Stdout = []byte(rows.String())
	p, c := prober(t, m)
	asked := 0
	p.Who = func(_ context.Context, list []wire.GPUProcess) {
		asked++
		for i := range list {
			list[i].User = fmt.Sprint("user ", list[i].PID)
		}
	}
	got := p.Probe(t.Context()).GPUs
	list := got[0].Processes.List
	if !got[0].Processes.At.Equal(c.at) || !got[1].Processes.At.IsZero() {
		t.Errorf("looked at %v and %v", got[0].Processes.At, got[1].Processes.At)
	}
	if asked != 1 || *got[0].Processes.Count != wire.MostProcesses+4 || len(list) != wire.MostProcesses ||
		got[1].Processes.List != nil {
		t.Fatalf("asked %d times; got %+v and %+v", asked, got[0].Processes, got[1].Processes)
	}
	if first := list[0]; first.PID != 119 || *first.MemoryMiB != 29 || first.User != "user 119" {
		t.Errorf("the first is %+v", first)
	}
	for _, one := range list {
		if one.MemoryMiB == nil {
			t.Errorf("%+v is before others that say more", one)
		}
	}
	m.change(func(m *machine) { m.apps.Stdout = []byte("GPU-00000000-1111-2222-3333-444444444444, 7, [N/A]\n") })
	c.advance(5 * time.Minute)
	if got := p.Probe(t.Context()).GPUs[0].Processes.List; len(got) != 1 || got[0].MemoryMiB != nil {
		t.Errorf("got %+v", got)
	}
}

// What was seen long ago is dropped.
func TestRareFiguresGo(t *testing.T) {
	m := newMachine(with(h100(0), "memory.used", "4"))
	p, c := prober(t, m)
	p.Probe(t.Context())
	rows := m.gpus
	m.change(func(m *machine) { m.gpus = append(rows, h100(1)); m.answer = nil })
	p.Expect(3) // a GPU is missing: such looks make no rare calls
	c.advance(time.Minute)
	if got := p.Probe(t.Context()).GPUs[0].Processes; got == nil {
		t.Error("forgotten after a minute")
	}
	c.advance(15 * time.Minute)
	if got := p.Probe(t.Context()).GPUs[0].Processes; got != nil {
		t.Error("still told after 16 minutes")
	}
}

// A list that hangs is not asked for again soon, so the next looks are good.
func TestRareCallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(h100(0))
		p, _ := prober(t, m)
		p.Now = nil
		p.Exec = func(ctx context.Context, call gpu.Call) gpu.Output {
			if out := m.exec(ctx, call); !strings.HasPrefix(call.Args[0], "--query-compute") {
				return out
			}
			<-ctx.Done()
			return gpu.Output{Code: -1, Stopped: true}
		}
		if got := p.Probe(t.Context()); got.Probe.State != wire.ProbeHung || len(got.GPUs) != 1 {
			t.Errorf("got %+v", got.Probe)
		}
		for range 11 {
			time.Sleep(5 * time.Minute)
			if got := p.Probe(t.Context()); got.Probe.State != wire.ProbeOK || got.GPUs[0].Processes != nil {
				t.Errorf("got %+v", got.Probe)
			}
		}
		if got := m.count("--query-compute"); got != 1 {
			t.Errorf("asked %d times in 55 minutes", got)
		}
	})
}

func FuzzParseList(f *testing.F) {
	f.Add([]byte(divided))
	f.Add([]byte("MIG 1g.5gb Device 0: (UUID: MIG-GPU-a/1/0)\nGPU (UUID: )\nGPU 0: (UUID: x\n(UUID: y)\nGPU 1: (UUID: \xff)\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all := gpu.ParseList(text)
		if len(all) > wire.MaxGPUs {
			t.Errorf("%d GPUs", len(all))
		}
		for uuid, instances := range all {
			if len(uuid) > 200 || len(instances) > 64 {
				t.Errorf("%q has %d instances", uuid, len(instances))
			}
		}
	})
}

func FuzzParseProcesses(f *testing.F) {
	f.Add([]byte("GPU-a, 1, 2\nGPU-a, 1, [N/A]\n"))
	f.Add([]byte("GPU-a, 99999999999, 2\n"))
	f.Add([]byte(",,\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, ok := gpu.ParseProcesses(text)
		if !ok && all != nil {
			t.Error("something of an answer that cannot be read")
		}
		for uuid, usage := range all {
			count := len(usage.List)
			if count < 1 || count != *usage.Count || count > strings.Count(string(text), "\n")+1 ||
				usage.MemoryUsedMiB != nil && *usage.MemoryUsedMiB < 0 {
				t.Errorf("%q: %d processes, %s MiB", uuid, count, show(usage.MemoryUsedMiB))
			}
		}
	})
}
