package session

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"muster/agent/disk"
	"muster/agent/internal/host"
	"muster/agent/wire"
)

// ProgramsFolder has, in the state directory, a record for each program that runs in a session, under the session's id.
const ProgramsFolder = "programs"

// record is a program of a session, as the agent after this one finds it. An agent that is killed cannot end what the program has started,
// and the next agent does. It must not take a stranger with the same number for it. So the program must have the same start in the same
// boot, or another process of its session must bear the mark of the session: while one of them lives, their number is given to nobody.
type record struct {
	PID   int    `json:"pid"`         // it leads a session of processes
	Ticks string `json:"start_ticks"` // /proc/PID/stat, field 22
	Boot  string `json:"boot_id"`
}

// mark is what the environment of all programs of a session has, unless they drop it.
func mark(id string) string { return wire.EnvSession + "=" + id }

// note writes down a program that has just begun. What it gives takes that back. A failure is ignored: the record is needed only where this
// agent is killed.
func (h *Host) note(id string, pid int) (forget func()) {
	path := filepath.Join(h.State, ProgramsFolder, id)
	raw, err := json.Marshal(record{pid, startTicks(pid), host.BootID()})
	if h.State == "" || err != nil || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return func() {}
	}
	_ = disk.ReplaceSoon(path, raw, 0o600)
	return func() { _ = os.Remove(path) }
}

// recorded are the sessions that have a record.
func (h *Host) recorded() (ids []string) {
	if h.State == "" {
		return nil
	}
	names, _ := os.ReadDir(filepath.Join(h.State, ProgramsFolder))
	for _, name := range names {
		ids = append(ids, name.Name())
	}
	return ids
}

// endLeft ends what is left of the programs of a session, and forgets them.
func (h *Host) endLeft(id string) {
	path := filepath.Join(h.State, ProgramsFolder, id)
	defer os.Remove(path)
	var r record
	raw, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(raw, &r) != nil || wire.CheckSessionID(id) != nil || !r.lives(id) {
		return
	}
	h.Logger.Info("programs of a session have outlived an agent that was killed: they are ended", "session", id, "leader", r.PID)
	hangUp(func(s syscall.Signal) int { return signalSession(r.PID, s) }, h.life.Done())
}

// lives tells whether a process of the session runs. This agent itself may have been started in it, by hand.
func (r record) lives(id string) bool {
	if r.PID <= 1 || r.Boot != host.BootID() || inSession(os.Getpid(), r.PID) {
		return false
	}
	for pid := range members(r.PID) {
		environ, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		marked := slices.Contains(strings.Split(string(environ), "\x00"), mark(id))
		if marked || pid == r.PID && r.Ticks != "" && startTicks(pid) == r.Ticks {
			return true
		}
	}
	return false
}

// startTicks is when a process started, in clock ticks since the boot; empty: it has ended.
func startTicks(pid int) string {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	ticks, _ := host.StartTicks(string(stat))
	return ticks
}
