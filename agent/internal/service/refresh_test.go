package service_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/internal/service"
)

// older is a file as a version wrote it that knew nothing of trials.
func (b *box) older(path string, replacements ...string) {
	b.t.Helper()
	text := b.read(path)
	replaced := strings.NewReplacer(replacements...).Replace(text)
	if replaced == text {
		b.t.Fatalf("%s has nothing of %q", path, replacements)
	}
	b.write(path, replaced)
}

// aged makes the installation on a box one of an older version, and gives its file.
func (b *box) aged(kind service.Kind) (path string) {
	good := b.Base + "/good/muster-agent"
	current := b.Base + "/current/muster-agent"
	switch kind {
	case service.Systemd:
		path = "/etc/systemd/system/muster-agent.service"
		b.older(path, "ExecStartPre=-"+good+" settle --state "+b.Base+"\n", "")
	case service.UserSystemd:
		path = "/home/u/.config/systemd/user/muster-agent.service"
		b.older(path, "ExecStartPre=-"+good+" settle --state "+b.Base+"\n", "")
	case service.OpenRC:
		path = "/etc/init.d/muster-agent"
		b.older(path, "command=\""+good+"\"\ncommand_args=\"launch --state "+b.Base+"\"", "command=\""+current+"\"\ncommand_args=\"run\"")
	}
	return path
}

// machineOf is a box on which this kind keeps the agent.
func machineOf(t *testing.T, kind service.Kind) *box {
	t.Helper()
	var b *box
	switch kind {
	case service.Systemd:
		b = prepared(t, 0, "/run/systemd/system")
	case service.OpenRC:
		b = prepared(t, 0, "/run/openrc")
	case service.UserSystemd:
		b = prepared(t, 1000, "/run/user/1000/systemd/private")
		b.linger = true
	}
	b.good()
	installed(t, b)
	b.calls = nil
	return b
}

// good makes the current build the good one.
func (b *box) good() {
	b.t.Helper()
	layout := service.Layout{Base: b.Base}
	if err := layout.SetGood(layout.Current()); err != nil {
		b.t.Fatal(err)
	}
}

