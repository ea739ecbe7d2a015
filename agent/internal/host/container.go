package host

import (
	"strings"
	"time"
)

// The numbers of the first namespaces, those of the machine itself (linux/proc_ns.h).
const (
	hostPIDs    = "pid:[4026531836]"
	hostCgroups = "cgroup:[4026531835]"
)

// SeesAllProcesses reports whether this process is in the machine's own PID namespace. In another namespace, lists of processes are
// not complete.
func SeesAllProcesses() bool { return Tree("/").Link("proc/self/ns/pid") == hostPIDs }

// ownPIDs reports whether process 1 belongs to a container, and not to the machine.
func (t Tree) ownPIDs() bool {
	pids := t.Link("proc/self/ns/pid")
	return pids != "" && pids != hostPIDs
}

// Contained reports whether the machine is a container, also if it shares the PID namespace of the machine. The file that a container
// engine makes proves nothing alone: a virtual machine that was made from a container image has it too.
func (t Tree) Contained() bool {
	groups := t.Link("proc/self/ns/cgroup")
	if t.ownPIDs() || groups != "" && groups != hostCgroups {
		return true
	}
	return (t.Exists(".dockerenv") || t.Exists("run/.containerenv")) && t.mounted("/") == "overlay"
}

// own reports whether a file of /proc was mounted for the container, as lxcfs does. Then its figures are those of the container.
func (t Tree) own(path string) bool { return t.mounted(path) != "" }

// mounted is the kind of the file system that is mounted at path itself. It is empty if none is.
func (t Tree) mounted(path string) (kind string) {
	for line := range strings.Lines(t.Text("proc/self/mountinfo")) {
		place, source, _ := strings.Cut(line, " - ")
		words := strings.Fields(place)
		after := strings.Fields(source)
		if len(words) > 4 && words[4] == path && len(after) > 0 {
			kind = after[0]
		}
	}
	return kind
}

// containerStart is when process 1 of the container began, nil if that is not known. /proc/1/stat counts it from the boot on.
func (t Tree) containerStart(boot *time.Time) *time.Time {
	const ticksPerSecond = 100 // USER_HZ, the same on every architecture that the agent is built for
	words := statWords(t.Text("proc/1/stat"))
	if boot == nil || !t.ownPIDs() || t.own("/proc/stat") || words == nil {
		return nil
	}
	ticks := parseInt(words[statStart])
	if ticks == nil || *ticks > 1e12 {
		return nil
	}
	began := boot.Add(time.Duration(*ticks/ticksPerSecond) * time.Second)
	return &began
}
