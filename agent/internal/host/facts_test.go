package host_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/internal/host"
)

// plant writes files below a directory and returns it.
func plant(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// show prints a value behind a pointer.
func show[T any](p *T) string {
	if p == nil {
		return "null"
	}
	return fmt.Sprint(*p)
}

// bare is a machine of 16 processors and 64 GiB, 16 of them available.
func bare() map[string]string {
	return map[string]string{
		"proc/meminfo":                     "MemTotal:       67108864 kB\nMemFree:         1048576 kB\nMemAvailable:   16777216 kB\n",
		"proc/loadavg":                     "1.25 0.80 0.50 3/1234 5678\n",
		"proc/stat":                        "cpu  1 2 3 4\nintr 1 2 3\nbtime 1793534400\nprocesses 5\n",
		"proc/sys/kernel/osrelease":        "6.8.0-45-generic\n",
		"proc/self/statm":                  "30000 1600 900 1 0 2000 0\n",
		"proc/cpuinfo":                     "processor\t: 0\nmodel name\t: processor of some kind\n\nprocessor\t: 1\n",
		"sys/devices/system/cpu/online":    "0-7,16-23\n",
		"sys/fs/cgroup/cpu/cpu.shares":     "1024\n",
		"sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
	}
}

func TestRead(t *testing.T) {
	tests := []struct {
		name   string
		change map[string]string // empty: the file is not there
		want   string            // cpus, memory used/total, load, kernel, boot
	}{
		{"bare metal", nil, "16 49152/65536 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"no list of processors", map[string]string{"sys/devices/system/cpu/online": ""},
			"2 49152/65536 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"container, version 2", map[string]string{"sys/fs/cgroup/memory.max": "8589934592\n", "sys/fs/cgroup/memory.current": "3221225472\n",
			"sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 1073741824\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"},
			"3 2048/8192 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"container without limits", map[string]string{"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "1\n",
			"sys/fs/cgroup/cpu.max": "max 100000\n"}, "16 49152/65536 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"container, version 1", map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "8589934592\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "3221225472\n", "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 1073741824\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
			"1 2048/8192 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"version 1 without limits", map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
			"16 49152/65536 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"container, version 2, with pages in use that can be dropped", map[string]string{"sys/fs/cgroup/memory.max": "8589934592\n",
			"sys/fs/cgroup/memory.current": "6442450944\n", "sys/fs/cgroup/memory.stat": "anon 1\nactive_file 2147483648\n" +
				"inactive_file 1073741824\nslab_reclaimable 1048576\nshmem 5\n"}, "16 3071/8192 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"container, version 1, with pages in use that can be dropped", map[string]string{
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "8589934592\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "3221225472\n",
			"sys/fs/cgroup/memory/memory.stat": "inactive_file 7\ntotal_inactive_file 1073741824\ntotal_active_file 1073741824\n"},
			"16 1024/8192 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"container that does not say what can be dropped", map[string]string{"sys/fs/cgroup/memory.max": "8589934592\n",
			"sys/fs/cgroup/memory.current": "3221225472\n"}, "16 null/8192 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"more that can be dropped than there is", map[string]string{"sys/fs/cgroup/memory.max": "8589934592\n",
			"sys/fs/cgroup/memory.current": "1073741824\n", "sys/fs/cgroup/memory.stat": "inactive_file 9999999999\n"},
			"16 0/8192 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"a limit of which nothing else is known", map[string]string{"sys/fs/cgroup/memory.max": "8589934592\n"},
			"16 null/8192 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"no figure of what is available", map[string]string{"proc/meminfo": "MemTotal: 67108864 kB\n"},
			"16 null/65536 1.25 6.8.0-45-generic 2026-11-01T12:00:00Z"},
		{"nothing readable", map[string]string{"proc/meminfo": "", "proc/loadavg": "", "proc/stat": "", "proc/sys/kernel/osrelease": "",
			"proc/cpuinfo": "", "sys/devices/system/cpu/online": ""}, "null null/null null null null"},
		{"nonsense", map[string]string{"proc/meminfo": "MemTotal: -5 kB\nMemAvailable: 9 kB\n", "proc/loadavg": "NaN 1 1",
			"proc/stat":                 "btime\nbtime x\n",
			"proc/sys/kernel/osrelease": "\n", "proc/cpuinfo": "model: x\n", "sys/devices/system/cpu/online": "7-0\n",
			"sys/fs/cgroup/cpu.max": "0 0\n", "sys/fs/cgroup/memory.max": "0\n"}, "null null/null null null null"},
		{"more available than there is", map[string]string{"proc/meminfo": "MemTotal: 2048 kB\nMemAvailable: 4096 kB\n", "proc/loadavg": "-1",
			"proc/stat": "btime 0\n"}, "16 null/2 null 6.8.0-45-generic null"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := bare()
			maps.Copy(files, test.change)
			maps.DeleteFunc(files, func(_, text string) bool { return text == "" })
			h := host.Read(plant(t, files), t.TempDir())
			boot := "null"
			if h.BootTime != nil {
				boot = h.BootTime.Format("2006-01-02T15:04:05Z07:00")
			}
			got := fmt.Sprintf("%s %s/%s %s %s %s", show(h.CPUs), show(h.MemoryUsedMiB), show(h.MemoryTotalMiB), show(h.Load1), show(h.Kernel), boot)
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if h.DiskTotalMiB == nil || h.DiskUsedMiB == nil || *h.DiskTotalMiB < *h.DiskUsedMiB || *h.DiskTotalMiB == 0 {
				t.Errorf("got disk %s/%s MiB", show(h.DiskUsedMiB), show(h.DiskTotalMiB))
			}
		})
	}
}

