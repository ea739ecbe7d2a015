// Package process starts programs on the node that run on without the agent, keeps what they write, and knows how they ended. Such a
// program with all that belongs to it is a run.
//
// Each run has a keeper: this very program, started anew as a process of its own. It holds the program's output, and it is the parent of
// all that the program leaves behind, so nothing of a run is lost or escapes when the agent ends, is replaced or is killed. What is known
// of a run lies in a folder of its own, so any later agent finds it again.
package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/account"
	"muster/agent/internal/host"
	"muster/agent/wire"
)

// Folder is a folder in the agent's state directory. It has a folder for each run, under its name.
const Folder = "runs"

// Files in the folder of a run.
const (
	recordFile = "run.json"    // a record, written by the agent
	keeperFile = "keeper.json" // a keeping, written by the keeper
	exitFile   = "exit.json"   // an ending, written by the keeper
	stopFile   = "stop"        // it is there once somebody wants the run to end
	outputFile = "output.log"
)

// maxFile bounds each of them but the output, in bytes.
const maxFile = 128 << 10

// Host is the machine that the programs run on.
type Host struct {
	State    string // the agent's state directory
	Accounts *account.Accounts
	Keeper   []string // the program that becomes a keeper, with its arguments: the folder comes behind them
	// GPUs looks at the GPUs now, and returns the newest reading; nil: there is none.
	GPUs   func(context.Context) (wire.Probe, []wire.GPU)
	Settle time.Duration    // how long a new program is watched; 0: 3 s
	Now    func() time.Time // nil: time.Now
	Boot   func() string    // nil: host.BootID
	News   chan<- struct{}  // gets an entry if a run begins or ends; nil: nobody is told
}

// record is what the agent knows of a run before it begins.
type record struct {
	wire.Run          // State and what follows from it are left out
	Spec     string   `json:"spec"`    // tells whether another task wants the same
	Secrets  []string `json:"secrets"` // the names of the variables that hold some
	Boot     string   `json:"boot_id"`
}

// keeping names the processes of a run.
type keeping struct {
	Keeper host.Process `json:"keeper"`
	Main   host.Process `json:"main"`
}

// ending is how a run ended.
type ending struct {
	Code    int       `json:"code"`             // of the program; 128 and the signal
	Signal  string    `json:"signal,omitempty"` // that ended it
	At      time.Time `json:"at"`
	Stopped bool      `json:"stopped"` // somebody had asked for it
	Asked   bool      `json:"asked"`   // the keeper was asked to end it
	Left    int       `json:"left"`    // processes that the program had left behind
	Held    int       `json:"held"`    // those of them that are still there, although they were killed
}

// run is one run as it is now.
type run struct {
	record
	folder string
	keeping
	left int // processes that do not end, although the program has
}

func (h Host) now() time.Time {
	if h.Now != nil {
		return h.Now()
	}
	return time.Now()
}

func (h Host) boot() string {
	if h.Boot != nil {
		return h.Boot()
	}
	return host.BootID()
}

func (h Host) folder(name string) string { return filepath.Join(h.State, Folder, name) }

// Runs returns all runs, the oldest first.
func (h Host) Runs() []wire.Run {
	all := []wire.Run{}
	for _, r := range h.all() {
		all = append(all, r.Run)
	}
	return all[max(len(all)-wire.MaxRuns, 0):]
}

func (h Host) all() (all []run) {
	names, _ := os.ReadDir(filepath.Join(h.State, Folder))
	for _, name := range names {
		if r, err := h.read(name.Name()); err == nil {
			all = append(all, r)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].StartedAt.Before(*all[j].StartedAt) })
	return all
}

// Find finds a run by its name.
func (h Host) Find(name string) (wire.Run, bool) {
	r, err := h.read(name)
	return r.Run, err == nil
}

// Allocation returns the allocation of the run that a process belongs to; empty: it belongs to no run, or the run has no allocation.
func (h Host) Allocation(pid int) string {
	for _, r := range h.all() {
		if r.Allocation != "" && r.Keeper.Lives() && host.Below(pid, r.Keeper.PID) {
			return r.Allocation
		}
	}
	return ""
}

// beginning is the time in which a new run may have no keeper yet.
const beginning = 30 * time.Second

