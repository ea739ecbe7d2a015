package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/host"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// aloneTime is after which a keeper without a process of its run is killed. It is there only because it cannot note the ending, as on a
// full disk. A stop removes that note anyway, and makes room.
const aloneTime = pipeTime + time.Second

// lastTime is how long what was killed may take to be gone.
const lastTime = 10 * time.Second

// Stop ends a run within a grace, and removes it with its output.
func (h Host) Stop(ctx context.Context, name string, grace time.Duration) error {
	r, err := h.read(name)
	if err != nil {
		return err
	}
	if r.State == wire.RunRunning {
		if err := h.end(ctx, r, grace); err != nil {
			return err
		}
	}
	if r.held() { // its keeper kills on, and would write into the folder of the next run
		return errors.New(name + " has ended, but " + r.heldText())
	}
	for begun := time.Now(); len(r.signal(syscall.SIGKILL)) > 0; { // of a run whose keeper is gone
		if time.Since(begun) > lastTime || !transport.Sleep(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%s does not end: the kernel holds its processes, as when a driver is stuck", name)
		}
	}
	h.tell()
	return h.remove(r.folder)
}

// gone begins the name of a folder that is being removed. It is no name of a run.
const gone = ".gone-"

// remove removes the folder of a run as a whole: half of it would be taken for another run.
func (h Host) remove(folder string) error {
	hidden := filepath.Join(filepath.Dir(folder), gone+filepath.Base(folder))
	if err := os.RemoveAll(hidden); err != nil { // the agent may have ended while it removed an earlier one
		return err
	}
	if err := os.Rename(folder, hidden); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(hidden)
}

// end asks the keeper to end its run, and to kill it after the grace.
func (h Host) end(ctx context.Context, r run, grace time.Duration) error {
	if !r.Keeper.Lives() {
		return fmt.Errorf("%s is just beginning: stop it again", r.Name)
	}
	// A full disk takes no note. Then the run may count as ended by itself until it is removed.
	err := os.WriteFile(filepath.Join(r.folder, stopFile), nil, 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) && !disk.TakesNothing(err) {
		return fmt.Errorf("it could not be noted that %s is to end: %w", r.Name, err)
	}
	for _, step := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{askEnd, grace}, {killNow, lastTime}} {
		r.tellKeeper(step.signal)
		for begun := time.Now(); time.Since(begun) < step.within; {
			if !r.Keeper.Lives() {
				return nil
			}
			if time.Since(begun) > aloneTime && r.alone() {
				r.tellKeeper(syscall.SIGKILL)
			}
			if !transport.Sleep(ctx, 20*time.Millisecond) {
				return context.Cause(ctx)
			}
		}
	}
	return fmt.Errorf("%s does not end: the kernel holds its processes, as when a driver is stuck", r.Name)
}

// alone tells whether the keeper has no process of the run any more.
func (r run) alone() bool {
	return len(host.Signal("/proc", func(pid int) bool { return host.Below(pid, r.Keeper.PID) }, 0)) == 0
}

// tellKeeper sends the keeper a signal, and no other process that has its number by now.
func (r run) tellKeeper(s syscall.Signal) {
	host.Signal("/proc", func(pid int) bool { return pid == r.Keeper.PID && r.Keeper.Lives() }, s)
}

// signal sends a signal to the processes that bear the run's mark and are not its keeper's to end, and gives their numbers.
func (r run) signal(s syscall.Signal) []int {
	if r.Keeper.PID == 0 || r.Keeper.Lives() || r.Boot != host.BootID() {
		return nil
	}
	return marked(r.Task, s)
}

// marked sends a signal to the processes that bear the mark of a task, and gives their numbers.
func marked(task string, s syscall.Signal) []int {
	return host.Signal("/proc", func(pid int) bool {
		environ, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		return slices.Contains(strings.Split(string(environ), "\x00"), mark(task))
	}, s)
}

// mark is what the environment of all programs of a run has, unless they drop it.
func mark(task string) string { return wire.EnvRun + "=" + task }

// Left names each program that runs, and says how a person ends it when no agent is left.
func (h Host) Left() (texts []string) {
	for _, r := range h.all() {
		text := fmt.Sprintf("the program %s of the run %s, which a task has started as %s, and which goes on", r.Program, r.Name, r.User)
		rest := r.survivors()
		switch {
		case r.State == wire.RunRunning && r.Keeper.PID > 1:
			texts = append(texts, fmt.Sprintf("%s (kill %d ends it)", text, r.Keeper.PID))
		case r.State == wire.RunRunning: // it is just beginning
			texts = append(texts, text)
		case len(rest) > 0:
			texts = append(texts, fmt.Sprintf("%s (kill %s ends it)", text, strings.Trim(fmt.Sprint(rest), "[]")))
		}
	}
	return texts
}
