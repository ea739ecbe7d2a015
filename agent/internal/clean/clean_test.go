package clean_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/account"
	"muster/agent/internal/clean"
	"muster/agent/internal/gpu"
	"muster/agent/internal/task"
	"muster/agent/wire"
)

const (
	allocation = "7f2kq3xw5dhz6m4a"
	uuidA      = "GPU-3f1c2a90-0000-4000-8000-0000000000a1"
	uuidB      = "GPU-3f1c2a90-0000-4000-8000-0000000000a2"
	partA      = "MIG-3f1c2a90-0000-4000-8000-0000000000b1"
	partB      = "MIG-3f1c2a90-0000-4000-8000-0000000000b2"
)

// machine has two GPUs of which the first has the file nvidia1. Nothing is on them.
type machine struct {
	*testing.T
	root    string
	cleaner clean.Cleaner
	gpus    []wire.GPU
	probe   wire.Probe
	answers map[string]string // of nvidia-smi, by its first argument; none: it fails
	looks   int
	looked  func() // called before each look
	out     bytes.Buffer
}

func newMachine(t *testing.T) *machine {
	m := &machine{T: t, root: t.TempDir(), probe: wire.Probe{State: wire.ProbeOK}, looked: func() {}}
	m.gpus = []wire.GPU{
		{UUID: uuidA, Vendor: wire.VendorNVIDIA, MemorySource: wire.MemoryDevice, MemoryUsedMiB: new(int64(4)), MIG: new(false)},
		{UUID: uuidB, Vendor: wire.VendorNVIDIA, MemorySource: wire.MemoryDevice, MemoryUsedMiB: new(int64(4)), MIG: new(false)}}
	m.answers = map[string]string{"-q": about(uuidA, "") + about(uuidB, "")}
	m.put("proc/driver/nvidia/gpus/0000:1a:00.0/information", "Model: \t NVIDIA H200\nGPU UUID: \t "+uuidA+"\nDevice Minor: \t 1\n")
	m.put("proc/driver/nvidia/gpus/0000:3d:00.0/information", "GPU UUID: \t "+uuidB+"\nDevice Minor: \t 0\n")
	m.put("etc/passwd", "root:x:0:0::/root:/bin/sh\nada:x:1001:1001::/home/ada:/bin/sh\n")
	m.link("proc/self/ns/pid", "pid:[1]")
	m.cleaner = clean.Cleaner{Root: m.root,
		Look: func(context.Context) gpu.Reading {
			m.looks++
			m.looked()
			probe := m.probe
			if probe.State == wire.ProbeOK {
				probe.SampledAt = new(time.Now())
			}
			return gpu.Reading{Probe: probe, GPUs: m.gpus}
		},
		Ask: func(_ context.Context, args ...string) ([]byte, error) {
			if text, there := m.answers[args[0]]; there {
				return []byte(text), nil
			}
			return nil, errors.New("nvidia-smi ended with exit code 9")
		},
		End:        func(context.Context, io.Writer, string) ([]string, error) { return nil, nil },
		EndAccount: func(context.Context, string, string, io.Writer) (d account.Deprovisioned, err error) { return d, nil },
	}
	return m
}

// about is what nvidia-smi -q says of a GPU.
func about(uuid, more string) string {
	return "GPU 00000000:1A:00.0\n    Product Name : NVIDIA H200\n    GPU UUID                              : " + uuid + "\n" + more
}

// uses is how nvidia-smi -q names a process.
func uses(pid int, kind, name, instance string) string {
	return fmt.Sprintf("    Processes\n        GPU instance ID : %s\n        Compute instance ID : N/A\n        Process ID : %d\n"+
		"            Type : %s\n            Name : %s\n            Used GPU Memory : 1000 MiB\n", instance, pid, kind, name)
}

