package evidence_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/evidence"
	"muster/agent/internal/gpu"
	"muster/agent/internal/task"
	"muster/agent/wire"
)

// machine is a machine with two H200 below their own root ports, an NVSwitch and a BlueField-3, whose files lie in a folder.
type machine struct {
	*testing.T
	root    string
	checker evidence.Checker
	reading gpu.Reading
	answers map[string]string // of nvidia-smi, by its first argument; none: it fails
	probe   func(ctx context.Context, data []byte, want int) error
	out     bytes.Buffer
}

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const (
	uuidA = "GPU-3f1c2a90-0000-4000-8000-0000000000a1"
	uuidB = "GPU-3f1c2a90-0000-4000-8000-0000000000a2"
	bdfA  = "0000:1a:00.0"
	bdfB  = "0000:3d:00.0"
)

func newMachine(t *testing.T) *machine {
	t.Helper()
	root, err := os.MkdirTemp("", "m") // short, because the path of a socket is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	m := &machine{T: t, root: root}
	m.put("proc/sys/kernel/random/boot_id", "5d1e3b0c-5a2f-4a43-9a0e-3a1f5e7d9b11\n")
	m.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vmx\n")
	m.link("proc/self/ns/pid", "pid:[4026531836]")
	m.link("proc/self/ns/cgroup", "cgroup:[4026531835]")
	m.put("sys/class/dmi/id/sys_vendor", "Dell Inc.\n")
	m.put("sys/class/dmi/id/product_name", "PowerEdge XE9680L\n")
	m.put("sys/class/dmi/id/bios_version", "2.4.1\n")
	m.put("dev/kvm", "")
	m.put("sys/module/kvm_intel/parameters/nested", "Y\n")
	m.device(bdfA, "0000:15:01.0", "10de", "2335", "030200", "nvidia", 27)
	m.device(bdfB, "0000:3a:01.0", "10de", "2335", "030200", "nvidia", 31)
	m.device("0000:05:00.0", "0000:00:1c.0", "10de", "22a3", "068000", "nvidia-nvswitch", 12)
	m.device("0000:18:00.0", "0000:15:01.0", "15b3", "a2dc", "020700", "mlx5_core", 25)
	m.device("0000:00:1f.0", "", "8086", "1bc6", "060100", "", 1)
	m.put("sys/class/infiniband/mlx5_0/board_id", "MT_0000000884\n")
	m.put("sys/class/infiniband/mlx5_0/fw_ver", "32.41.1000\n")
	m.link("sys/class/infiniband/mlx5_0/device", "../../../bus/pci/devices/0000:18:00.0")
	m.reading = gpu.Reading{Probe: wire.Probe{State: wire.ProbeOK, SampledAt: &start}, DriverVersion: new("570.86.15"),
		GPUs: []wire.GPU{h200(0, uuidA, "00000000:1A:00.0"), h200(1, uuidB, "00000000:3D:00.0")}}
	m.answers = map[string]string{
		"-q": "GPU 00000000:1A:00.0\n    Serial Number : 1653923000001\n    GPU UUID : " + uuidA + "\n    Module ID : 2\n" +
			"GPU 00000000:3D:00.0\n    Serial Number : N/A\n    GPU UUID : " + uuidB + "\n    Module ID : N/A\n",
		"nvlink": links(uuidA, "26.5 GB/s") + links(uuidB, "26.5 GB/s"),
		"-L":     "GPU 0: NVIDIA H200 (UUID: " + uuidA + ")\n",
	}
	m.probe = func(context.Context, []byte, int) error { return nil }
	m.checker = evidence.Checker{Root: root, State: t.TempDir(), Now: func() time.Time { return start },
		Look: func(context.Context) gpu.Reading { return m.reading },
		Ask: func(_ context.Context, args ...string) ([]byte, error) {
			if text, there := m.answers[args[0]]; there {
				return []byte(text), nil
			}
			return nil, errors.New("nvidia-smi ended with exit code 9")
		},
		Engines: func(context.Context) ([]string, error) { return []string{"docker", "podman"}, nil },
		Trial: func(_ context.Context, _ task.Job, _ wire.WorkloadLaunch, began func()) (int, string, error) {
			began()
			return 0, `"done"`, nil
		},
	}
	return m
}

func links(uuid, state string) string {
	return "GPU 0: NVIDIA H200 (UUID: " + uuid + ")\n\t Link 0: " + state + "\n\t Link 1: " + state + "\n"
}

