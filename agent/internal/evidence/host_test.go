package evidence_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/task"
	"muster/agent/wire"
)

// TestHostChecks: each check of the machine itself, well and not.
func TestHostChecks(t *testing.T) {
	t.Parallel()
	handOver := func(m *machine) {
		m.driver(bdfA, "vfio-pci")
		m.driver(bdfB, "vfio-pci")
		m.put("dev/vfio/27", "")
		m.put("dev/vfio/31", "")
	}
	switchd := func(m *machine) {
		m.put("run/openvswitch/ovs-vswitchd.pid", "812\n")
		m.put("proc/812/comm", "ovs-vswitchd\n")
	}
	for _, c := range []struct {
		check  string
		change func(*machine)
		state  string
		words  string
	}{
		{wire.CheckKVM, nil, wire.CheckOK, "nested Y"},
		{wire.CheckKVM, func(m *machine) { m.remove("sys/module") }, wire.CheckOK, "/dev/kvm"},
		{wire.CheckKVM, func(m *machine) { m.remove("dev/kvm") }, wire.CheckFailed, "load kvm_intel"},
		{wire.CheckKVM, func(m *machine) { m.remove("dev/kvm"); m.put("proc/cpuinfo", "flags : fpu\n") }, wire.CheckFailed, "BIOS"},
		{wire.CheckIOMMU, nil, wire.CheckOK, "2 GPUs: a group of its own"},
		{wire.CheckIOMMU, func(m *machine) { m.remove("sys/bus/pci/devices/" + bdfA + "/iommu_group") },
			wire.CheckFailed, bdfA + ": it is in no"},
		{wire.CheckIOMMU, func(m *machine) { m.remove("sys/kernel/iommu_groups/27") }, wire.CheckUnknown, "group 27 cannot be read"},
		{wire.CheckIOMMU, func(m *machine) {
			m.device("0000:1a:00.1", "0000:15:01.0", "10de", "22a3", "040300", "snd_hda_intel", 27)
		}, wire.CheckFailed, "0000:1a:00.1 of its IOMMU group 27 has the driver snd_hda_intel"},
		{wire.CheckIOMMU, func(m *machine) {
			m.device("0000:1a:00.1", "0000:15:01.0", "10de", "22a3", "040300", "", 27)
			m.device("0000:15:01.0", "", "8086", "352a", "060400", "pcieport", 27)
		}, wire.CheckOK, "2 GPUs"},
		{wire.CheckIOMMU, func(m *machine) {
			for _, one := range []string{bdfA, bdfB} {
				m.remove("sys/bus/pci/devices/" + one)
			}
		}, wire.CheckUnknown, "no GPU"},
		{wire.CheckVFIO, handOver, wire.CheckOK, "2 GPUs: bound to vfio-pci"},
		{wire.CheckVFIO, nil, wire.CheckFailed, "bound to nvidia"},
		{wire.CheckVFIO, func(m *machine) { handOver(m); m.driver(bdfB, "") }, wire.CheckFailed, "no driver is bound"},
		{wire.CheckVFIO, func(m *machine) { handOver(m); m.remove("dev/vfio/31") }, wire.CheckFailed, "no file in /dev/vfio"},
		{wire.CheckOVS, func(m *machine) { switchd(m); m.listens("run/openvswitch/db.sock") }, wire.CheckOK, "db.sock answers"},
		{wire.CheckOVS, nil, wire.CheckFailed, "there is no"},
		{wire.CheckOVS, func(m *machine) { switchd(m); m.put("proc/812/comm", "bash\n") }, wire.CheckFailed, "process 812 is not"},
		{wire.CheckOVS, func(m *machine) { switchd(m); m.put("run/openvswitch/db.sock", "") }, wire.CheckFailed, "refused"},
		{wire.CheckLibvirt, func(m *machine) { m.listens("run/libvirt/libvirt-sock") }, wire.CheckOK, "libvirt-sock answers"},
		{wire.CheckLibvirt, func(m *machine) { m.listens("run/libvirt/virtqemud-sock") }, wire.CheckOK, "virtqemud-sock answers"},
		{wire.CheckLibvirt, nil, wire.CheckFailed, "no socket"},
		{wire.CheckLibvirt, func(m *machine) { m.put("run/libvirt/libvirt-sock", "") }, wire.CheckFailed, "refused"},
		{wire.CheckBareMetal, nil, wire.CheckOK, "XE9680L"},
		{wire.CheckBareMetal, func(m *machine) { m.put("proc/cpuinfo", "flags : hypervisor\n") }, wire.CheckFailed, "CPU says so"},
		{wire.CheckBareMetal, func(m *machine) { m.put("sys/class/dmi/id/sys_vendor", "QEMU\n") }, wire.CheckFailed, "QEMU"},
		{wire.CheckBareMetal, func(m *machine) { m.remove("sys/class/dmi"); m.put("proc/cpuinfo", "Features : fp\n") },
			wire.CheckUnknown, "neither"},
		{wire.CheckRuntime, nil, wire.CheckOK, "docker, podman"},
		{wire.CheckRuntime, func(m *machine) {
			m.checker.Engines = func(context.Context) ([]string, error) { return nil, errors.New("install one") }
		}, wire.CheckFailed, "install one"},
		{wire.CheckDiskRoom, func(m *machine) { m.checker.State = m.root + "/nowhere" }, wire.CheckUnknown, "no such file"},
		{wire.CheckDiskSpeed, func(m *machine) { m.checker.State = m.root + "/nowhere" }, wire.CheckUnknown, "no such file"},
		{wire.CheckProgram, nil, wire.CheckUnknown, "no image"},
	} {
		t.Run(c.check, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			if c.change != nil {
				c.change(m)
			}
			m.want(c.check, c.state, c.words)
		})
	}
}