// device is how nvidia-smi -q names a part of a GPU.
func device(instance string, used string) string {
	return "    MIG Device\n        Index : 0\n        GPU Instance ID : " + instance +
		"\n        FB Memory Usage\n            Total : 20096 MiB\n" +
		"            Used : " + used + "\n        BAR1 Memory Usage\n            Used : 9999 MiB\n"
}

func (m *machine) put(name, text string) {
	m.Helper()
	path := filepath.Join(m.root, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		m.Fatal(err)
	}
}

func (m *machine) link(name, to string) {
	m.Helper()
	path := filepath.Join(m.root, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.Symlink(to, path)
	}
	if err != nil {
		m.Fatal(err)
	}
}

// runs puts a process onto the machine that has a file open.
func (m *machine) runs(pid, uid int, exe, namespace, file string) {
	m.Helper()
	folder := fmt.Sprintf("proc/%d/", pid)
	m.put(folder+"comm", filepath.Base(exe)+"\n")
	m.put(folder+"status", fmt.Sprintf("Name:\tx\nUid:\t%d\t%d\t%d\t%d\n", uid, uid, uid, uid))
	m.link(folder+"exe", exe)
	m.link(folder+"ns/pid", namespace)
	m.link(folder+"fd/0", "/dev/null")
	m.link(folder+"fd/7", file)
	m.link(folder+"fd/8", file)
}

func (m *machine) end(pid int) { os.RemoveAll(filepath.Join(m.root, "proc", fmt.Sprint(pid))) }

// clean cleans the GPUs that are named, and gives the cleaning as the gateway reads it.
func (m *machine) clean(uuids ...string) wire.Cleaning {
	m.Helper()
	params := &wire.GPUClean{Allocation: allocation, GPUs: uuids, Users: []string{"ada"}}
	if err := params.Check(); err != nil {
		m.Fatal(err) // the agent never gets such params
	}
	outcome := m.cleaner.Do(m.Context(), task.Job{Output: &m.out}, params)
	got, err := wire.ReadCleaning(outcome.Values)
	if err != nil || outcome.Error != "" {
		m.Fatalf("%+v, %v", outcome, err)
	}
	return got
}

// TestClean: what belongs to the allocation goes, and then nothing is left.
func TestClean(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.cleaner.End = func(_ context.Context, _ io.Writer, id string) ([]string, error) {
		if id != allocation {
			t.Errorf("ended the workloads of %s", id)
		}
		return []string{"train"}, nil
	}
	m.cleaner.EndAccount = func(_ context.Context, name, id string, _ io.Writer) (account.Deprovisioned, error) {
		if name != "ada" || id != allocation {
			t.Errorf("removed %s of %s", name, id)
		}
		return account.Deprovisioned{Removed: []string{"ada"}}, nil
	}
	m.runs(812, 0, "/usr/bin/nvidia-persistenced", "pid:[1]", "/dev/nvidia1")
	got := m.clean(uuidA, uuidB)
	if !got.Clean || !slices.Equal(got.Removed, []string{"the workload train", "the account ada"}) || m.looks != 1 {
		t.Errorf("%+v after %d looks", got, m.looks)
	}
}

