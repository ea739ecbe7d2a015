package metrics

import (
	"fmt"
	"os"
	"runtime"
	rt "runtime/metrics"
	"syscall"
	"time"
)

// process is what this process takes of the machine. A nil field is not known.
type process struct {
	goVersion   string
	cpuSeconds  *float64
	resident    *int64
	heap        *int64
	goroutines  *int64
	descriptors *int64
}

// readProcess asks the system and the runtime.
func readProcess() process {
	p := process{goVersion: runtime.Version(), cpuSeconds: cpuSeconds(), resident: resident(), descriptors: descriptors()}
	samples := []rt.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/sched/goroutines:goroutines"}}
	rt.Read(samples)
	p.heap = number(samples[0].Value)
	p.goroutines = number(samples[1].Value)
	return p
}

func number(v rt.Value) *int64 {
	if v.Kind() != rt.KindUint64 {
		return nil
	}
	n := int64(v.Uint64())
	return &n
}

func cpuSeconds() *float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return nil
	}
	used := (time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds()
	return &used
}

// resident reads the second number of /proc/self/statm, in pages.
func resident() *int64 {
	raw, _ := os.ReadFile("/proc/self/statm") // without it no number is found
	var all, pages int64
	if n, _ := fmt.Sscan(string(raw), &all, &pages); n < 2 {
		return nil
	}
	size := pages * int64(os.Getpagesize())
	return &size
}

// descriptors counts the entries of /proc/self/fd. One of them is the folder's own.
func descriptors() *int64 {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	n := int64(len(entries) - 1)
	return &n
}
