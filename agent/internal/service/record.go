package service

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"muster/agent/internal/identity"
)

// recordFile is in the state directory.
const recordFile = "service.json"

// record is what joining changed on the machine beyond its own files, so that leaving can undo it.
type record struct {
	Made   []string `json:"made,omitempty"`   // folders that were not there, outermost first
	Found  *found   `json:"found,omitempty"`  // how the state directory was, where it was there
	Linger bool     `json:"linger,omitempty"` // the user's services were made to outlive the user's sessions
	Kind   Kind     `json:"kind,omitempty"`   // of the last installation
	Open   bool     `json:"open,omitempty"`   // something was changed, and the agent was not seen online with it yet
}

func (m Manager) record() (r record) {
	raw, err := os.ReadFile(filepath.Join(m.Base, recordFile))
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return record{}
	}
	return r
}

func (m Manager) note(change func(*record)) error {
	r := m.record()
	change(&r)
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return replace(filepath.Join(m.Base, recordFile), append(raw, '\n'), 0o600)
}

// makeFolder makes a folder of the system's or the user's and notes which were not there.
func (m Manager) makeFolder(path string, mode os.FileMode) error {
	made, err := makeDirectories(path, mode)
	if len(made) == 0 || err != nil {
		return err
	}
	return m.note(func(r *record) { r.Made = append(r.Made, made...) })
}

// found is a directory of somebody's own, such as a mounted volume, as it was.
type found struct {
	Mode os.FileMode `json:"mode"`
	UID  int         `json:"uid"`
	GID  int         `json:"gid"`
}

// MakeBase makes the state directory, private, and notes what was not there above it. One that is there and empty is taken
// over. It is the first thing to call.
func (m Manager) MakeBase() error {
	if info, err := os.Stat(m.Base); err == nil && identity.Empty(m.Base) {
		return m.takeBase(info)
	}
	made, err := makeDirectories(m.Base, 0o700)
	if len(made) == 0 || err != nil {
		return err
	}
	return m.note(func(r *record) { r.Made = append(r.Made, made[:len(made)-1]...) })
}

func (m Manager) takeBase(info os.FileInfo) error {
	was := &found{Mode: info.Mode().Perm()}
	if status, ok := info.Sys().(*syscall.Stat_t); ok {
		was.UID, was.GID = int(status.Uid), int(status.Gid)
	}
	if err := identity.MakePrivate(m.Base); err != nil {
		return err
	}
	return m.note(func(r *record) { r.Found = was })
}

// give leaves a directory that was there before as it was. One that cannot be given back stays closed.
func (f found) give(path string) error {
	return errors.Join(os.Chmod(path, f.Mode), os.Chown(path, f.UID, f.GID))
}

// Undo takes away what MakeBase and an installation have put into the state directory before there was an identity.
func (m Manager) Undo() error {
	r := m.record()
	err := m.removeBase()
	if err == nil {
		removeFolders(r.Made)
	}
	return err
}

func removeFolders(made []string) {
	for i := len(made) - 1; i >= 0; i-- {
		os.Remove(made[i]) // stays where it holds something else now
	}
}

// Open notes that something is about to be changed, so that what follows is done even if this process ends now.
func (m Manager) Open() error { return m.note(func(r *record) { r.Open = true }) }

// Finish notes that the agent is online with all that was changed.
func (m Manager) Finish() error { return m.note(func(r *record) { r.Open = false }) }

// Unfinished reports whether there was an Open without a Finish.
func (m Manager) Unfinished() bool { return m.record().Open }

// Installed is the kind that the last installation was of, empty where there was none.
func (m Manager) Installed() Kind { return m.record().Kind }