// TestEndFails: what cannot be ended or removed is left, and the GPUs are looked at all the same.
func TestEndFails(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.cleaner.End = func(context.Context, io.Writer, string) ([]string, error) {
		return []string{"one"}, errors.New("docker does not answer now")
	}
	m.cleaner.EndAccount = func(context.Context, string, string, io.Writer) (account.Deprovisioned, error) {
		return account.Deprovisioned{}, errors.New("/home/ada/data is a mount, and what is in it is not removed")
	}
	got := m.clean(uuidA)
	if got.Clean || len(got.Left) != 2 || !strings.Contains(got.Left[0].What, "docker does not answer") ||
		!strings.Contains(got.Left[1].What, "is a mount") || got.Left[0].GPU != "" || m.looks != 1 || len(got.Removed) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestAccountOfAnother: an account of the name that was not made for the allocation stays, and is not in the way.
func TestAccountOfAnother(t *testing.T) {
	t.Parallel()
	for name, allocation := range map[string]string{"of another": "2222222222222222", "of none": ""} {
		m := newMachine(t)
		entry := `{"name":"ada","uid":1001,"home":"/home/ada","mark":"m","phase":"present","allocation":"` + allocation + `"}`
		record := `{"version":1,"accounts":[` + entry + `]}`
		m.put("state/"+account.RecordFile, record)
		accounts := account.Accounts{State: filepath.Join(m.root, "state"), Root: m.root, UID: os.Geteuid()}
		m.cleaner.EndAccount = accounts.EndAllocation
		got := m.clean(uuidA)
		now, err := os.ReadFile(filepath.Join(m.root, "state", account.RecordFile))
		if !got.Clean || len(got.Removed) != 0 || err != nil || string(now) != record {
			t.Errorf("%s: %+v, %s, %v", name, got, now, err)
		}
	}
}

// TestLeft: each thing that is in the way, with what a person does about it. Nothing of it is in the way of the other GPU.
func TestLeft(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*machine)
		what   string // the beginning of what is left; empty: nothing is
		all    bool   // it is in the way of the other GPU too
	}{
		"a process": {func(m *machine) {
			m.answers["-q"] = about(uuidA, uses(4711, "C", "/usr/bin/python3", "N/A")) + about(uuidB, "")
			m.runs(4711, 1001, "/usr/bin/python3", "pid:[1]", "/dev/nvidia1")
		}, "process 4711 (python3) of ada uses it", false},
		"a process of another namespace": {func(m *machine) {
			m.answers["-q"] = about(uuidA, uses(4711, "M+C", "nvidia-cuda-mps-server", "N/A")) + about(uuidB, "")
		}, "process 4711 (nvidia-cuda-mps-server), which cannot be seen from here, uses it", false},
		"a desktop": {func(m *machine) {
			m.answers["-q"] = about(uuidA, uses(812, "G", "/usr/lib/xorg/Xorg", "N/A")) + about(uuidB, "")
			m.runs(812, 0, "/usr/lib/xorg/Xorg", "pid:[1]", "/dev/nvidia1")
		}, "", false},
		"a person's screen": {func(m *machine) {
			m.answers["-q"] = about(uuidA, uses(812, "G", "/usr/bin/vkcube", "N/A")) + about(uuidB, "")
			m.runs(812, 1001, "/usr/bin/vkcube", "pid:[1]", "/dev/nvidia1")
		}, "process 812 (vkcube) of ada uses it", false},
		"an open file": {func(m *machine) { m.runs(4712, 4242, "/usr/bin/vllm", "pid:[7]", "/dev/nvidia1") },
			"process 4712 (vllm) of the UID 4242 has its file open", false},
		"of which GPU is not told": {func(m *machine) {
			os.RemoveAll(filepath.Join(m.root, "proc/driver"))
			m.runs(4712, 1001, "/usr/bin/vllm", "pid:[1]", "/dev/nvidia0")
		}, "process 4712 (vllm) of ada has the file of a GPU open, and of which one cannot be told", true},
		"a monitor's name in a container": {func(m *machine) { m.runs(9, 0, "/usr/bin/nv-hostengine", "pid:[7]", "/dev/nvidia1") },
			"process 9 (nv-hostengine) of root", false},
		"a monitor's name of a person": {func(m *machine) { m.runs(9, 1001, "/tmp/nv-hostengine", "pid:[1]", "/dev/nvidia1") },
			"process 9 (nv-hostengine) of ada", false},
		"other files": {func(m *machine) { m.runs(9, 1001, "/usr/bin/vim", "pid:[1]", "/dev/nvidiactl") }, "", false},
		"memory":      {func(m *machine) { m.gpus[0].MemoryUsedMiB = new(int64(1025)) }, "1025 MiB of its memory are in use", false},
		"no memory":   {func(m *machine) { m.gpus[0].MemoryUsedMiB = nil }, "it does not say how much", false},
		"the system's": {func(m *machine) {
			m.gpus[0].MemorySource, m.gpus[0].MemoryUsedMiB = wire.MemoryUnified, new(int64(9999))
		}, "", false},
		"divided": {func(m *machine) { m.gpus[0].MIG = new(true); m.answers["-L"] = "" }, "it is divided (MIG)", false},
		"not divided as far as is known": {func(m *machine) { m.gpus[0].MIG = new(true) },
			"which parts the divided GPUs have cannot be read", true},
		"not named":      {func(m *machine) { m.gpus = m.gpus[1:] }, "no driver names this GPU", false},
		"no long answer": {func(m *machine) { m.answers["-q"] = about(uuidB, "") }, "nvidia-smi -q says nothing", false},
		"a short list": {func(m *machine) {
			m.answers = map[string]string{appsQuery: uuidA + ", 4711, python3\n"}
			m.runs(4711, 1001, "/usr/bin/python3", "pid:[1]", "/dev/nvidia1")
		}, "process 4711 (python3) of ada uses it", false},
		"an empty short list": {func(m *machine) { m.answers = map[string]string{appsQuery: ""} }, "", false},
		"a short list that says less": {func(m *machine) { m.answers = map[string]string{appsQuery: uuidA + ", [N/A], [N/A]\n"} },
			"the processes on the GPUs cannot be read", true},
		"a short list of a divided GPU": {func(m *machine) {
			m.gpus[0].MIG, m.answers = new(true), map[string]string{appsQuery: ""}
		}, "the processes on the GPUs cannot be read", true},
		"no answer": {func(m *machine) { m.answers = nil }, "the processes on the GPUs cannot be read", true},
		"no look": {func(m *machine) { m.probe = wire.Probe{State: wire.ProbeHung, Error: "it hangs"} },
			"the GPUs cannot be read: it hangs", true},
		"told not to":     {func(m *machine) { m.cleaner.Look = nil }, "the agent was told not to look", true},
		"no list of them": {func(m *machine) { os.RemoveAll(filepath.Join(m.root, "proc")) }, "what 1 processes have open cannot be seen", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				c.change(m)
				began := time.Now()
				got := m.clean(uuidA)
				if c.what == "" {
					if !got.Clean {
						t.Errorf("%+v", got)
					}
					return
				}
				if got.Clean || len(got.Left) == 0 || !strings.HasPrefix(got.Left[0].What, c.what) || got.Left[0].Next == "" {
					t.Fatalf("%+v", got)
				}
				if took := time.Since(began); took < 55*time.Second || took > time.Minute {
					t.Errorf("it waited for %s", took)
				}
				if other := m.clean(uuidB); other.Clean == c.all {
					t.Errorf("the other GPU: %+v", other)
				}
			})
		})
	}
}

