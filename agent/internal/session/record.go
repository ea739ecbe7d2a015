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

// mark is what the environment of all programs of a session has, unless they drop it.
func mark(id string) string { return wire.EnvSession + "=" + id }

// note writes down a program that has just begun, and leads a session of processes: an agent that is killed cannot end what the program
// has started, and the next agent does. What it gives takes that back. A failure is ignored: the record is needed only if this
// agent is killed.
func (h *Host) note(id string, pid int) (forget func()) {
	path := filepath.Join(h.State, ProgramsFolder, id)
	raw, err := json.Marshal(host.ProcessOf(pid))
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
	var leader host.Process
	raw, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(raw, &leader) != nil || wire.CheckSessionID(id) != nil || !lives(leader, id) {
		return
	}
	h.Logger.Info("programs of a session have outlived an agent that was killed: they are ended", "session", id, "leader", leader.PID)
	hangUp(func(s syscall.Signal) int { return len(signalSession(leader.PID, s)) }, h.life.Done())
}

// lives tells whether a process of the session runs. A stranger with the same number must not be taken for one. So the leader must be the
// same, or another process of the session must bear its mark: while one of them lives, their number is given to nobody. This agent itself
// may have been started in the session, by hand.
func lives(leader host.Process, id string) bool {
	if leader.PID <= 1 || leader.Boot != host.BootID() || host.InSession(os.Getpid(), leader.PID) {
		return false
	}
	for _, pid := range signalSession(leader.PID, 0) {
		environ, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		marked := slices.Contains(strings.Split(string(environ), "\x00"), mark(id))
		if marked || pid == leader.PID && leader.Lives() {
			return true
		}
	}
	return false
}