// TestRefresh: a file that knew nothing of trials becomes what this version writes, without a word to the service manager. One that is up
// to date, or that a person has changed, stays as it is.
func TestRefresh(t *testing.T) {
	for _, kind := range []service.Kind{service.Systemd, service.UserSystemd, service.OpenRC} {
		b := machineOf(t, kind)
		if err := b.Refresh(t.Context()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		before := tree(t, b.Root)
		path := b.aged(kind)
		info, err := os.Stat(filepath.Join(b.Root, path))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(b.Root, path), info.Mode()|0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := b.Refresh(t.Context()); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
		if after := tree(t, b.Root); before != after {
			t.Errorf("%s: before\n%safter\n%s", kind, before, after)
		}
		if calls := b.called(); calls != "" {
			t.Errorf("%s: %s", kind, calls)
		}
		text := b.read(path)
		b.write(path, text+"# mine\n")
		if err := b.Refresh(t.Context()); err != nil || b.read(path) != text+"# mine\n" {
			t.Errorf("%s: a file that is up to date: %v", kind, err)
		}
	}
}

// TestRefreshKeeps: what a person has added to a file of an older version stays, with its mode, and also where the file is a link.
func TestRefreshKeeps(t *testing.T) {
	for kind, added := range map[service.Kind][2]string{
		service.Systemd:     {"[Service]\n", "[Service]\nEnvironment=https_proxy=http://10.0.0.1:3128\nExecStartPre=/usr/local/bin/mine\n"},
		service.UserSystemd: {"WatchdogSec=60\n", "WatchdogSec=300\nLimitNOFILE=100000\n"},
		service.OpenRC:      {"respawn_delay=2\n", "respawn_delay=9\nexport https_proxy=http://10.0.0.1:3128\n"},
	} {
		b := machineOf(t, kind)
		path := b.aged(kind)
		if kind == service.OpenRC { // such a script had no function start_pre
			text := b.read(path)
			from := strings.Index(text, "\n# Where the good version is missing")
			to := strings.Index(text, "}\n\nif [ -f")
			b.write(path, text[:from]+text[to+2:])
		}
		b.older(path, added[0], added[1])
		whole := filepath.Join(b.Root, path)
		for _, err := range []error{os.Chmod(whole, 0o750), os.Rename(whole, whole+".mine"), os.Symlink(filepath.Base(whole)+".mine", whole)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Refresh(t.Context()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		text := b.read(path)
		guards := "\nExecStartPre=-" + b.Base + "/good/muster-agent settle --state " + b.Base + "\nExecStart="
		if kind == service.OpenRC {
			guards = "\ncommand=\"" + b.Base + "/good/muster-agent\"\ncommand_args=\"launch --state " + b.Base + "\"\n"
		}
		if !strings.Contains(text, added[1]) || !strings.Contains(text, guards) ||
			strings.Contains(text, "start_pre() {") != (kind == service.OpenRC) {
			t.Errorf("%s: %s", kind, text)
		}
		link, err := os.Lstat(whole)
		info, unread := os.Stat(whole)
		if err != nil || unread != nil || link.Mode()&os.ModeSymlink == 0 || info.Mode().Perm() != 0o750 {
			t.Errorf("%s: %v, %v, %v", kind, link, info, errors.Join(err, unread))
		}
	}
}

// TestRefreshKeepsHooks: a line that a person has changed around the program stays so, and one that is taken out stays out.
func TestRefreshKeepsHooks(t *testing.T) {
	b := prepared(t, 0)
	b.write("/proc/1234/comm", "cron\n")
	b.good()
	installed(t, b)
	b.calls = nil
	ours := strings.ReplaceAll(strings.TrimPrefix(*b.crontab, "@reboot "), "/good/", "/current/")
	older := "#@reboot " + ours + "@reboot sleep 30; " + ours
	b.crontab = &older
	if err := b.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	want := "#@reboot " + ours + "@reboot sleep 30; " + strings.ReplaceAll(ours, "/current/", "/good/")
	if *b.crontab != want {
		t.Errorf("%q, want %q", *b.crontab, want)
	}
}

// TestRefreshLeaves: what is another's, or changed by a person, or cannot be written stays, and the error says what a person does.
func TestRefreshLeaves(t *testing.T) {
	for _, kind := range []service.Kind{service.Systemd, service.UserSystemd, service.OpenRC} {
		for name, change := range map[string]func(b *box, path string){
			"another agent's":   func(b *box, path string) { b.older(path, b.Base+"/current", "/other/current") },
			"other settings":    func(b *box, path string) { b.older(path, b.Settings, "/other/agent.env") },
			"a person's":        func(b *box, path string) { b.older(path, "# Written by muster-agent join", "# by me") },
			"gone":              func(b *box, path string) { os.Remove(filepath.Join(b.Root, path)) },
			"cannot be written": func(b *box, path string) { b.mkdir(path + ".new") },
		} {
			b := machineOf(t, kind)
			path := b.aged(kind)
			change(b, path)
			before := tree(t, b.Root)
			if err := b.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "join again") ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
			if tree(t, b.Root) != before {
				t.Errorf("%s, %s: something was changed", kind, name)
			}
		}
	}
}

// TestRefreshHooks: lines that start the supervisor from the version that may be on trial start it from the good one. None is added where
// there was none.
func TestRefreshHooks(t *testing.T) {
	for _, hook := range []string{"cron", "onstart", "neither"} {
		b := prepared(t, 0)
		if hook == "cron" {
			b.write("/proc/1234/comm", "cron\n")
		}
		if hook == "onstart" {
			b.write("/root/onstart.sh", "#!/bin/bash\nexec app\n")
		}
		b.good()
		installed(t, b)
		text := func() string {
			switch {
			case hook == "cron":
				return *b.crontab
			case hook == "onstart":
				return b.read("/root/onstart.sh")
			}
			return ""
		}
		want := text()
		older := strings.ReplaceAll(want, "/good/", "/current/")
		if hook == "cron" {
			b.crontab = &older
		}
		if hook == "onstart" {
			b.write("/root/onstart.sh", older)
		}
		b.calls = nil
		for range 2 {
			if err := b.Refresh(t.Context()); err != nil {
				t.Errorf("%s: %v", hook, err)
			}
		}
		if got := text(); got != want {
			t.Errorf("%s: %q, want %q", hook, got, want)
		}
		if hook != "cron" && b.crontab != nil || hook == "cron" && strings.Count(b.called(), "crontab "+b.Base) != 1 {
			t.Errorf("%s: %s", hook, b.called())
		}
	}
}

// TestRefreshHooksFail: the error says what a person does.
func TestRefreshHooksFail(t *testing.T) {
	b := prepared(t, 0)
	b.write("/proc/1234/comm", "cron\n")
	b.good()
	installed(t, b)
	older := strings.ReplaceAll(*b.crontab, "/good/", "/current/")
	b.crontab = &older
	b.fail["crontab "+b.Base] = "no space"
	if err := b.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "join again") {
		t.Error(err)
	}
	b.fail = map[string]string{"crontab -l": "not allowed"}
	if err := b.Refresh(t.Context()); err != nil {
		t.Errorf("without a crontab: %v", err)
	}
	b = prepared(t, 0)
	if err := b.Refresh(t.Context()); err != nil || b.called() != "" {
		t.Errorf("without an installation: %v", err)
	}
}
