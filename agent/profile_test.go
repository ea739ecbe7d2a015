package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProfile: a machine is noted for one profile, as often as cloud-init says so, and for no other one after that.
func TestProfile(t *testing.T) {
	t.Parallel()
	const slice, metal = "gpuaas-profile-slice-vm", "gpuaas-profile-baremetal"
	b := newBox(t)
	mark := filepath.Join(b.root, "etc/muster/profile")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"show"}, 0, "none"},
		{[]string{"apply", slice, "--dry-run"}, 0, "would note " + slice},
		{[]string{"show"}, 0, "none"},
		{[]string{"apply", slice}, 0, "noted " + slice},
		{[]string{"apply", slice}, 0, "nothing was changed"},
		{[]string{"--dry-run", "apply", slice}, 0, "nothing was changed"},
		{[]string{"apply", metal}, 1, "was set up for " + slice},
		{[]string{"apply", metal, "--dry-run"}, 1, "install its system anew"},
		{[]string{"show"}, 0, slice},
	} {
		code, out, errs := b.call(append([]string{"profile"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%q: exit %d, want %d with %q: %s%s", c.args, code, c.code, c.says, out, errs)
		}
	}
	if raw, err := os.ReadFile(mark); err != nil || string(raw) != slice+"\n" {
		t.Errorf("%q, %v", raw, err)
	}
	if err := os.WriteFile(mark, []byte("two words"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"profile", "show"}, {"profile", "apply", slice}} {
		if code, out, errs := b.call(args...); code != 1 || !strings.Contains(errs, "names no profile") || out != "" {
			t.Errorf("%q: exit %d, %s%s", args, code, out, errs)
		}
	}
}

// TestProfileNotWritten: what cannot be noted is an error.
func TestProfileNotWritten(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.mkdir("etc")
	if err := os.WriteFile(filepath.Join(b.root, "etc/muster"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := b.call("profile", "apply", "container"); code != 1 || out != "" || errs == "" {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	b = newBox(t)
	b.mkdir("etc")
	if err := os.Chmod(filepath.Join(b.root, "etc"), 0o500); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := b.call("profile", "apply", "container"); code != 1 || !strings.Contains(errs, "run this as root") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
