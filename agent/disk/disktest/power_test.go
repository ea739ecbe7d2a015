package disktest_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/agent/disk"
	"muster/agent/disk/disktest"
)

// state is what a folder holds: names with their content.
func state(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		text := "/"
		if entry.Type().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = "=" + string(content)
		}
		all = append(all, strings.TrimPrefix(path, dir+"/")+text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestCutEverywhere: what is lost is exactly what was not synced, whichever of the two syncs is missing.
func TestCutEverywhere(t *testing.T) {
	for name, c := range map[string]struct {
		work  func(m *disktest.Machine)
		after []string // the states that may be found after the work, in the order of their losses
	}{
		"nothing synced": {func(m *disktest.Machine) { os.WriteFile(m.Dir+"/new", []byte("1234"), 0o600) },
			[]string{"new=1234 old=1", "old=1", "new= old=1", "new=12 old=1", "new=1234 old=1"}},
		"the folder alone": {func(m *disktest.Machine) {
			os.WriteFile(m.Dir+"/new", []byte("1234"), 0o600)
			m.Steps.SyncFolder("it", m.Dir)
		}, []string{"new=1234 old=1", "new= old=1", "new= old=1", "new=12 old=1", "new=1234 old=1"}},
		"the file alone": {func(m *disktest.Machine) {
			file, _ := os.Create(m.Dir + "/new")
			file.WriteString("1234")
			m.Steps.Sync("it", file)
			file.Close()
		}, []string{"new=1234 old=1", "old=1", "new=1234 old=1", "new=1234 old=1", "new=1234 old=1"}},
		"appended": {func(m *disktest.Machine) {
			file, _ := os.OpenFile(m.Dir+"/old", os.O_WRONLY|os.O_APPEND, 0)
			file.WriteString("23")
			m.Steps.Sync("it", file)
			file.WriteString("4567")
			file.Close()
		}, []string{"old=1234567", "old=123", "old=123", "old=12345", "old=1234567"}},
		"removed":            {func(m *disktest.Machine) { os.Remove(m.Dir + "/old") }, []string{"", "old=1", "", "", "old=1"}},
		"removed and synced": {func(m *disktest.Machine) { os.Remove(m.Dir + "/old"); m.Steps.SyncFolder("it", m.Dir) }, []string{"", "", "", "", ""}},
		"renamed over": {func(m *disktest.Machine) {
			os.WriteFile(m.Dir+"/new", []byte("2"), 0o600)
			os.Rename(m.Dir+"/new", m.Dir+"/old")
		}, []string{"old=2", "old=1", "old=", "old=", "old=2"}},
		"removed, and another made": {func(m *disktest.Machine) {
			os.Remove(m.Dir + "/old")
			os.WriteFile(m.Dir+"/new", []byte("1234"), 0o600)
		}, []string{"new=1234", "old=1", "new=", "new=12", "new=1234 old=1"}},
		"renamed": {func(m *disktest.Machine) { os.Rename(m.Dir+"/old", m.Dir+"/new") }, []string{"new=1", "old=1", "new=1", "new=1", "new=1"}},
		"a folder": {func(m *disktest.Machine) {
			m.Steps.MakeFolders(m.Dir+"/a/b", 0o700)
			m.Steps.Create(m.Dir+"/a/b/c", 0o600, []byte("x"))
		}, slices.Repeat([]string{"a/ a/b/ a/b/c=x old=1"}, 5)},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			disktest.CutEverywhere(t, func(m *disktest.Machine) {
				if err := os.WriteFile(m.Dir+"/old", []byte("1"), 0o600); err != nil {
					t.Fatal(err)
				}
			}, c.work, func(dir, happened string) {
				if strings.HasPrefix(happened, "at the end") {
					got = append(got, state(t, dir))
				}
			})
			if !slices.Equal(got, c.after) {
				t.Errorf("got %q, want %q", got, c.after)
			}
		})
	}
}

// TestPowerStaysOff: whoever goes on after the cut changes nothing of what is found.
func TestPowerStaysOff(t *testing.T) {
	rounds := 0
	disktest.CutEverywhere(t, func(*disktest.Machine) {}, func(m *disktest.Machine) {
		rounds++
		first := m.Steps.At("one")
		os.WriteFile(m.Dir+"/late", nil, 0o600)
		if second := m.Steps.At("two"); rounds == 1 && (!errors.Is(first, disktest.ErrPower) || !errors.Is(second, disktest.ErrPower)) {
			t.Errorf("%v, %v", first, second)
		}
	}, func(dir, happened string) {
		if got := state(t, dir); got != "" && rounds == 1 {
			t.Errorf("%s: %s", happened, got)
		}
	})
	if rounds != 3 {
		t.Errorf("%d rounds for two steps", rounds)
	}
}

// TestDisk: each way to write a file leaves the state before or the one after, and the one after once it has returned.
func TestDisk(t *testing.T) {
	for name, write := range map[string]func(s disk.Steps, path string) error{
		"replace": func(s disk.Steps, path string) error { return s.Replace(path+"/old", []byte("new"), 0o600) },
		"create":  func(s disk.Steps, path string) error { return s.Create(path+"/more", 0o600, []byte("new")) },
		"copy":    func(s disk.Steps, path string) error { return s.Copy(path+"/old", path+"/more") },
		"rename":  func(s disk.Steps, path string) error { return s.Rename(path+"/old", path+"/other") },
		"folders": func(s disk.Steps, path string) error { return s.MakeFolders(path+"/a/b", 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			after := map[string]string{"replace": "old=new", "create": "more=new old=one", "copy": "more=one old=one", "rename": "other=one",
				"folders": "a/ a/b/ old=one"}[name]
			var done bool
			disktest.CutEverywhere(t, func(m *disktest.Machine) {
				if err := os.WriteFile(m.Dir+"/old", []byte("one"), 0o600); err != nil {
					t.Fatal(err)
				}
			}, func(m *disktest.Machine) { done = write(m.Steps, m.Dir) == nil }, func(dir, happened string) {
				if got := state(t, dir); done && got != after || !strings.Contains(got, "one") && got != after {
					t.Errorf("%s, done %t: %s", happened, done, got)
				}
			})
		})
	}
}

// TestSyncs: the system is asked. It refuses to sync a pipe.
func TestSyncs(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	if err := disk.Steps(nil).Sync("a pipe", write); err == nil {
		t.Error("a pipe was synced: nobody asked the system")
	}
	if err := disk.Sync("/dev/null"); err == nil {
		t.Error("a device without a disk was synced: nobody asked the system")
	}
}
