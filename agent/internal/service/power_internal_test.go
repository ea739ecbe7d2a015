package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"muster/agent/disk/disktest"
)

// TestUnitPowerCuts: a unit that was installed is there whole after a loss of power, and so is what systemd starts it by at boot. One that
// was removed stays away.
func TestUnitPowerCuts(t *testing.T) {
	const enabled = "/etc/systemd/system/multi-user.target.wants/" + unitName
	var installed, removed bool
	want := ""
	manager := func(dir string) Manager {
		return Manager{System: System{Root: dir}, Base: filepath.Join(dir, "state"), Settings: "/etc/muster/agent.env"}
	}
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		err := errors.Join(os.Mkdir(filepath.Join(m.Dir, "state"), 0o700), os.MkdirAll(filepath.Join(m.Dir, filepath.Dir(enabled)), 0o755))
		if err != nil {
			t.Fatal(err)
		}
	}, func(d *disktest.Machine) {
		m := manager(d.Dir)
		m.Disk = d.Steps
		want = unitText(m.Base, m.Settings, false)
		m.Command = func(_ context.Context, _ string, args ...string) ([]byte, error) {
			if slices.Contains(args, "enable") {
				return nil, os.Symlink("../"+unitName, m.path(enabled))
			}
			return nil, nil
		}
		_, err := m.unit(Systemd).install(t.Context(), false)
		installed, removed = err == nil && d.Steps.At("a person is told") == nil, false
		if installed {
			removed = m.remove(m.unit(Systemd).path) == nil
		}
	}, func(dir, happened string) {
		m := manager(dir)
		text, err := os.ReadFile(m.unit(Systemd).path)
		if err == nil && string(text) != want {
			t.Errorf("%s: the unit is %q", happened, text)
		}
		if removed && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the unit is there again: %v", happened, err)
		}
		if _, err := os.Lstat(m.path(enabled)); installed && err != nil {
			t.Errorf("%s: the unit is not started at boot: %v", happened, err)
		}
	})
	if !removed {
		t.Error("the unit was not installed and removed")
	}
}
