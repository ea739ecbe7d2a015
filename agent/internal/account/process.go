package account

import (
	"cmp"
	"context"
	"fmt"
	"muster/agent/internal/host"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Times that a user's processes get to end.
const (
	termGrace = 5 * time.Second
	killGrace = 10 * time.Second
	pollPause = 50 * time.Millisecond
)

// endProcesses ends all processes of a user: first it asks them, then it kills them, again and again, because they may start others.
func (a *Accounts) endProcesses(ctx context.Context, uid int) (ended int, err error) {
	ended = len(a.signal(uid, syscall.SIGTERM))
	if ended == 0 || a.gone(ctx, uid, cmp.Or(a.grace, termGrace), 0) || a.gone(ctx, uid, killGrace, syscall.SIGKILL) {
		return ended, nil
	}
	if err := context.Cause(ctx); err != nil {
		return ended, err
	}
	return ended, fmt.Errorf("processes of the UID %d do not end, not even when they are killed: %v; "+
		"see what they wait for (ps -o pid,stat,wchan)", uid, a.signal(uid, 0))
}

// gone waits until no process of the user is left. If there is a signal, it sends that each time that it looks.
func (a *Accounts) gone(ctx context.Context, uid int, limit time.Duration, signal syscall.Signal) bool {
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		if len(a.signal(uid, signal)) == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-end.C:
			return false
		case <-tick.C:
		}
	}
}

// signal sends a signal to each of a user's processes, and gives their numbers.
func (a *Accounts) signal(uid int, signal syscall.Signal) []int {
	return host.Signal(a.path("/proc"), func(pid int) bool { return a.belongs(strconv.Itoa(pid), uid) }, signal)
}

// belongs tells whether a process is a user's. One that has ended and was not collected does not count. Neither does one in a
// container that root has started: the number of its user means somebody else there. A container that the user has started has a user
// namespace of its own.
func (a *Accounts) belongs(pid string, uid int) bool {
	text, err := os.ReadFile(a.path("/proc/" + pid + "/status"))
	if err != nil || !runsAs(string(text), uid) {
		return false
	}
	foreign := a.namespace(pid, "pid") != a.namespace("self", "pid")
	return !foreign || a.namespace(pid, "user") != a.namespace("self", "user")
}

func (a *Accounts) namespace(pid, kind string) string {
	name, _ := os.Readlink(a.path("/proc/" + pid + "/ns/" + kind))
	return name
}

// runsAs reads /proc/PID/status: does the process live, and is one of its UIDs this one?
func runsAs(status string, uid int) bool {
	alive, ours := false, false
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		words := strings.Fields(value)
		switch name {
		case "State":
			alive = len(words) > 0 && words[0] != "Z" && words[0] != "X"
		case "Uid":
			ours = slices.Contains(words, strconv.Itoa(uid))
		}
	}
	return alive && ours
}