// h200 is a healthy GPU that idles.
func h200(index int, uuid, bus string) wire.GPU {
	return wire.GPU{Index: index, UUID: uuid, Name: "NVIDIA H200", BusID: bus, Vendor: wire.VendorNVIDIA, MemorySource: wire.MemoryDevice,
		MemoryTotalMiB: new(int64(143771)), MIG: new(false), ECC: &wire.ECC{Enabled: new(true), UncorrectedVolatile: new(int64(0))},
		RemappedRows: &wire.Remaps{Pending: new(false), Failure: new(false)},
		Fabric:       &wire.Fabric{State: new("completed"), Status: new("success")},
		PCIe:         &wire.PCIe{Generation: new(1), GenerationMax: new(5), Width: new(16), WidthMax: new(16)}}
}

// device puts a device of the bus onto the machine, below a root port ("": right at the root) and in an IOMMU group.
func (m *machine) device(address, port, vendor, device, class, driver string, group int) {
	m.Helper()
	real := "sys/devices/pci0000:00/" + filepath.Join(port, address)
	for file, text := range map[string]string{"vendor": "0x" + vendor, "device": "0x" + device, "class": "0x" + class, "numa_node": "1",
		"max_link_width": "16", "current_link_width": "16", "max_link_speed": "32.0 GT/s PCIe"} {
		m.put(real+"/"+file, text+"\n")
	}
	m.link("sys/bus/pci/devices/"+address, "../../../../"+real)
	m.driver(address, driver)
	m.link("sys/bus/pci/devices/"+address+"/iommu_group", fmt.Sprintf("/sys/kernel/iommu_groups/%d", group))
	m.put(fmt.Sprintf("sys/kernel/iommu_groups/%d/devices/%s", group, address), "")
}

// driver binds another driver to a device; "": none.
func (m *machine) driver(address, name string) {
	m.Helper()
	m.remove("sys/bus/pci/devices/" + address + "/driver")
	if name != "" {
		m.link("sys/bus/pci/devices/"+address+"/driver", "/sys/bus/pci/drivers/"+name)
	}
}

func (m *machine) put(name, text string) {
	m.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.Fatal(err)
	}
}

func (m *machine) link(name, to string) {
	m.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		m.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		m.Fatal(err)
	}
}

func (m *machine) remove(name string) {
	m.Helper()
	if err := os.RemoveAll(filepath.Join(m.root, name)); err != nil {
		m.Fatal(err)
	}
}

// listens puts a daemon's socket onto the machine.
func (m *machine) listens(name string) {
	m.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		m.Fatal(err)
	}
	socket, err := net.Listen("unix", path)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { socket.Close() })
}

// contain makes it a container.
func (m *machine) contain() {
	m.remove("proc/self/ns/pid")
	m.link("proc/self/ns/pid", "pid:[4026532001]")
}

// look makes checks, and gives the evidence as the gateway reads it.
func (m *machine) look(ctx context.Context, params wire.NodeCheck) wire.Evidence {
	m.Helper()
	if err := params.Check(); err != nil {
		m.Fatal(err) // the agent never gets such params
	}
	outcome := m.checker.Do(ctx, task.Job{ID: "aaaaaaaaaaaaaaaa", Output: io.MultiWriter(&m.out), Probe: m.probe}, &params)
	got, err := wire.ReadEvidence(outcome.Values)
	if outcome.Error != "" || err != nil {
		m.Fatalf("%+v, %v", outcome, err)
	}
	if len(got.Checks) != len(params.Checks) {
		m.Fatalf("%d checks, want %d", len(got.Checks), len(params.Checks))
	}
	return got
}

// one makes one check.
func (m *machine) one(name string) wire.Check {
	m.Helper()
	return m.look(m.Context(), wire.NodeCheck{Checks: []string{name}}).Checks[0]
}

// want checks how one check ends, and that it says these words.
func (m *machine) want(name, state string, words ...string) {
	m.Helper()
	got := m.one(name)
	if got.State != state || slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(got.Saw, word) }) {
		m.Errorf("%s is %s: %s; want %s with %q", name, got.State, got.Saw, state, words)
	}
}

// sleep waits, and reports false if ctx ends it.
func sleep(ctx context.Context, wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

// serial keeps calls that count from counting at the same time.
func serial(probe func(context.Context, []byte, int) error) func(context.Context, []byte, int) error {
	turn := make(chan struct{}, 1)
	return func(ctx context.Context, data []byte, want int) error {
		turn <- struct{}{}
		defer func() { <-turn }()
		return probe(ctx, data, want)
	}
}
