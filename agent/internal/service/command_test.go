package service_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/internal/service"
)

// TestToolsAreReal runs a crontab that stands in the PATH, as the real one would.
func TestToolsAreReal(t *testing.T) {
	b := prepared(t, 0)
	b.write("/proc/9/comm", "cron\n")
	b.Command = nil
	bin := t.TempDir()
	const script = `#!/bin/sh
[ -z "$MUSTER_TOKEN" ] || exit 9
case $1 in
-l) cat "$0.tab" 2>/dev/null || { echo no crontab for x >&2; exit 1; } ;;
-r) rm "$0.tab" ;;
*) cp "$1" "$0.tab" ;;
esac
`
	if err := os.WriteFile(filepath.Join(bin, "crontab"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("MUSTER_TOKEN", "mse_x")
	installed(t, b)
	table := filepath.Join(bin, "crontab.tab")
	if raw, err := os.ReadFile(table); err != nil || string(raw) != "@reboot "+b.BootLine()+"\n" {
		t.Errorf("%q, %v", raw, err)
	}
	if _, err := b.Remove(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(table); err == nil {
		t.Error("an empty crontab is left")
	}
}

func TestToolThatIsNotThere(t *testing.T) {
	b := prepared(t, 0, "/run/openrc")
	b.Command = nil
	t.Setenv("PATH", t.TempDir())
	if _, err := b.Install(context.Background(), service.OpenRC, false); err == nil ||
		!strings.Contains(err.Error(), "rc-update is not on this machine") {
		t.Errorf("error %v", err)
	}
}