// In a container, load and boot time are those of the container, or not known.
func TestContainer(t *testing.T) {
	const root = "22 27 0:21 / / rw,relatime - overlay overlay rw\n"
	const init = "1 (sh (init) x) S 0 1 1 0 -1 4194560 1 2 0 3 4 5 6 7 20 0 1 0 360000 1 2 3\n" // an hour after the boot
	lxcfs := func(file string) string { return "40 22 0:40 / " + file + " rw,nosuid - fuse.lxcfs lxcfs rw\n" }
	tests := []struct {
		name         string
		pids, groups string
		files        map[string]string
		want         string // load, boot
	}{
		{"a machine", "pid:[4026531836]", "cgroup:[4026531835]", nil, "1.25 12:00"},
		{"a machine made from an image", "pid:[4026531836]", "cgroup:[4026531835]", map[string]string{".dockerenv": "x"}, "1.25 12:00"},
		{"a container", "pid:[4026532000]", "cgroup:[4026532001]", map[string]string{"proc/1/stat": init}, "null 13:00"},
		{"a container that hides process 1", "pid:[4026532000]", "cgroup:[4026532001]", nil, "null null"},
		{"a container whose process 1 says nonsense", "pid:[4026532000]", "", map[string]string{"proc/1/stat": "1 (x) S 0 1"}, "null null"},
		{"a start that is no time", "pid:[4026532000]", "", map[string]string{
			"proc/1/stat": "1 (x) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9999999999999 0 0\n"}, "null null"},
		{"one that shares the machine's processes", "pid:[4026531836]", "cgroup:[4026532001]", map[string]string{"proc/1/stat": init},
			"null null"},
		{"one that shares its groups as well", "pid:[4026531836]", "cgroup:[4026531835]", map[string]string{
			"proc/1/stat": init, ".dockerenv": "x", "proc/self/mountinfo": root}, "null null"},
		{"LXC with lxcfs", "pid:[4026532000]", "cgroup:[4026532001]", map[string]string{
			"proc/1/stat": init, "proc/self/mountinfo": root + lxcfs("/proc/loadavg") + lxcfs("/proc/stat")}, "1.25 null"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := bare()
			maps.Copy(files, test.files)
			dir := plant(t, files)
			namespaces := filepath.Join(dir, "proc/self/ns")
			if err := os.MkdirAll(namespaces, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, target := range map[string]string{"pid": test.pids, "cgroup": test.groups} {
				if err := os.Symlink(target, filepath.Join(namespaces, name)); target != "" && err != nil {
					t.Fatal(err)
				}
			}
			f := host.Read(dir, t.TempDir())
			boot := "null"
			if f.BootTime != nil {
				boot = f.BootTime.Format("15:04")
			}
			if got := show(f.Load1) + " " + boot; got != test.want {
				t.Errorf("load and boot = %s, want %s", got, test.want)
			}
		})
	}
}

