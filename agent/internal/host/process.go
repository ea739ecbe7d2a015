package host

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// BootID names this boot of the kernel. It is empty if the kernel does not tell.
func BootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// Process names a process on the disk, so that another run of the agent finds it. The system reuses ids, but not with the same start in the
// same boot.
type Process struct {
	PID   int    `json:"pid"`
	Ticks string `json:"start_ticks"` // /proc/PID/stat, field 22; empty: it had ended
	Boot  string `json:"boot_id"`
}

// ProcessOf names the process that has this id now.
func ProcessOf(pid int) Process {
	p := Process{PID: pid, Boot: BootID()}
	if words := statOf(pid); words != nil {
		p.Ticks = words[statStart]
	}
	return p
}

// Lives reports whether this very process still runs.
func (p Process) Lives() bool { return p.PID > 1 && p.Ticks != "" && p == ProcessOf(p.PID) }

// InSession reports whether a process lives, and is in the session with this leader.
func InSession(pid, leader int) bool {
	words := statOf(pid)
	return words != nil && words[statSession] == strconv.Itoa(leader)
}

// Below reports whether a process lives, and descends from another one.
func Below(pid, ancestor int) bool {
	for range 1000 { // the numbers may change while this looks, even into a circle
		words := statOf(pid)
		if words == nil {
			return false
		}
		parent, err := strconv.Atoi(words[statParent])
		if err != nil || parent <= 1 && parent != ancestor {
			return false
		}
		if parent == ancestor {
			return true
		}
		pid = parent
	}
	return false
}

// Signal sends a signal to each process for which belongs is true, and returns their numbers. Signal 0 sends nothing: then it only looks.
// Each process is checked again once it is held, because its number may have passed on to another process meanwhile. proc is the path of
// /proc.
func Signal(proc string, belongs func(pid int) bool, signal syscall.Signal) (all []int) {
	names, _ := os.ReadDir(proc)
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil || pid <= 1 || !belongs(pid) {
			continue
		}
		process, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if belongs(pid) {
			all = append(all, pid)
			if signal != 0 {
				_ = process.Signal(signal) // it may have ended by itself
			}
		}
		_ = process.Release()
	}
	return all
}

// Fields of /proc/PID/stat, counted from behind the name.
const (
	statState   = 0 // field 3
	statParent  = 1
	statSession = 3
	statStart   = 19
)

// statOf gives nil if a process has ended. One whose first thread alone has ended looks so too, and goes on.
func statOf(pid int) []string {
	folder := "/proc/" + strconv.Itoa(pid)
	line, _ := os.ReadFile(folder + "/stat")
	words := statWords(string(line))
	if words == nil || words[statState] == "X" {
		return nil
	}
	if words[statState] == "Z" {
		if threads, _ := os.ReadDir(folder + "/task"); len(threads) < 2 {
			return nil
		}
	}
	return words
}

// statWords reads a line of /proc/PID/stat from behind the name, which may hold anything, brackets included. It gives nil if the line is
// no such line.
func statWords(line string) []string {
	words := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(words) <= statStart {
		return nil
	}
	return words
}
