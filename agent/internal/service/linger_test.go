package service_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/internal/service"
)

// login is the login of a user on a machine with systemd.
func login(t *testing.T) *box {
	return prepared(t, 1000, "/run/systemd/system", "/run/user/1000/systemd/private", "/home/u")
}

const denied = "Error checking authorization: Not authorized"

// TestChoose: what keeps the agent must outlive the login in which it was joined.
func TestChoose(t *testing.T) {
	for _, test := range []struct {
		name  string
		setup func(*box)
		want  service.Kind
		err   string
	}{
		{"polkit allows it", func(*box) {}, service.UserSystemd, ""},
		{"lingers already", func(b *box) { b.linger = true; b.fail["pkcheck"] = denied }, service.UserSystemd, ""},
		{"lingers already, as a file says", func(b *box) {
			b.fail["pkcheck"] = denied
			b.fail["loginctl"] = "Failed to connect to bus"
			b.write("/var/lib/systemd/linger/u", "")
		}, service.UserSystemd, ""},
		{"may not, cron", func(b *box) { b.fail["pkcheck"] = denied; b.write("/proc/7/comm", "cron\n") }, service.Supervised, ""},
		{"may not, no cron", func(b *box) { b.fail["pkcheck"] = denied }, "", "no cron runs"},
		{"may not, cron refuses", func(b *box) {
			b.fail["pkcheck"] = denied
			b.fail["crontab -l"] = "You (u) are not allowed to use this program (crontab)"
			b.write("/proc/7/comm", "crond\n")
		}, "", "not allowed to use this program"},
		{"may not, logind ends all", func(b *box) {
			b.fail["pkcheck"] = denied
			b.kill = true
			b.write("/proc/7/comm", "cron\n")
		}, "", "KillUserProcesses"},
		{"without an own systemd, cron", func(b *box) {
			os.RemoveAll(filepath.Join(b.Root, "/run/user"))
			b.write("/proc/7/comm", "cron\n")
		}, service.Supervised, ""},
		{"without an own systemd, no cron", func(b *box) { os.RemoveAll(filepath.Join(b.Root, "/run/user")) }, "", "no cron runs"},
		{"no init at all", func(b *box) { os.RemoveAll(filepath.Join(b.Root, "/run")) }, service.Supervised, ""},
		{"root", func(b *box) { b.UID = 0 }, service.Systemd, ""},
	} {
		b := login(t)
		test.setup(b)
		before := tree(t, b.Root)
		kind, err := b.Choose(context.Background())
		if test.err == "" && (err != nil || kind != test.want) {
			t.Errorf("%s: %s, %v", test.name, kind, err)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) ||
			!strings.Contains(err.Error(), "loginctl enable-linger u") || !strings.Contains(err.Error(), "join as root")) {
			t.Errorf("%s: error %v", test.name, err)
		}
		if after := tree(t, b.Root); after != before || b.crontab != nil || strings.Contains(b.called(), "enable-linger") {
			t.Errorf("%s: choosing changed something", test.name)
		}
	}
}

