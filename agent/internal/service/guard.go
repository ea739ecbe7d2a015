package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

const (
	// guardTime is how long a guard leaves a version on trial to itself. The version ends itself at wire.TrialTime, unless it hangs.
	guardTime  = wire.TrialTime + 3*time.Second
	guardLook  = time.Second     // between two looks whether the trial has ended
	guardPause = 5 * time.Second // between two decisions, once its time is over
	guardGrace = 5 * time.Second // for the failed version to end by itself
)

// guardLock is a file in the state directory. The guard that runs holds its lock.
const guardLock = "guard.lock"

// Guard watches a version on trial from outside. It belongs to the last good version. It makes the way back safe if the version hangs, and
// if the supervisor runs no settle before a start. After a loss of power there is no guard until settle starts another one.
type Guard struct {
	Base string
	// Open reports whether the trial goes on, and of which build.
	Open func() (build string, open bool)
	// Settle decides about the trial. It reports whether the good version is the current one again.
	Settle func(ctx context.Context) (back bool)
}

// StartGuard starts the guard of a state directory from its last good version, in a session of its own. If a guard runs already, the second
// one ends at once. way is how this agent reaches its gateway: an agent in the foreground may have been told so by a flag.
func StartGuard(base, way string) error {
	// It reads the settings itself.
	command := apart(Layout{Base: base}.GoodProgram(), "settle", "--guard", "--state", base, "--transport", way)
	if by := os.Getenv(wire.EnvSupervised); by != "" {
		command.Env = append(command.Env, wire.EnvSupervised+"="+by)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the guard of the new version: %w", err)
	}
	go func() { _ = command.Wait() }() // it may end before this process
	return nil
}

// Run watches until the trial has ended. If another guard watches, it returns without an error.
func (g Guard) Run(ctx context.Context) error {
	lock, err := disk.Lock(filepath.Join(g.Base, guardLock))
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return explain(g.Base, err)
	}
	defer lock.Close()
	for due := time.Now().Add(guardTime); ; {
		build, open := g.Open()
		switch {
		case !open:
			return nil
		case !time.Now().Before(due):
			if g.Settle(ctx) {
				return end(ctx, guardGrace, func() []int { return Layout{Base: g.Base}.runs(build) }) // what keeps the agent starts the good one then
			}
			due = time.Now().Add(guardPause)
		}
		if !transport.Sleep(ctx, guardLook) {
			return nil
		}
	}
}

// runs lists the processes that run the agent from a build. It does not go by the lock or the status, because a version that is no good
// may have neither.
func (l Layout) runs(build string) (pids []int) {
	program, err := filepath.EvalSymlinks(l.Version(build))
	if err != nil {
		return nil
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		pid, err := strconv.Atoi(filepath.Base(process))
		if to, unread := os.Readlink(filepath.Join(process, "exe")); err != nil || unread != nil || to != program {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		if words := strings.Split(string(line), "\x00"); len(words) > 1 && words[1] == "run" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// SettleLock makes sure that only one process at a time decides about the version that is started next. It waits for another process until
// ctx ends; then the error is syscall.EWOULDBLOCK.
func SettleLock(ctx context.Context, base string) (free func(), err error) {
	for {
		lock, err := disk.Lock(filepath.Join(base, settleLock))
		if err == nil {
			return func() { lock.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || !transport.Sleep(ctx, 20*time.Millisecond) {
			return nil, explain(base, err)
		}
	}
}

// settleLock is a file in the state directory.
const settleLock = "settle.lock"
