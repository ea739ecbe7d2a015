package service

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"muster/agent/internal/identity"
)

// recordFile is a file in the state directory.
const recordFile = "service.json"

// record is what join has changed on the machine besides its own files, so that leave can undo it.
type record struct {
	Made   []string `json:"made,omitempty"`   // folders that join made, the outermost first
	Found  *found   `json:"found,omitempty"`  // the state directory as it was, where it was there before
	Linger bool     `json:"linger,omitempty"` // join has turned lingering on
	Kind   Kind     `json:"kind,omitempty"`   // of the last installation
	Open   bool     `json:"open,omitempty"`   // something was changed, and the agent has not been online with it yet
}

// record reads the record. One that cannot be read counts as empty: then leave removes less, and never too much.
func (m Manager) record() (r record) {
	raw, err := os.ReadFile(filepath.Join(m.Base, recordFile))
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return record{}
	}
	return r
}

// note changes the record. The change is on the disk when note returns.
func (m Manager) note(change func(*record)) error {
	r := m.record()
	change(&r)
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return m.replace(filepath.Join(m.Base, recordFile), append(raw, '\n'), 0o600)
}

// makeFolder makes a folder outside of the state directory, and notes which folders it had to make.
func (m Manager) makeFolder(path string, mode os.FileMode) error {
	made := missing(path)
	if err := m.Disk.MakeFolders(path, mode); err != nil || len(made) == 0 {
		return explain(path, err)
	}
	return m.note(func(r *record) { r.Made = append(r.Made, made...) })
}

// found is the mode and owner of a directory that was there before, such as a mounted volume.
type found struct {
	Mode os.FileMode `json:"mode"`
	UID  int         `json:"uid"`
	GID  int         `json:"gid"`
}

// MakeBase makes the state directory, closed to others, and notes the folders above it that it had to make. It takes over an empty
// directory that is there. Call it first.
func (m Manager) MakeBase() error {
	if info, err := os.Stat(m.Base); err == nil && identity.Empty(m.Base) {
		return m.takeBase(info)
	}
	made := missing(m.Base)
	if err := m.Disk.MakeFolders(m.Base, 0o700); err != nil || len(made) == 0 {
		return explain(m.Base, err)
	}
	return m.note(func(r *record) { r.Made = append(r.Made, made[:len(made)-1]...) })
}

// takeBase takes over an empty directory, and notes its mode and owner for removeBase.
func (m Manager) takeBase(info os.FileInfo) error {
	was := &found{Mode: info.Mode().Perm()}
	if status, ok := info.Sys().(*syscall.Stat_t); ok {
		was.UID = int(status.Uid)
		was.GID = int(status.Gid)
	}
	if err := identity.MakePrivate(m.Base); err != nil {
		return err
	}
	return m.note(func(r *record) { r.Found = was })
}

// give gives a directory its former mode and owner back.
func (f found) give(path string) error {
	return errors.Join(os.Chmod(path, f.Mode), os.Chown(path, f.UID, f.GID))
}

// Undo removes what MakeBase and an installation have put into the state directory, if no identity is in it yet.
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
		os.Remove(made[i]) // a folder that is not empty stays
	}
}

// Open notes that a change begins. If this process ends before Finish, the next join makes the change whole.
func (m Manager) Open() error { return m.note(func(r *record) { r.Open = true }) }

// Finish notes that the agent is online with the change.
func (m Manager) Finish() error { return m.note(func(r *record) { r.Open = false }) }

// Unfinished reports whether a change was begun and not finished.
func (m Manager) Unfinished() bool { return m.record().Open }

// Installed returns the kind of the last installation, empty if there was none.
func (m Manager) Installed() Kind { return m.record().Kind }
