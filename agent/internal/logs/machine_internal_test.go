//go:build real

package logs

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/workload"
	"muster/agent/wire"
)

// TestMachine reads the logs of the machine on which it runs. Package lab runs it on one of its own.
func TestMachine(t *testing.T) {
	h := Host{State: t.TempDir(), User: os.Geteuid() != 0, Secrets: []string{known}}
	h.Workloads = workload.Host{State: h.State}
	switch os.Getenv("LOGS_MACHINE") {
	case "":
		t.Skip("the tests of package lab run it: make test-real")
	case "nobody":
		for _, source := range []string{wire.LogBoot, "unit:systemd-journald"} {
			_, err := h.Open(t.Context(), Ask{Source: source})
			var said *wire.ErrorDetail
			if !errors.As(err, &said) || said.Code != wire.CodeForbidden {
				t.Errorf("%s: %v", source, err)
			}
		}
		return
	case "podman":
		machineWorkload(t, h, os.Getenv("LOGS_WORKLOAD"))
		return
	}
	machineUnit(t, h)
	machineLarge(t, h)
	lines, err := all(t, h, Ask{Source: wire.LogBoot})
	if err != nil || !strings.Contains(messages(lines), "speaks") {
		t.Errorf("%d lines of this boot, %v", len(lines), err)
	}
	lines, err = all(t, h, Ask{Source: wire.LogKernel})
	t.Logf("the kernel's log: %d lines, %v", len(lines), err)
	var said *wire.ErrorDetail
	if err != nil && !errors.As(err, &said) {
		t.Error(err)
	}
	if _, err := h.Open(t.Context(), Ask{Source: "unit:nobody-knows-it"}); !errors.As(err, &said) || said.Code != wire.CodeNotFound {
		t.Error(err)
	}
}

// machineUnit follows a unit while it speaks, through a rotation of the journal, with a second reader that goes on behind each line.
func machineUnit(t *testing.T, h Host) {
	const say = `echo speaks; echo "it is ` + known + `"; printf 'bin\001\377\n'; head -c 100000 /dev/zero | tr '\0' x; echo; echo last`
	speak := func() {
		machineRun(t, "systemd-run", "--quiet", "--wait", "--collect", "--unit=speaker", "sh", "-c", say)
	}
	own := func(lines []wire.LogLine) string { // without those of systemd about it
		return messages(slices.DeleteFunc(slices.Clone(lines), func(l wire.LogLine) bool { return l.Fields["identifier"] != "sh" }))
	}
	speak()
	lines, err := all(t, h, Ask{Source: "unit:speaker"})
	text := own(lines)
	if err != nil || !strings.HasPrefix(text, "speaks|it is ***|bin\x01\uFFFD|xxx") || !strings.HasSuffix(text, "x|last") ||
		strings.Count(text, "x") < 100_000 {
		t.Errorf("%.300q, %v", text, err)
	}
	r := open(t, h, Ask{Source: "unit:speaker", Since: time.Now().Add(-time.Hour), Follow: true})
	for _, old := range lines {
		if l := next(t, r); l.Message != old.Message {
			t.Fatalf("%.80q is not %.80q", l.Message, old.Message)
		}
	}
	machineRun(t, "journalctl", "--rotate")
	place := r.place
	speak()
	for l := next(t, r); l.Message != "last"; l = next(t, r) {
		if time.Since(l.Time).Abs() > time.Hour {
			t.Errorf("%+v", l)
		}
	}
	rest, err := all(t, h, Ask{Source: "unit:speaker", After: place})
	if again := own(rest); err != nil || again != text {
		t.Errorf("behind the place: %.300q, %v", again, err)
	}
}

// machineLarge reads lines whose fields are larger than what is kept of them. The journal has them in an order that changes.
func machineLarge(t *testing.T, h Host) {
	const shout = `for i in 1 2 3 4; do
{ printf 'SYSLOG_IDENTIFIER=shout\nMESSAGE='; head -c 2000000 /dev/zero | tr '\0' y; echo; } | logger --journald
{ printf 'SYSLOG_IDENTIFIER=shout\nMESSAGE=zzz\nPAYLOAD='; head -c 2000000 /dev/zero | tr '\0' y; echo; } | logger --journald
done; journalctl --sync`
	machineRun(t, "sh", "-c", shout)
	lines, err := all(t, h, Ask{Source: wire.LogBoot})
	lines = slices.DeleteFunc(lines, func(l wire.LogLine) bool { return l.Fields["identifier"] != "shout" })
	if err != nil || len(lines) != 8 {
		t.Errorf("%d large lines of 8, %v", len(lines), err)
	}
	for _, l := range lines {
		if l.Message != "zzz" && (!strings.HasPrefix(l.Message, "yyy") || len(l.Message)+l.Cut != 2_000_000) {
			t.Errorf("%.10q is %d bytes, %d cut", l.Message, len(l.Message), l.Cut)
		}
	}
}

// machineWorkload reads a container that counts.
func machineWorkload(t *testing.T, h Host, name string) {
	ask := Ask{Source: wire.LogWorkload + name, Follow: true}
	r := open(t, h, ask)
	first := next(t, r)
	if !strings.Contains(first.Message, "counts, ***") || time.Since(first.Time).Abs() > time.Hour {
		t.Errorf("%+v", first)
	}
	for _, want := range []string{"1", "2", "3"} {
		if l := next(t, r); l.Message != want {
			t.Fatalf("%+v is not %s", l, want)
		}
	}
	ask.After = r.place
	r.Close()
	again := open(t, h, ask)
	if l := next(t, again); l.Message != "4" {
		t.Errorf("behind 3: %+v", l)
	}
	lines, err := all(t, h, Ask{Source: ask.Source})
	if err != nil || len(lines) < 5 || lines[4].Message != "4" {
		t.Errorf("%v, %v", lines, err)
	}
}

func machineRun(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