// TestParts: one part of a divided GPU is clean although its neighbour is at work.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.gpus[0].MIG = new(true)
		m.answers["-L"] = "GPU 0: NVIDIA H200 (UUID: " + uuidA + ")\n" +
			"  MIG 3g.71gb     Device  0: (UUID: " + partA + ")\n  MIG 3g.71gb     Device  1: (UUID: " + partB + ")\n"
		m.answers["-q"] = about(uuidA, device("1", "25 MiB")+device("2", "900 MiB")+uses(4711, "C", "python", "2"))
		m.runs(4711, 1001, "/usr/bin/python3", "pid:[1]", "/dev/nvidia1")
		if got := m.clean(partA); !got.Clean {
			t.Errorf("%+v", got)
		}
		if got := m.clean(partB); got.Clean || got.Left[0].GPU != partB || !strings.Contains(got.Left[0].What, "4711 (python3) of ada uses it") {
			t.Errorf("%+v", got)
		}
		m.answers["-q"] = strings.ReplaceAll(about(uuidA, device("1", "25 MiB")+device("2", "900 MiB")), "FB Memory", "Shared FB Memory")
		if got := m.clean(partB); got.Clean || !strings.Contains(got.Left[0].What, "900 MiB") {
			t.Errorf("%+v", got)
		}
		m.answers["-q"] = about(uuidA, device("1", "25 MiB"))
		if got := m.clean(partB); got.Clean || !strings.Contains(got.Left[0].What, "says nothing of this part") {
			t.Errorf("%+v", got)
		}
	})
}