// TestForbidden: a daemon that the agent may not speak to is not known to run.
func TestForbidden(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may speak to every daemon")
	}
	m := newMachine(t)
	m.listens("run/libvirt/libvirt-sock")
	if err := os.Chmod(m.root+"/run/libvirt/libvirt-sock", 0); err != nil {
		t.Fatal(err)
	}
	m.want(wire.CheckLibvirt, wire.CheckUnknown, "run it as root")
}

// TestDisk: room and speed are measured, and nothing is left.
func TestDisk(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	got := m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckDiskRoom, wire.CheckDiskSpeed}})
	names := map[string]float64{}
	for _, f := range got.Figures {
		names[f.Name] = f.Value
	}
	if names["disk_free"] <= 0 {
		t.Errorf("%+v", got)
	}
	if speed := got.Checks[1]; speed.State == wire.CheckOK && (names["disk_write"] <= 0 || names["disk_read"] <= 0) ||
		speed.State != wire.CheckOK && !strings.Contains(speed.Saw, "too little") {
		t.Errorf("%+v", got)
	}
	if left, err := os.ReadDir(m.checker.State); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestWay: what is moved in a time is the speed, each direction by itself.
func TestWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.probe = func(ctx context.Context, data []byte, want int) error {
			if len(data) > 0 && want > 0 {
				t.Error("both directions at once")
			}
			if len(data)+want > 1 && !sleep(ctx, 100*time.Millisecond) {
				return ctx.Err()
			}
			return nil
		}
		got := m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckDownload, wire.CheckUpload}})
		for i, name := range []string{"download", "upload"} { // 64 pieces of 699052 bytes in 1.6 s
			if f := got.Figures[i]; f.Name != name || f.Unit != "Mbit/s" || f.Value < 220 || f.Value > 225 || got.Checks[i].State != wire.CheckOK {
				t.Errorf("%+v %+v", f, got.Checks[i])
			}
		}
	})
}

// TestWayBreaks: what breaks is unknown. What is only slow is measured in the time that there is.
func TestWayBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		calls := 0
		for name, c := range map[string]struct {
			probe func(ctx context.Context, data []byte, want int) error
			state string
		}{
			"an old gateway": {func(context.Context, []byte, int) error { return errors.New("a task has no such file") }, wire.CheckUnknown},
			"it breaks": {func(_ context.Context, data []byte, want int) error {
				if calls++; calls > 1 {
					return errors.New("reset")
				}
				return nil
			}, wire.CheckUnknown},
			"slow": {func(ctx context.Context, data []byte, want int) error {
				if want > 1 && !sleep(ctx, 4*time.Second) {
					return ctx.Err()
				}
				return nil
			}, wire.CheckOK},
			"too slow": {func(ctx context.Context, data []byte, want int) error {
				if want > 1 && !sleep(ctx, time.Hour) {
					return ctx.Err()
				}
				return nil
			}, wire.CheckUnknown},
		} {
			m.probe = serial(c.probe)
			if got := m.one(wire.CheckDownload); got.State != c.state {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}

// TestProgramFails: what keeps the container from its end makes its check unknown.
func TestProgramFails(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.checker.Look = nil
	m.checker.Trial = func(_ context.Context, _ task.Job, _ wire.WorkloadLaunch, began func()) (int, string, error) {
		began()
		return 0, "", errors.New("the image could not be pulled")
	}
	got := m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckProgram}, Image: image}).Checks[0]
	if got.State != wire.CheckUnknown || !strings.Contains(got.Saw, "could not be pulled") {
		t.Errorf("%+v", got)
	}
}
