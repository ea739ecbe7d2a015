// Package host reads what Linux says about the machine that the agent runs on: size and use of memory and disk, processors, load, kernel
// and boot time, what the agent itself takes, and which provider rents the machine out.
//
// It reads files that are cheap to read. A value that cannot be read is nil, never 0.
//
// Log reads what the kernel's log says about GPUs: NVIDIA's Xids, GPUs that fell off the bus, resets and memory errors of AMD's.
//
// It reads /dev/kmsg and never waits for it. It counts records of the kernel alone, because programs can write there too. What was read in
// this boot is kept in a file: so a restart of the agent finds no event twice, and an event that the kernel has overwritten since stays.
package host

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"muster/agent/wire"
)

// Read looks at the machine whose file system begins at root ("/", or a folder of a test), and fills its part of a report. In a container
// with limits, the limits count as the machine, and the start of the container as its boot. stateDir does not depend on root, and need not
// exist yet.
func Read(root, stateDir string) (h wire.Hardware) {
	t := Tree(root)
	contained := t.Contained()
	h.CPUs = t.cpus()
	h.Load1 = t.load1(contained)
	h.Kernel = t.kernel()
	h.BootTime = t.bootTime(contained)
	h.MemoryTotalMiB, h.MemoryUsedMiB = t.memory()
	h.DiskTotalMiB, h.DiskUsedMiB = diskSize(stateDir)
	return h
}

// Cost returns what the agent itself uses, without its children.
func Cost(root string) wire.Cost {
	return wire.Cost{RSSKiB: Tree(root).residentKiB(), CPUMillis: ownCPUMillis()}
}

func (t Tree) kernel() *string {
	release := t.Text("proc/sys/kernel/osrelease")
	if release == "" {
		return nil
	}
	return &release
}

func (t Tree) load1(contained bool) *float64 {
	if contained && !t.own("/proc/loadavg") {
		return nil // the kernel counts the work of the whole machine
	}
	first, _, _ := strings.Cut(t.Text("proc/loadavg"), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil || math.IsNaN(load) || math.IsInf(load, 0) || load < 0 {
		return nil
	}
	return &load
}

func (t Tree) bootTime(contained bool) *time.Time {
	seconds := field(t.Text("proc/stat"), "btime")
	if seconds == nil || *seconds == 0 {
		return nil
	}
	boot := time.Unix(*seconds, 0).UTC()
	if contained {
		return t.containerStart(&boot)
	}
	return &boot
}

// residentKiB is the second figure of /proc/self/statm, in pages.
func (t Tree) residentKiB() *int64 {
	words := strings.Fields(t.Text("proc/self/statm"))
	if len(words) < 2 {
		return nil
	}
	pages := parseInt(words[1])
	if pages == nil || *pages > math.MaxInt64/int64(os.Getpagesize()) {
		return nil
	}
	size := *pages * int64(os.Getpagesize()) / 1024
	return &size
}

func ownCPUMillis() *int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return nil
	}
	spent := (usage.Utime.Nano() + usage.Stime.Nano()) / int64(time.Millisecond)
	return &spent
}

// diskSize measures the file system that holds dir, or the nearest parent of it that exists.
func diskSize(dir string) (total, used *int64) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil
	}
	var fs syscall.Statfs_t
	// The state directory may not exist yet: then its nearest parent tells the file system.
	for err = syscall.Statfs(dir, &fs); err == syscall.ENOENT && dir != "/"; err = syscall.Statfs(dir, &fs) {
		dir = filepath.Dir(dir)
	}
	block := uint64(fs.Frsize)
	if err != nil || fs.Blocks == 0 || fs.Bfree > fs.Blocks || block == 0 || fs.Blocks > math.MaxInt64/block {
		return nil, nil
	}
	all := int64(fs.Blocks * block >> 20)
	taken := int64((fs.Blocks - fs.Bfree) * block >> 20)
	return &all, &taken
}

// cpus counts the processors that work may use: those that are online and that the agent may run on, or fewer where a CPU quota
// says so. /proc/cpuinfo is the last resort: to write it, the kernel asks every core for its clock.
func (t Tree) cpus() *int {
	n := countList(t.Text("sys/devices/system/cpu/online"))
	if n == 0 {
		n = countProcessors(t.Text("proc/cpuinfo"))
	}
	if t == "/" {
		allowed := runtime.NumCPU()
		if n == 0 || allowed < n {
			n = allowed
		}
	}
	if quota := t.cpuQuota(); quota > 0 && (n == 0 || quota < n) {
		n = quota
	}
	if n == 0 {
		return nil
	}
	return &n
}

// countList counts the members of a list such as 0-15,32-47. It is 0 for other text.
func countList(list string) (n int) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || to < from {
			return 0
		}
		n += int(to-from) + 1
	}
	return n
}

// countProcessors counts the entries of /proc/cpuinfo.
func countProcessors(info string) (n int) {
	for line := range strings.Lines(info) {
		key, _, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "processor" {
			n++
		}
	}
	return n
}

// cpuQuota is how many processors a container may use, rounded up. It is 0 if there is no limit. It reads only the top of the
// mounted cgroup tree. In a container that is the container. On a host the top has no limit, and the agent's unit is below it.
func (t Tree) cpuQuota() int {
	quota := t.number("sys/fs/cgroup/cpu/cpu.cfs_quota_us")
	period := t.number("sys/fs/cgroup/cpu/cpu.cfs_period_us")
	if words := strings.Fields(t.Text("sys/fs/cgroup/cpu.max")); len(words) == 2 {
		quota = parseInt(words[0])
		period = parseInt(words[1])
	}
	if quota == nil || period == nil || *quota == 0 || *period == 0 {
		return 0
	}
	return int(math.Ceil(float64(*quota) / float64(*period)))
}
