// Package owner says who runs the processes on GPUs, and for which allocation.
//
// It reads files of /proc of those processes and of their ancestors alone, and neither arguments nor environments. What cannot be seen
// stays empty. An allocation is told only by what muster itself has made for it: an account, a program, or a container.
package owner

import (
	"context"
	"maps"
	"os"
	"time"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

// The container engines are asked at most for so long, because the next look at the GPUs waits meanwhile, and at most once in so long:
// with the next list of processes.
const (
	askTime = 10 * time.Second
	askPace = 4 * time.Minute
)

// mostContainers is how many containers are remembered. Those that are gone are forgotten with the others.
const mostContainers = 1000

// Finder finds out who runs processes. It is used from one goroutine. A nil field finds nothing.
type Finder struct {
	Root string // where the machine's files are; empty: /
	// Hides reports whether the agent cannot see all processes of this machine; nil asks the kernel.
	Hides func() bool
	// Accounts returns the allocations of the accounts that were made for one, by the UIDs of the accounts.
	Accounts func() map[int]string
	// Program returns the allocation of the program that muster has started and that a process belongs to; empty: there is none.
	Program func(pid int) string
	// Containers returns the allocations of muster's containers, by the first 12 digits of their ids.
	Containers func(ctx context.Context) (map[string]string, error)

	asked      time.Time         // when Containers was asked last
	containers map[string]string // what Containers has answered; empty: a container is not muster's, or of no allocation
}

// Fill fills in who runs these processes. A list may be of processes of another PID namespace, whose numbers mean other processes here. So
// if processes can be hidden, a process counts only if it has a file of a GPU open.
func (f *Finder) Fill(ctx context.Context, list []wire.GPUProcess) {
	hides := !host.SeesAllProcesses()
	if f.Hides != nil {
		hides = f.Hides()
	}
	for i := range list {
		p := &list[i]
		if hides {
			if files, _ := host.Tree(f.Root).GPUFiles(p.PID); len(files) == 0 {
				continue
			}
		}
		seen := host.Tree(f.Root).See(p.PID)
		p.User, p.Program, p.Container = seen.User, seen.Program, seen.Container
		if seen.UID >= 0 {
			p.Allocation = f.allocation(ctx, p.PID, seen)
		}
	}
}

// allocation is what a process works for; empty: that is not known.
//
// Whoever may use a container engine runs programs as any user. So an account counts where there is no container, and in a container only
// where the login that began it is the account's. A user can name groups of processes after any container, but only below the own login.
func (f *Finder) allocation(ctx context.Context, pid int, seen host.Seen) string {
	if f.Program != nil {
		if found := f.Program(pid); found != "" {
			return found
		}
	}
	if seen.Container != "" && (seen.Login < 0 || seen.Login == os.Geteuid()) {
		return f.ofContainer(ctx, seen.Container)
	}
	if f.Accounts == nil {
		return ""
	}
	bound := f.Accounts()
	if found := bound[seen.UID]; found != "" && seen.Container == "" {
		return found
	}
	return bound[seen.Login]
}

// ofContainer is the allocation of a container; empty: it has none, or is not known yet.
func (f *Finder) ofContainer(ctx context.Context, id string) string {
	found, known := f.containers[id]
	if known || f.Containers == nil || !f.asked.IsZero() && time.Since(f.asked) < askPace {
		return found
	}
	f.asked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	all, err := f.Containers(ctx)
	if _, told := all[id]; !told && err != nil {
		return ""
	}
	if f.containers == nil || len(f.containers) > mostContainers {
		f.containers = map[string]string{}
	}
	maps.Copy(f.containers, all)
	f.containers[id] = all[id] // also that it is none of muster's
	return all[id]
}