// TestAMD: what is on a GPU of AMD is told by its file.
func TestAMD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.answers = nil
		const uuid = "GPU-0123456789abcdef"
		m.gpus = []wire.GPU{{UUID: uuid, Vendor: wire.VendorAMD, BusID: "0000:c1:00.0", MemorySource: wire.MemoryDevice,
			MemoryUsedMiB: new(int64(20))}}
		m.put("sys/bus/pci/devices/0000:c1:00.0/drm/card1/dev", "")
		m.put("sys/bus/pci/devices/0000:c1:00.0/drm/renderD129/dev", "")
		m.runs(7, 1001, "/usr/bin/Xwayland", "pid:[1]", "/dev/dri/renderD128")
		if got := m.clean(uuid); !got.Clean {
			t.Errorf("%+v", got)
		}
		m.runs(8, 1001, "/usr/bin/vllm", "pid:[1]", "/dev/dri/renderD129")
		if got := m.clean(uuid); got.Clean || !strings.Contains(got.Left[0].What, "8 (vllm) of ada has its file open") {
			t.Errorf("%+v", got)
		}
		os.RemoveAll(filepath.Join(m.root, "sys"))
		if got := m.clean(uuid); got.Clean || len(got.Left) != 2 || !strings.Contains(got.Left[0].What, "cannot be told") {
			t.Errorf("%+v", got)
		}
	})
}

// TestWaits: what goes by itself is waited for, as long as the task has time.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.runs(4712, 1001, "/usr/bin/vllm", "pid:[1]", "/dev/nvidia1")
		m.looked = func() {
			if m.looks == 5 {
				m.end(4712)
			}
		}
		if got := m.clean(uuidA); !got.Clean || m.looks != 5 || strings.Count(m.out.String(), "waiting: process 4712") != 1 {
			t.Errorf("%+v after %d looks: %s", got, m.looks, m.out.String())
		}
		m.runs(4712, 1001, "/usr/bin/vllm", "pid:[1]", "/dev/nvidia1")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		outcome := m.cleaner.Do(ctx, task.Job{Output: &m.out}, &wire.GPUClean{Allocation: allocation, GPUs: []string{uuidA}})
		if got, err := wire.ReadCleaning(outcome.Values); err != nil || got.Clean || ctx.Err() != nil {
			t.Errorf("%+v, %v, %v", got, err, ctx.Err())
		}
	})
}

// TestHidden: processes whose files may not be seen may have a GPU.
func TestHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root sees the files of all processes")
		}
		m := newMachine(t)
		m.runs(4712, 1001, "/usr/bin/vllm", "pid:[1]", "/dev/null")
		if err := os.Chmod(filepath.Join(m.root, "proc/4712/fd"), 0); err != nil {
			t.Fatal(err)
		}
		if got := m.clean(uuidA); got.Clean || !strings.Contains(got.Left[0].What, "what 1 processes have open cannot be seen") {
			t.Errorf("%+v", got)
		}
		os.Chmod(filepath.Join(m.root, "proc/4712/fd"), 0o700)
	})
}

// TestMuch: a cleaning never has more than the gateway takes.
func TestMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		for i := range 200 {
			m.runs(1000+i, 1001, "/usr/bin/vllm", "pid:[1]", "/dev/nvidia1")
		}
		if got := m.clean(uuidA); got.Clean || len(got.Left) != wire.MaxLeft {
			t.Errorf("%d are left", len(got.Left))
		}
	})
}

const appsQuery = "--query-compute-apps=gpu_uuid,pid,used_memory"
