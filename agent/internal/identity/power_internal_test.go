package identity

import (
	"path/filepath"
	"testing"

	"muster/agent/disk/disktest"
)

// TestPowerCuts: a key that was saved is there after a loss of power, at whatever step that comes, also in a folder that was made for it.
// So a credential that was used with a key always finds that key again. An identity that was kept stays, too.
func TestPowerCuts(t *testing.T) {
	_, first, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	var saved, kept string
	disktest.CutEverywhere(t, func(*disktest.Machine) { saved, kept = "", "" }, func(m *disktest.Machine) {
		d, err := open(filepath.Join(m.Dir, "deep", "state"), m.Steps)
		if err != nil {
			return
		}
		defer d.Close()
		if d.Save(State{Pending: first}) != nil {
			return
		}
		saved = first
		if to, err := d.Keep("n1"); err == nil {
			kept = filepath.Base(to)
		}
		if d.Save(State{Pending: second}) == nil {
			saved = second
		}
	}, func(dir, happened string) {
		path := filepath.Join(dir, "deep", "state")
		found, err := Read(path)
		if err != nil || saved != "" && found.Pending != saved && found.Pending != second {
			t.Errorf("%s: found %.20q, %v", happened, found.Pending, err)
		}
		if all, _ := filepath.Glob(filepath.Join(path, Files)); kept != "" && len(all) != 2 {
			t.Errorf("%s: the identity that was kept is not in %v", happened, all)
		}
	})
}
