package disktest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"muster/agent/disk"
)

// ErrPower is the error of each step after the power is gone.
var ErrPower = errors.New("the power is gone")

// ProcessAlone ends the words for a machine that kept its power.
const ProcessAlone = "the process alone ended"

// losses are what a machine may find on its disk when it has power again. A file system keeps what was synced, and of the rest what it
// likes: the order of the writes counts for nothing.
var losses = []loss{
	{ProcessAlone, true, 1, false},
	{"what was not synced is gone", false, 0, false},
	{"bytes that were not synced are gone, names are there", true, 0, false},
	{"half of the bytes that were not synced are there", true, 0.5, false},
	{"names that were not synced are there, and removed ones too", true, 1, true},
}

type loss struct {
	name    string
	names   bool    // names that were not synced are kept
	bytes   float64 // the part of the bytes behind the synced ones that is kept
	removed bool    // names whose removal was not synced are there again
}

// Machine is a machine with a folder on its disk.
type Machine struct {
	Dir   string
	Steps disk.Steps // for whoever works in Dir

	t      *testing.T
	folder string // of Dir, and of what the power leaves
	steps  int
	cut    int // the power goes before this step
	left   []string
	files  map[uint64]*file
	names  map[uint64]map[string]uint64 // of folders, as they are on the disk
}

// file is one that lay in the folder once. It is held open, so that its number in the file system stays its own.
type file struct {
	*os.File
	mode   fs.FileMode
	link   string
	synced []byte
}

// CutEverywhere has a work done again and again. In each round the power goes before another step of it, and in the last one after its end.
// check is called for everything that the disk may then hold. The work gets ErrPower from that step, and from all steps after it.
//
// prepare makes what is on the disk before; all of that is synced. It and work must do the same in each round. check is told what
// happened in the words of a test's error.
func CutEverywhere(t *testing.T, prepare, work func(*Machine), check func(dir, happened string)) {
	t.Helper()
	folder := Folder(t)
	for cut := 0; ; cut++ {
		m := &Machine{
			t: t, folder: filepath.Join(folder, fmt.Sprint(cut)), cut: cut, files: map[uint64]*file{}, names: map[uint64]map[string]uint64{},
		}
		m.Dir = filepath.Join(m.folder, "disk")
		m.must(os.MkdirAll(m.Dir, 0o700))
		prepare(m)
		m.syncAll(m.Dir)
		m.Steps = m.step
		work(m)
		at := fmt.Sprintf("at step %d", cut)
		ended := m.left == nil
		if ended {
			at = "at the end"
			m.powerOff()
		}
		for i, dir := range m.left {
			check(dir, at+": "+losses[i].name)
		}
		for _, f := range m.files {
			f.Close()
		}
		m.must(os.RemoveAll(m.folder))
		if ended || t.Failed() {
			return
		}
	}
}

func (m *Machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *Machine) step(step disk.Step) error {
	if m.left != nil {
		return fmt.Errorf("%s: %w", step.Name, ErrPower)
	}
	m.look(m.Dir)
	if m.steps == m.cut {
		m.powerOff()
		return fmt.Errorf("%s: %w", step.Name, ErrPower)
	}
	m.steps++
	if step.Synced == "" {
		return nil
	}
	info, err := os.Stat(step.Synced)
	if err != nil {
		return err
	}
	if info.IsDir() {
		m.names[number(info)] = m.list(step.Synced)
	} else if f := m.files[number(info)]; f != nil {
		f.synced = m.read(f)
	}
	return nil
}

// look opens the files that are new.
func (m *Machine) look(dir string) {
	entries, err := os.ReadDir(dir)
	m.must(err)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		info, err := os.Lstat(path)
		m.must(err)
		if info.IsDir() {
			m.look(path)
		}
		if m.files[number(info)] != nil {
			m.files[number(info)].mode = info.Mode()
			continue
		}
		f := &file{mode: info.Mode()}
		if f.mode.Type() == fs.ModeSymlink {
			f.link, err = os.Readlink(path)
			m.must(err)
		}
		const path0 = 0x200000 // O_PATH of open(2), which package syscall lacks: a link can be held, too
		f.File, err = os.OpenFile(path, path0|syscall.O_NOFOLLOW, 0)
		m.must(err)
		m.files[number(info)] = f
	}
}

func (m *Machine) list(dir string) map[string]uint64 {
	entries, err := os.ReadDir(dir)
	m.must(err)
	all := map[string]uint64{}
	for _, entry := range entries {
		info, err := os.Lstat(filepath.Join(dir, entry.Name()))
		m.must(err)
		all[entry.Name()] = number(info)
	}
	return all
}

func (m *Machine) read(f *file) []byte {
	content, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	m.must(err)
	return content
}

// syncAll takes all that is there for synced.
func (m *Machine) syncAll(dir string) {
	m.look(m.Dir)
	for n, f := range m.files {
		if f.mode.IsRegular() {
			m.files[n].synced = m.read(f)
		}
	}
	m.must(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		info, err := os.Stat(path)
		m.names[number(info)] = m.list(path)
		return err
	}))
}

// powerOff makes a folder for everything that the disk may hold now.
func (m *Machine) powerOff() {
	m.look(m.Dir)
	root, err := os.Stat(m.Dir)
	m.must(err)
	for i, l := range losses {
		dir := filepath.Join(m.folder, fmt.Sprint(i), "disk")
		m.must(os.MkdirAll(dir, 0o700))
		m.keep(l, number(root), m.Dir, dir)
		m.left = append(m.left, dir)
	}
}

// keep makes what a loss leaves of a folder. now is where the folder is; empty: it is gone, and a name on the disk still leads to it.
func (m *Machine) keep(l loss, folder uint64, now, to string) {
	names := m.names[folder]
	if l.names && now != "" {
		names = m.list(now)
	}
	if l.removed && names != nil {
		names = again(names, m.names[folder])
	}
	for name, n := range names {
		f := m.files[n]
		path := filepath.Join(to, name)
		switch {
		case f.mode.IsDir():
			m.must(os.Mkdir(path, f.mode.Perm()))
			m.keep(l, n, m.sameFolder(n, now, name), path)
		case f.link != "":
			m.must(os.Symlink(f.link, path))
		case f.mode.IsRegular():
			m.must(os.WriteFile(path, f.after(m, l), 0o600))
			m.must(os.Chmod(path, f.mode.Perm()))
		}
	}
}

// again gives names with those that were synced and removed since. What was renamed in the folder has one name.
func again(now, synced map[string]uint64) map[string]uint64 {
	all := maps.Clone(now)
	for name, n := range synced {
		_, there := now[name]
		if !there && !slices.Contains(slices.Collect(maps.Values(now)), n) {
			all[name] = n
		}
	}
	return all
}

// sameFolder is where a folder is now, if it still has its name.
func (m *Machine) sameFolder(n uint64, parent, name string) string {
	if parent == "" {
		return ""
	}
	path := filepath.Join(parent, name)
	if info, err := os.Lstat(path); err != nil || number(info) != n {
		return ""
	}
	return path
}

// after is what a loss leaves of a file.
func (f *file) after(m *Machine, l loss) []byte {
	now := m.read(f)
	if l.bytes == 1 {
		return now
	}
	if !bytes.HasPrefix(now, f.synced) {
		return f.synced
	}
	return now[:len(f.synced)+int(float64(len(now)-len(f.synced))*l.bytes)]
}

func number(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }
