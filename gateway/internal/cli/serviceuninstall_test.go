package cli_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"muster/gateway/internal/kit"
)

func TestServiceUninstall(t *testing.T) {
	c := newComputer(t)
	if out := c.done("uninstall"); !strings.Contains(out, "nothing to do") {
		t.Errorf("before: %s", out)
	}
	before := c.tree()
	c.done("install", "--data", "/srv/muster", "--listen", "[::1]:7443")
	if !slices.Contains(c.calls, "GET https://[::1]:7443/readyz") ||
		!strings.Contains(c.file("/etc/systemd/system/muster.service", 0o644), "\nReadWritePaths=/srv/muster\n") {
		t.Errorf("elsewhere: %v", c.calls)
	}
	c.write("/srv/muster/muster.db", "data", 0o600)
	out := c.done("uninstall")
	kit.Golden(t, "service-uninstall.golden", out)
	want := []string{"systemctl stop muster.service", "systemctl disable --no-reload muster.service",
		"systemctl reset-failed muster.service"}
	if !slices.Equal(c.calls, want) {
		t.Errorf("calls: %v", c.calls)
	}
	os.RemoveAll(c.path("/proc"))
	var kept []string
	for path := range maps.Keys(c.tree()) {
		if !before[path] {
			kept = append(kept, path)
		}
	}
	if slices.Sort(kept); fmt.Sprint(kept) != "[/etc/muster/master.key /srv/muster/muster.db]" {
		t.Errorf("kept: %v", kept)
	}
	if out := c.done("install", "--data", "/srv/muster"); !strings.Contains(out, "master key: /etc/muster/master.key is there") {
		t.Errorf("installed again: %s", out)
	}
	c.refuse = "systemctl stop"
	if code, _, errs := c.muster("uninstall"); code != 1 || !strings.Contains(errs, "nothing was removed") {
		t.Errorf("stop fails: %d %s", code, errs)
	}
	c.file("/usr/local/bin/muster", 0o755)
	c.uid = 1000
	if code, _, errs := c.muster("uninstall"); code != 1 || !strings.Contains(errs, "sudo muster service uninstall") {
		t.Errorf("no root: %d %s", code, errs)
	}
}
