package service_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/internal/service"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestTexts(t *testing.T) {
	for name, got := range map[string]string{
		"system.service": service.UnitText("/var/lib/muster-agent", "/etc/muster/agent.env", false),
		"user.service":   service.UnitText("/home/u/.local/state/muster-agent", "/home/u/.config/muster/agent.env", true),
		"openrc":         service.OpenRCText("/var/lib/muster-agent", "/etc/muster/agent.env"),
	} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v, got\n%s", name, err, got)
		}
	}
}

// TestOpenRCStartsWithoutAGoodVersion: one that is missing, damaged, or older than launch does not keep the service from starting.
func TestOpenRCStartsWithoutAGoodVersion(t *testing.T) {
	for name, good := range map[string]string{
		"good": "#!/bin/sh\n[ \"$*\" = \"launch --help\" ]\n", "old": "#!/bin/sh\nexit 2\n", "damaged": "\x7fELF", "missing": "",
	} {
		base := t.TempDir()
		program := filepath.Join(base, "good", service.Name)
		if err := os.Mkdir(filepath.Dir(program), 0o755); err != nil {
			t.Fatal(err)
		}
		if good != "" {
			if err := os.WriteFile(program, []byte(good), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		want := filepath.Join(base, "current", service.Name)
		if name == "good" {
			want = program
		}
		script := filepath.Join(base, "script")
		if err := os.WriteFile(script, []byte(service.OpenRCText(base, "/nowhere")), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("sh", "-ec", ". "+script+"; start_pre; printf %s \"$command\"").CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("%s: %v, %q, want %q", name, err, out, want)
		}
	}
}

// TestUnitRules checks what must stand in the unit and what must not.
func TestUnitRules(t *testing.T) {
	text := service.UnitText("/base", "/settings", false)
	unit, rest, _ := strings.Cut(text, "[Service]")
	if !strings.Contains(unit, "\nStartLimitIntervalSec=0\n") {
		t.Error("StartLimitIntervalSec is not in [Unit], where it counts")
	}
	for _, line := range []string{
		"Type=notify", "NotifyAccess=main", "WatchdogSec=60", "TimeoutStartSec=60", "TimeoutStopSec=15", "Restart=always",
		"RestartSec=2", "KillMode=process", "UMask=0077", "ExecStartPre=-/base/good/muster-agent settle --state /base",
		"ExecStart=/base/current/muster-agent run", "EnvironmentFile=/settings", "WantedBy=multi-user.target",
	} {
		if !strings.Contains(rest, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	for line := range strings.Lines(text) {
		for _, harmful := range []string{
			"PrivateDevices", "DevicePolicy", "DeviceAllow", "NoNewPrivileges", "Protect", "MemoryDeny", "SystemCall", "Restrict", "Limit",
			"PrivateTmp", "User=",
		} {
			if strings.HasPrefix(line, harmful) && !strings.HasPrefix(line, "RestartSec") {
				t.Errorf("%s breaks nvidia-smi or work", strings.TrimSpace(line))
			}
		}
	}
}

func TestCheckPath(t *testing.T) {
	for path, ok := range map[string]bool{
		"/var/lib/muster-agent": true, "/home/jörg/.local/state/x_y+z@1": true, "relative": false, "": false, "/a b": false, "/a%b": false,
		"/a$b": false, "/a\"b": false, "/a\nb": false, "/a;b": false, "/a#b": false, `/a\b`: false, "/a'b": false, "/a*": false,
	} {
		if err := service.CheckPath(path); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
}