// TestWhoTheUserIs: after su, sudo or setpriv the environment may name the caller, and another user must linger.
func TestWhoTheUserIs(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n\nbroken\n+carol:x:1002:1::/:/bin/sh\n"
	for _, test := range []struct {
		uid           int
		user, logname string
		want          string
	}{
		{1001, "root", "root", "bob"},
		{1001, "", "", "bob"},
		{1001, "bob", "", "bob"},
		{1002, "root", "dave", "dave"}, // of a directory service
		{1002, "root", "bob", "1002"},
		{1002, "-x", "", "1002"},
	} {
		b := newBox(t, test.uid)
		b.mkdir("/run/systemd/system")
		b.write("/etc/passwd", passwd)
		b.write("/etc/group", "root:x:0:\n")
		b.env["USER"] = test.user
		b.env["LOGNAME"] = test.logname
		_, err := b.Choose(context.Background())
		if err == nil || !strings.Contains(err.Error(), "Let root run: loginctl enable-linger "+test.want+" ") {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestUserKeptByCron: cron starts the supervisor at boot, and again after a logout has ended it.
func TestUserKeptByCron(t *testing.T) {
	b := login(t)
	b.fail["pkcheck"] = denied
	b.write("/proc/7/comm", "cron\n")
	mine := "0 * * * * job\n"
	b.crontab = &mine
	for range 2 {
		outcome, err := b.Install(context.Background(), service.Supervised, false)
		if err != nil || len(outcome.Advice) > 0 || !strings.Contains(outcome.Line, "end at logout") ||
			!strings.Contains(outcome.Line, "within 5 minutes") {
			t.Errorf("%+v, %v", outcome, err)
		}
		line := strings.TrimSuffix(b.BootLine(), "# muster-agent")
		if want := mine + "@reboot " + line + "# muster-agent\n*/5 * * * * " + line + ">/dev/null 2>&1 # muster-agent\n"; *b.crontab != want {
			t.Errorf("crontab\n%swant\n%s", *b.crontab, want)
		}
	}
	if len(b.started) != 2 || strings.Contains(b.called(), "systemctl") {
		t.Errorf("started %q", b.started)
	}
	if _, err := b.Remove(context.Background()); err != nil || *b.crontab != mine {
		t.Errorf("%v, crontab %q", err, *b.crontab)
	}
}

// TestLingerIsRefusedAfterAll: the check found that the user may linger, or that cron takes entries, and then it is refused. Nothing is
// started that would end at logout.
func TestLingerIsRefusedAfterAll(t *testing.T) {
	b := login(t)
	b.fail["loginctl --no-ask-password enable-linger"] = "Could not enable linger: Access denied"
	_, err := b.Install(context.Background(), service.UserSystemd, false)
	if err == nil || !strings.Contains(err.Error(), "Access denied") ||
		!strings.Contains(err.Error(), "Let root run: loginctl enable-linger u") {
		t.Errorf("%v", err)
	}
	if calls := b.called(); strings.Contains(calls, "systemctl") {
		t.Errorf("calls %s", calls)
	}
	b.write("/proc/7/comm", "cron\n")
	b.fail["crontab "] = "no space left"
	_, err = b.Install(context.Background(), service.Supervised, false)
	if err == nil || !strings.Contains(err.Error(), "enable-linger u") || len(b.started) > 0 {
		t.Errorf("cron: %v, started %v", err, b.started)
	}
}

// TestFromUserSystemdToCron: cron takes over an agent from a user's systemd that ends at logout, also after that systemd has ended.
func TestFromUserSystemdToCron(t *testing.T) {
	for _, runs := range []bool{true, false} {
		b := login(t)
		if _, err := b.Install(context.Background(), service.UserSystemd, false); err != nil {
			t.Fatal(err)
		}
		const unit = "/home/u/.config/systemd/user/muster-agent.service"
		const link = "/home/u/.config/systemd/user/default.target.wants/muster-agent.service"
		b.write(link, "stands for the link")
		b.write("/proc/7/comm", "cron\n")
		if !runs {
			os.RemoveAll(filepath.Join(b.Root, "/run/user"))
		}
		b.called()
		outcome, err := b.Install(context.Background(), service.Supervised, true)
		if err != nil || b.crontab == nil || b.Installed() != service.Supervised {
			t.Errorf("runs %t: %+v, %v", runs, outcome, err)
		}
		if _, err := os.Stat(filepath.Join(b.Root, unit)); err == nil {
			t.Errorf("runs %t: the unit is left", runs)
		}
		_, err = os.Lstat(filepath.Join(b.Root, link))
		if calls := b.called(); strings.Contains(calls, "systemctl --user stop") != runs || !runs && err == nil {
			t.Errorf("runs %t: calls\n%s", runs, calls)
		}
	}
}