// read reads what is known of a run. A folder without a readable record is none.
func (h Host) read(name string) (run, error) {
	r := run{folder: h.folder(name)}
	if h.State == "" || strings.ContainsRune(name, '/') || name == "" || strings.HasPrefix(name, ".") {
		return r, fs.ErrNotExist
	}
	if err := readJSON(filepath.Join(r.folder, recordFile), &r.record); err != nil {
		return r, err
	}
	if r.Name != name || r.StartedAt == nil {
		return r, errors.New("it is the record of another run")
	}
	kept := readJSON(filepath.Join(r.folder, keeperFile), &r.keeping)
	alive := kept == nil && r.Keeper.Lives() // before the ending is looked for: the keeper writes that and then ends
	var end ending
	switch err := readJSON(filepath.Join(r.folder, exitFile), &end); {
	case err == nil:
		r.ended(end)
	case alive, kept != nil && r.Boot == h.boot() && h.now().Sub(*r.StartedAt) < beginning:
		r.State = wire.RunRunning
	default:
		r.State = wire.RunInterrupted
		r.Why = h.interrupted(r, kept)
	}
	return r, nil
}

// ended puts an ending into the run.
func (r *run) ended(end ending) {
	r.State = wire.RunExited
	r.ExitCode = &end.Code
	at := end.At.UTC().Truncate(time.Second)
	r.FinishedAt = &at
	var said []string
	switch {
	case end.Stopped:
		r.State = wire.RunStopped
	case end.Asked:
		r.State = wire.RunInterrupted
		said = append(said, "its keeper was asked to end by a signal, as when the machine goes down")
	case end.Signal != "":
		said = append(said, "a signal ended it: "+end.Signal)
	}
	switch ended := end.Left - end.Held; {
	case ended == 1:
		said = append(said, "a process that it had left behind was ended")
	case ended > 1:
		said = append(said, fmt.Sprintf("%d processes that it had left behind were ended", ended))
	}
	if r.left = end.Held; r.left > 0 {
		said = append(said, r.heldText())
	}
	r.Why = strings.Join(said, "; ")
}

func (r *run) heldText() string {
	return fmt.Sprintf("what it had left behind could not be ended (processes: %d): the kernel holds it, or its user is one that the agent "+
		"may not signal", r.left)
}

// held tells whether the keeper still waits for processes that do not end.
func (r *run) held() bool { return r.left > 0 && r.Keeper.Lives() }

func (h Host) interrupted(r run, kept error) string {
	switch {
	case r.Boot != h.boot():
		return "the machine was started anew while it ran"
	case kept != nil:
		return "the agent was ended while it began"
	case len(r.survivors()) > 0:
		return "its keeper was killed, so its output is not kept any more; its processes go on: muster run stop " + r.Name + " ends them"
	}
	return "its keeper was killed and nothing of it runs any more, as when its container is started anew or memory runs out"
}

// survivors are processes of a run whose keeper is gone, as far as they still have its mark.
func (r run) survivors() []int { return r.signal(0) }

func readJSON(path string, into any) error {
	raw, err := disk.ReadFile(path, maxFile)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// watchPace is between two looks whether a run has ended.
const watchPace = time.Second

// Watch calls News for each run that begins or ends, until ctx is done. It does not read a run again that has ended and whose folder has
// not changed.
func (h Host) Watch(ctx context.Context) error {
	known := map[string]string{}
	tick := time.NewTicker(watchPace)
	defer tick.Stop()
	for {
		now := map[string]string{}
		names, _ := os.ReadDir(filepath.Join(h.State, Folder))
		for _, name := range names {
			info, err := name.Info()
			if err != nil {
				continue
			}
			key := name.Name() + " " + info.ModTime().String()
			if now[key] = known[key]; now[key] == "" || now[key] == wire.RunRunning {
				r, _ := h.read(name.Name())
				now[key] = r.State
			}
		}
		if !maps.Equal(now, known) {
			known = now
			h.tell()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (h Host) tell() {
	select {
	case h.News <- struct{}{}:
	default: // nobody is told, or what there is to tell was not fetched yet
	}
}

// makeRoom removes the oldest runs that have ended until one more has room.
func (h Host) makeRoom() error {
	all := h.all()
	for _, r := range all {
		if len(all) < wire.MaxRuns {
			return nil
		}
		if r.State != wire.RunRunning && !r.held() && len(r.survivors()) == 0 {
			if err := h.remove(r.folder); err != nil {
				return err
			}
			all = all[1:]
		}
	}
	if len(all) < wire.MaxRuns {
		return nil
	}
	return wire.Refuse(wire.CodeTaskForbidden, fmt.Sprintf("%d programs run on this node already", len(all)), "muster run stop ends one")
}

func (h Host) settle() time.Duration { return cmp.Or(h.Settle, 3*time.Second) }