func TestDisk(t *testing.T) {
	root := plant(t, nil)
	dir := plant(t, map[string]string{"file": "x"})
	there := host.Read(root, dir)
	notYet := host.Read(root, filepath.Join(dir, "not", "yet"))
	if there.DiskTotalMiB == nil || notYet.DiskTotalMiB == nil || *there.DiskTotalMiB != *notYet.DiskTotalMiB {
		t.Errorf("got %s for a directory, %s for one to come below it", show(there.DiskTotalMiB), show(notYet.DiskTotalMiB))
	}
	if below := host.Read(root, filepath.Join(dir, "file", "x")); below.DiskTotalMiB != nil {
		t.Errorf("below a file: got %d MiB, want nothing", *below.DiskTotalMiB)
	}
	if proc := host.Read(root, "/proc"); proc.DiskTotalMiB != nil {
		t.Errorf("/proc: got %d MiB, want nothing", *proc.DiskTotalMiB)
	}
}

func TestCost(t *testing.T) {
	cost := host.Cost(plant(t, bare()))
	if want := fmt.Sprint(1600 * os.Getpagesize() / 1024); show(cost.RSSKiB) != want || cost.CPUMillis == nil || cost.ProbeMillis != nil {
		t.Errorf("got %s KiB, %s ms, want %s KiB", show(cost.RSSKiB), show(cost.CPUMillis), want)
	}
	for _, statm := range []string{"", "1", "1 x", "1 9223372036854775807"} {
		if got := host.Cost(plant(t, map[string]string{"proc/self/statm": statm})).RSSKiB; got != nil {
			t.Errorf("%q: got %d KiB, want nothing", statm, *got)
		}
	}
}

func TestSystemMemory(t *testing.T) {
	files := bare()
	files["sys/fs/cgroup/memory.max"] = "1048576\n"
	total, used := host.SystemMemory(plant(t, files))
	if show(total) != "65536" || show(used) != "49152" {
		t.Errorf("got %s/%s MiB, want 49152/65536 whatever the container's limit", show(used), show(total))
	}
}

func TestThisMachine(t *testing.T) {
	f := host.Read("/", t.TempDir())
	if f.CPUs == nil || *f.CPUs < 1 || f.MemoryTotalMiB == nil || *f.MemoryTotalMiB < 1 || f.Kernel == nil || host.Cost("/").RSSKiB == nil {
		t.Errorf("got %s processors, %s MiB, kernel %s, %s KiB resident", show(f.CPUs), show(f.MemoryTotalMiB), show(f.Kernel),
			show(host.Cost("/").RSSKiB))
	}
	if host.SeesAllProcesses() && f.BootTime == nil && f.Load1 != nil {
		t.Error("a load and no boot time on a machine of its own")
	}
}

func FuzzMeminfo(f *testing.F) {
	f.Add([]byte("MemTotal: 67108864 kB\nMemAvailable: 16777216 kB\n"))
	f.Add([]byte("MemTotal:\nMemTotal: 9223372036854775807 kB\nMemAvailable: -1\n"))
	f.Add([]byte("\x00\xffMemTotal: 1\r\n"))
	root := plant(f, map[string]string{"proc/meminfo": ""})
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(filepath.Join(root, "proc/meminfo"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		total, used := host.SystemMemory(root)
		if total != nil && *total < 0 || used != nil && (total == nil || *used < 0 || *used > *total) {
			t.Errorf("got %s/%s", show(used), show(total))
		}
	})
}

// FuzzContainer gives any text to the functions that read a container's files.
func FuzzContainer(f *testing.F) {
	f.Add([]byte("1 (sh) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 360000 0\n"), []byte("22 27 0:21 / / rw - overlay overlay rw\n"),
		[]byte("inactive_file 5\n"))
	f.Add([]byte("1 () )"), []byte(" - "), []byte("inactive_file -1\nactive_file 9223372036854775807\n"))
	root := plant(f, map[string]string{"proc/stat": "btime 1793534400\n", "sys/fs/cgroup/memory.max": "4096\n",
		"sys/fs/cgroup/memory.current": "4096\n"})
	if err := os.MkdirAll(filepath.Join(root, "proc/self/ns"), 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink("pid:[1]", filepath.Join(root, "proc/self/ns/pid")); err != nil {
		f.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "proc/1"), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, stat, mounts, memory []byte) {
		for name, text := range map[string][]byte{"proc/1/stat": stat, "proc/self/mountinfo": mounts, "sys/fs/cgroup/memory.stat": memory} {
			if err := os.WriteFile(filepath.Join(root, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		facts := host.Read(root, root)
		if facts.MemoryUsedMiB != nil && *facts.MemoryUsedMiB != 0 || facts.BootTime != nil && facts.BootTime.Unix() < 1793534400 {
			t.Errorf("got %s MiB, boot %s", show(facts.MemoryUsedMiB), show(facts.BootTime))
		}
	})
}
