package service_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/internal/service"
)

func TestLinesInOthersFiles(t *testing.T) {
	m := service.Manager{Base: "/base", Settings: "/settings"}
	const line = "/base/good/muster-agent supervise --state /base --settings /settings # muster-agent"
	if m.BootLine() != line {
		t.Fatalf("%s", m.BootLine())
	}
	for _, test := range []struct {
		text, want string
		script     bool
	}{
		{"", line + "\n", true},
		{"#!/bin/sh\nexec app\n", "#!/bin/sh\n" + line + "\nexec app\n", true},
		{"#!/bin/sh\nexec app", "#!/bin/sh\n" + line + "\nexec app", true},
		{"#!/bin/sh", "#!/bin/sh\n" + line, true},
		{"#!/bin/sh\n", "#!/bin/sh\n" + line + "\n", true},
		{"exec app\n", line + "\nexec app\n", true},
		{"\n\n", line + "\n\n\n", true},
		{"#!/bin/sh\n/other/current/muster-agent supervise # muster-agent\n",
			"#!/bin/sh\n" + line + "\n/other/current/muster-agent supervise # muster-agent\n", true},
		{"0 * * * * job\n", "0 * * * * job\n" + line + "\n", false},
		{"", line + "\n", false},
	} {
		once := m.WithLine(test.text, line, test.script)
		if once != test.want {
			t.Errorf("%q: %q, want %q", test.text, once, test.want)
		}
		if twice := m.WithLine(once, line, test.script); twice != once {
			t.Errorf("%q: twice %q", test.text, twice)
		}
		if back := m.WithoutLine(once); back != test.text {
			t.Errorf("%q: taken out again %q", test.text, back)
		}
		other := strings.ReplaceAll(once, "--settings /settings", "--old")
		if mended := m.WithLine(other, line, test.script); mended != once {
			t.Errorf("%q: a line with other settings became %q", test.text, mended)
		}
	}
}

func TestOnstart(t *testing.T) {
	b := prepared(t, 0)
	b.write("/root/onstart.sh", "#!/bin/bash\nexec sleep infinity\n")
	for range 2 {
		outcome := installed(t, b)
		if !strings.Contains(outcome.Line, "built-in supervisor started, restarted from /root/onstart.sh") || len(outcome.Advice) > 0 {
			t.Errorf("%+v", outcome)
		}
		got := b.read("/root/onstart.sh")
		if want := "#!/bin/bash\n" + b.BootLine() + "\nexec sleep infinity\n"; got != want {
			t.Errorf("%q", got)
		}
	}
	if info, _ := os.Stat(filepath.Join(b.Root, "/root/onstart.sh")); info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v", info.Mode())
	}
	want := b.Base + "/current/muster-agent supervise --detached --state " + b.Base + " --settings /etc/muster/agent.env"
	if len(b.started) != 2 || b.started[0] != want {
		t.Errorf("started %q", b.started)
	}
	if calls := b.called(); calls != "" {
		t.Errorf("calls %s", calls)
	}
}

func TestCrontab(t *testing.T) {
	b := prepared(t, 0)
	b.write("/proc/1234/comm", "cron\n")
	before := "\n# mine\nMAILTO=x\n0 * * * * job\n\n"
	b.crontab = &before
	for range 2 {
		if outcome := installed(t, b); !strings.HasSuffix(outcome.Line, "restarted from cron at boot") {
			t.Errorf("%+v", outcome)
		}
		got := *b.crontab
		if want := before + "@reboot " + b.BootLine() + "\n"; got != want {
			t.Errorf("%q", got)
		}
	}
	if loads := strings.Count(b.called(), "crontab "+b.Base); loads != 1 {
		t.Errorf("loaded %d times", loads)
	}
	if _, err := b.Remove(context.Background()); err != nil || b.crontab == nil || *b.crontab != before {
		t.Errorf("%v, %v", b.crontab, err)
	}
}

func TestNothingStartsItAtBoot(t *testing.T) {
	b := prepared(t, 0)
	outcome := installed(t, b)
	if len(outcome.Advice) != 1 || !strings.Contains(outcome.Advice[0], "Put this line in your start script: ") ||
		!strings.Contains(outcome.Advice[0], b.Base+"/good/muster-agent supervise --state "+b.Base) {
		t.Errorf("%+v", outcome)
	}
	if calls := b.called(); calls != "" {
		t.Errorf("a crontab that nobody reads was touched: %s", calls)
	}
	b.env["VAST_CONTAINERLABEL"] = "C.7"
	if outcome := installed(t, b); !strings.Contains(outcome.Advice[0], "on-start script") {
		t.Errorf("%+v", outcome)
	}
	b.write("/proc/1234/comm", "crond\n")
	b.fail["crontab"] = "you are not allowed to use this program"
	outcome = installed(t, b)
	if len(outcome.Advice) != 1 || !strings.Contains(outcome.Advice[0], "you are not allowed") ||
		!strings.Contains(outcome.Advice[0], "on-start script") {
		t.Errorf("%+v", outcome)
	}
}

func TestSupervisorThatDoesNotStart(t *testing.T) {
	b := prepared(t, 0)
	b.Detach = nil // the build here is no program
	if _, err := b.Install(context.Background(), service.Supervised, false); err == nil ||
		!strings.Contains(err.Error(), "start the supervisor") {
		t.Errorf("error %v", err)
	}
}
