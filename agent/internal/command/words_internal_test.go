package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/service"
	"muster/agent/wire"
)

// TestKeepWords: what the journal has of a failed version is kept, without the lines that are in the agent's log.
func TestKeepWords(t *testing.T) {
	for _, test := range []struct {
		name, invocation, script, want string
		uid                            int
	}{
		{"a panic", "x", `echo 'time=now msg=online'; echo 'panic: no'
echo 'muster-agent.service: Unit process 196 (muster-agent) remains running after unit stopped.'
echo 'muster-agent.service: Found left-over process 196 (muster-agent) in control group while starting unit. Ignoring.'
echo 'This usually indicates unclean termination of a previous run, or service implementation deficiencies.'; echo "$*"`,
			"panic: no\n--no-pager --quiet --output=cat --since=-150s --lines=200 --unit=muster-agent\n", 0},
		{"of a user", "x", `echo "$6"`, "--user-unit=muster-agent\n", 1000},
		{"no systemd", "", "echo no", "before", 0},
		{"a supervisor that cron has started", "supervised", "echo no", "before", 0},
		{"no journal", "x", "echo no; exit 1", "before", 0},
		{"a journal that knows nothing", "x", "", "before", 0},
		{"a journal that hangs", "x", "echo no; exec sleep 60", "before", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := t.TempDir()
			words := service.Layout{Base: base}.LastWords()
			program := filepath.Join(t.TempDir(), "journalctl")
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"+test.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(words, []byte("before"), 0o600); err != nil {
				t.Fatal(err)
			}
			j := judge{base: base, journal: program}
			j.System.UID = test.uid
			environ := map[string]string{"INVOCATION_ID": test.invocation}
			if test.invocation == "supervised" {
				environ[wire.EnvSupervised] = "1"
			}
			j.Getenv = func(name string) string { return environ[name] }
			began := time.Now()
			j.keepWords(t.Context())
			raw, err := os.ReadFile(words)
			if err != nil || string(raw) != test.want || time.Since(began) > judgeTime {
				t.Errorf("%v, kept %q after %s", err, raw, time.Since(began))
			}
			if strings.Contains(string(raw), "time=") {
				t.Error("lines of the log are kept")
			}
		})
	}
}

// TestWordsAsTheyCome: the last words of a version are kept before it ends, and without its log.
func TestWordsAsTheyCome(t *testing.T) {
	j := judge{base: t.TempDir()}
	words := service.Layout{Base: j.base}.LastWords()
	w := &wordKeeper{judge: j}
	log := strings.Repeat("time=now msg=online\n", 10_000)
	much := strings.Repeat("x", mostWords)
	for _, step := range []struct{ said, want string }{
		{"I hang", "I hang"},
		{" now\ntime=now msg=on", "I hang now\n"},
		{"line\n", "I hang now\n"},
		{log, "I hang now\n"},
		{"time=now\npanic: no\n", "I hang now\npanic: no\n"},
		{much, ("I hang now\npanic: no\n" + much)},
		{"\nend\n", (much + "\nend\n")[5:]},
	} {
		if n, err := w.Write([]byte(step.said)); n != len(step.said) || err != nil {
			t.Errorf("%.30q: %d, %v", step.said, n, err)
		}
		if raw, err := os.ReadFile(words); err != nil || string(raw) != step.want {
			t.Errorf("after %.30q: kept %d bytes %.40q, want %d, %v", step.said, len(raw), raw, len(step.want), err)
		}
	}
	w.trial = "over"
	if _, err := w.Write([]byte("later\n")); err != nil {
		t.Error(err)
	}
	if raw, err := os.ReadFile(words); err != nil || strings.Contains(string(raw), "later") {
		t.Errorf("after its trial: %d bytes, %v", len(raw), err)
	}
}
