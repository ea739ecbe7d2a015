package host

import (
	"os"
	"path/filepath"
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
func SeesAllProcesses() bool { return tree("/").link("proc/self/ns/pid") == hostPIDs }

func (t tree) link(path string) string {
	target, _ := os.Readlink(filepath.Join(string(t), path))
	return target
}

// ownPIDs reports whether process 1 belongs to a container, and not to the machine.
func (t tree) ownPIDs() bool {
	pids := t.link("proc/self/ns/pid")
	return pids != "" && pids != hostPIDs
}

// contained reports whether this is a container, also if it shares the PID namespace of the machine. The file that a container
// engine makes proves nothing alone: a virtual machine that was made from a container image has it too.
func (t tree) contained() bool {
	groups := t.link("proc/self/ns/cgroup")
	if t.ownPIDs() || groups != "" && groups != hostCgroups {
		return true
	}
	return (t.exists(".dockerenv") || t.exists("run/.containerenv")) && t.mounted("/") == "overlay"
}

func (t tree) exists(path string) bool {
	_, err := os.Stat(filepath.Join(string(t), path))
	return err == nil
}

// own reports whether a file of /proc was mounted for the container, as lxcfs does. Then its figures are those of the container.
func (t tree) own(path string) bool { return t.mounted(path) != "" }

// mounted is the kind of the file system that is mounted at path itself. It is empty if none is.
func (t tree) mounted(path string) (kind string) {
	for line := range strings.Lines(t.text("proc/self/mountinfo")) {
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
func (t tree) containerStart(boot *time.Time) *time.Time {
	const ticksPerSecond = 100 // USER_HZ, the same on every architecture that the agent is built for
	words := statWords(t.text("proc/1/stat"))
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

// Contained reports whether the machine whose file system begins at root is a container.
func Contained(root string) bool { return tree(root).contained() }
