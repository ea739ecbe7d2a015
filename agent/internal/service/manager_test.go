package service_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/internal/service"
)

func TestKind(t *testing.T) {
	for _, test := range []struct {
		name    string
		uid     int
		folders []string
		runtime string
		want    service.Kind
	}{
		{"nothing", 0, nil, "", service.Supervised},
		{"systemd", 0, []string{"/run/systemd/system"}, "", service.Systemd},
		{"both", 0, []string{"/run/systemd/system", "/run/openrc"}, "", service.Systemd},
		{"OpenRC", 0, []string{"/run/openrc"}, "", service.OpenRC},
		{"root has no user instance", 0, []string{"/run/user/0/systemd/private"}, "/run/user/0", service.Supervised},
		{"user", 1000, []string{"/run/systemd/system", "/x/systemd/private"}, "/x", service.UserSystemd},
		{"user, not told where", 1000, []string{"/run/user/1000/systemd/private"}, "", service.UserSystemd},
		{"user of a machine with systemd but no instance", 1000, []string{"/run/systemd/system", "/run/user/1000"}, "/run/user/1000",
			service.Supervised},
		{"user with OpenRC", 1000, []string{"/run/openrc"}, "", service.Supervised},
	} {
		b := newBox(t, test.uid)
		b.env["XDG_RUNTIME_DIR"] = test.runtime
		for _, folder := range test.folders {
			b.mkdir(folder)
		}
		if got := b.Kind(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// installed is a box on which the agent is installed.
func installed(t *testing.T, b *box) service.Outcome {
	t.Helper()
	outcome, err := b.Install(context.Background(), b.Kind(), false)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// show is the call that asks systemd what it would start.
const show = "systemctl show muster-agent.service --property=ExecStart --value\n"

// TestSystemdRemembersAnotherInstallation: that installation is gone, so there is nothing that systemd could start.
func TestSystemdRemembersAnotherInstallation(t *testing.T) {
	b := prepared(t, 0, "/run/systemd/system")
	b.remembers = "{ path=/var/lib/muster-agent/current/muster-agent ; argv[]=... }"
	if _, err := b.Install(context.Background(), service.Systemd, false); err == nil || !strings.Contains(err.Error(), "--reload-units") {
		t.Errorf("error %v", err)
	}
	if calls := b.called(); calls+"\n" != show {
		t.Errorf("calls %s", calls)
	}
	b.ReloadUnits = true
	installed(t, b)
	if calls := b.called(); !strings.HasPrefix(calls, show+"systemctl daemon-reload\nsystemctl enable") {
		t.Errorf("calls %s", calls)
	}
	b.ReloadUnits = false
	b.remembers = "{ path=" + b.Base + "/current/muster-agent ; argv[]=... }"
	installed(t, b)
	if calls := b.called(); strings.Contains(calls, "daemon-reload") {
		t.Errorf("calls %s", calls)
	}
}

func TestSystemd(t *testing.T) {
	b := prepared(t, 0, "/run/systemd/system", "/etc/systemd/system")
	outcome := installed(t, b)
	if outcome.Line != "systemd: muster-agent.service enabled and started" || len(outcome.Advice) > 0 {
		t.Errorf("%+v", outcome)
	}
	const path = "/etc/systemd/system/muster-agent.service"
	if got := b.read(path); got != service.UnitText(b.Base, b.Settings, false) {
		t.Errorf("unit\n%s", got)
	}
	if info, err := os.Stat(filepath.Join(b.Root, path)); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	got := b.called()
	if want := show + "systemctl enable --no-reload muster-agent.service\nsystemctl start muster-agent.service"; got != want {
		t.Errorf("first: calls\n%s", got)
	}
	if b.Installed() != service.Systemd {
		t.Errorf("installed as %q", b.Installed())
	}
	if _, err := b.Install(context.Background(), service.Systemd, true); err != nil {
		t.Fatal(err)
	}
	if got := b.called(); !strings.HasSuffix(got, "systemctl restart muster-agent.service") || strings.Contains(got, "daemon-reload") {
		t.Errorf("update: calls\n%s", got)
	}
}

func TestSystemdReloadsOnlyWhenAsked(t *testing.T) {
	b := prepared(t, 0, "/run/systemd/system")
	const path = "/etc/systemd/system/muster-agent.service"
	b.write(path, "# an older one\n")
	outcome := installed(t, b)
	if len(outcome.Advice) != 1 || !strings.Contains(outcome.Advice[0], "--reload-units") || b.read(path) != "# an older one\n" {
		t.Errorf("%+v\n%s", outcome, b.read(path))
	}
	if got := b.called(); strings.Contains(got, "daemon-reload") {
		t.Errorf("calls\n%s", got)
	}
	b.ReloadUnits = true
	if outcome := installed(t, b); len(outcome.Advice) > 0 || b.read(path) != service.UnitText(b.Base, b.Settings, false) {
		t.Errorf("%+v\n%s", outcome, b.read(path))
	}
	want := "systemctl daemon-reload\n" + show + "systemctl enable --no-reload muster-agent.service\nsystemctl restart muster-agent.service"
	if got := b.called(); got != want {
		t.Errorf("calls\n%s", got)
	}
}

func TestUserSystemd(t *testing.T) {
	b := prepared(t, 1000, "/run/user/1000/systemd/private", "/home/u")
	outcome := installed(t, b)
	if outcome.Line != "systemd --user: muster-agent.service enabled and started, linger on" || !b.linger {
		t.Errorf("%+v", outcome)
	}
	if got := b.read("/home/u/.config/systemd/user/muster-agent.service"); !strings.Contains(got, "WantedBy=default.target") {
		t.Errorf("unit\n%s", got)
	}
	if calls := b.called(); !strings.Contains(calls, "\nenv XDG_RUNTIME_DIR=/run/user/1000 systemctl --user enable --no-reload") {
		t.Errorf("calls\n%s", calls)
	}
	if _, err := b.Remove(context.Background()); err != nil || b.linger || b.cutOff {
		t.Errorf("linger %v, before all was removed %v, %v", b.linger, b.cutOff, err)
	}
	if _, err := os.Stat(filepath.Join(b.Root, "/home/u/.config")); err == nil {
		t.Error("a folder that was made is left")
	}
}

func TestLingerThatWasThereStays(t *testing.T) {
	b := prepared(t, 1000, "/run/user/1000/systemd/private", "/home/u")
	b.linger = true
	installed(t, b)
	if _, err := b.Remove(context.Background()); err != nil || !b.linger {
		t.Errorf("linger %v, %v", b.linger, err)
	}
}

func TestOpenRC(t *testing.T) {
	b := prepared(t, 0, "/run/openrc", "/etc/init.d")
	if outcome := installed(t, b); !strings.HasPrefix(outcome.Line, "OpenRC: ") {
		t.Errorf("%+v", outcome)
	}
	if info, err := os.Stat(filepath.Join(b.Root, "/etc/init.d/muster-agent")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if got := b.called(); got != "rc-update add muster-agent default\nrc-service muster-agent start" {
		t.Errorf("calls\n%s", got)
	}
	if _, err := b.Remove(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := b.called(); !strings.HasPrefix(got, "rc-service muster-agent stop\nrc-update del muster-agent default") {
		t.Errorf("calls\n%s", got)
	}
}

// TestEveryFailureHasANextStep fails each tool in turn.
func TestEveryFailureHasANextStep(t *testing.T) {
	for _, test := range []struct {
		call, says, want string
		uid              int
		folders          []string
	}{
		{"systemctl enable", "Failed to enable unit", "then join again", 0, []string{"/run/systemd/system"}},
		{"systemctl start", "Job failed", "journalctl -u muster-agent.service", 0, []string{"/run/systemd/system"}},
		{"env XDG_RUNTIME_DIR=/run/user/7 systemctl --user start", "Job failed", "journalctl --user -u muster-agent.service", 7,
			[]string{"/run/user/7/systemd/private"}},
		{"rc-update", "no such runlevel", "then join again", 0, []string{"/run/openrc"}},
		{"rc-service", "crashed", "agent.log", 0, []string{"/run/openrc"}},
	} {
		b := prepared(t, test.uid, test.folders...)
		b.fail[test.call] = test.says
		_, err := b.Install(context.Background(), b.Kind(), false)
		if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.call, err)
		}
	}
	b := prepared(t, 0, "/run/systemd/system")
	installed(t, b)
	b.fail["systemctl disable"] = "no"
	if _, err := b.Remove(context.Background()); err == nil || !strings.Contains(err.Error(), "then leave again") {
		t.Errorf("disable: %v", err)
	}
	if b.Traces() == nil {
		t.Error("a removal that failed took the rest away all the same")
	}
	b.fail = nil
	if _, err := b.Remove(context.Background()); err != nil || b.Traces() != nil {
		t.Errorf("again: %v, left %v", err, b.Traces())
	}
	if _, err := b.Install(context.Background(), "upstart", false); err == nil {
		t.Error("an unknown kind was installed")
	}
}

// TestRemoveLeavesNoTrace compares the whole machine before and after, for everything that can keep an agent.
func TestRemoveLeavesNoTrace(t *testing.T) {
	for _, test := range []struct {
		name    string
		uid     int
		folders []string
		onstart string
		cron    bool
	}{
		{name: "systemd", folders: []string{"/run/systemd/system", "/etc/systemd/system"}},
		{name: "OpenRC", folders: []string{"/run/openrc", "/etc/init.d"}},
		{name: "user", uid: 1000, folders: []string{"/run/user/1000/systemd/private", "/home/u"}},
		{name: "user with a configuration", uid: 1000, folders: []string{"/run/user/1000/systemd/private", "/home/u/.config/systemd/user"}},
		{name: "cron", folders: []string{"/etc"}, cron: true},
		{name: "cron of a user", uid: 1000, folders: []string{"/home/u"}, cron: true},
		{name: "onstart", folders: []string{"/etc/muster"}, onstart: "#!/bin/bash\nsleep infinity"},
	} {
		b := newBox(t, test.uid)
		for _, folder := range test.folders {
			b.mkdir(folder)
		}
		if test.onstart != "" {
			b.write("/root/onstart.sh", test.onstart)
		}
		if test.cron {
			b.write("/proc/77/comm", "crond\n")
		}
		before := tree(t, b.Root) + tree(t, filepath.Dir(b.Base))
		b.install()
		installed(t, b)
		if during := tree(t, b.Root) + tree(t, filepath.Dir(b.Base)); during == before {
			t.Errorf("%s: installing changed nothing", test.name)
		}
		if test.cron && (b.crontab == nil || !strings.HasPrefix(*b.crontab, "@reboot "+b.Base+"/good/muster-agent supervise --state ")) {
			t.Errorf("%s: crontab %v", test.name, b.crontab)
		}
		removed, err := b.Remove(context.Background())
		if err != nil || len(removed) < 2 {
			t.Errorf("%s: %v, %v", test.name, removed, err)
		}
		if after := tree(t, b.Root) + tree(t, filepath.Dir(b.Base)); after != before || b.crontab != nil {
			t.Errorf("%s: before\n%safter\n%s", test.name, before, after)
		}
		if _, err := b.Remove(context.Background()); err != nil {
			t.Errorf("%s: again: %v", test.name, err)
		}
	}
}

// TestAnotherKindReplacesTheOneBefore: two kinds would both start an agent on one state directory.
func TestAnotherKindReplacesTheOneBefore(t *testing.T) {
	b := prepared(t, 0)
	b.write("/root/onstart.sh", "#!/bin/sh\n")
	installed(t, b)
	b.mkdir("/run/systemd/system")
	installed(t, b)
	if got := b.read("/root/onstart.sh"); got != "#!/bin/sh\n" || b.Installed() != service.Systemd {
		t.Errorf("%q, %s", got, b.Installed())
	}
}

// TestFoundDirectory: a state directory that was there before, such as a mounted volume, has its former mode and owner at the end.
func TestFoundDirectory(t *testing.T) {
	b := newBox(t, 0)
	b.mkdir("/run/systemd/system")
	if err := errors.Join(os.MkdirAll(filepath.Join(b.Base, "lost+found"), 0o755), os.Chmod(b.Base, 0o755)); err != nil {
		t.Fatal(err)
	}
	before := tree(t, filepath.Dir(b.Base))
	b.install()
	if info, err := os.Stat(b.Base); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("while joined: %v, %v", info.Mode(), err)
	}
	if err := b.MakeBase(); err != nil { // a join that goes on
		t.Fatal(err)
	}
	installed(t, b)
	removed, err := b.Remove(context.Background())
	if last := removed[len(removed)-1]; err != nil || last != "what was in "+b.Base {
		t.Errorf("%v, %v", removed, err)
	}
	if after := tree(t, filepath.Dir(b.Base)); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

// TestUndo: an installation that ends before the enrolment leaves nothing behind.
func TestUndo(t *testing.T) {
	for _, there := range []bool{false, true} {
		b := newBox(t, 0)
		top := t.TempDir()
		b.Base = filepath.Join(top, "deep", "down")
		if there {
			if err := os.MkdirAll(b.Base, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		before := tree(t, top)
		b.install()
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
		if after := tree(t, top); after != before {
			t.Errorf("there %t: before\n%safter\n%s", there, before, after)
		}
	}
}

func TestRemoveLeavesWhatIsNotOurs(t *testing.T) {
	b := prepared(t, 0, "/run/systemd/system")
	installed(t, b)
	theirs := filepath.Join(b.Base, "thesis.tex")
	os.WriteFile(theirs, []byte("x"), 0o600)
	if _, err := b.Remove(context.Background()); err == nil || !strings.Contains(err.Error(), "not the agent's") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Errorf("somebody's file is gone: %v", err)
	}
	if entries, _ := os.ReadDir(b.Base); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}
