package logfile_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/host"
	"muster/agent/internal/logfile"
	"muster/agent/wire"
)

func begin(base string, now time.Time) *logfile.Starts {
	return logfile.Begin(base, filepath.Join(base, "agent.log"), now)
}

func TestStarts(t *testing.T) {
	base := t.TempDir()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for range 5 {
		begin(base, now).End(nil)
	}
	if notice := begin(base, now).Notice(now); notice != "" {
		t.Errorf("ends in order are no crashes: %s", notice)
	}
	var s *logfile.Starts
	for range 3 {
		now = now.Add(time.Minute)
		s = begin(base, now)
	}
	if notice := s.Notice(now); !strings.Contains(notice, "restarted 3 times within an hour; the last time: it was killed") {
		t.Errorf("notice %q", notice)
	}
	s.End(errors.New("the disk\nis gone"))
	if notice := begin(base, now).Notice(now); !strings.Contains(notice, "4 times within an hour; the last time: the disk is gone") {
		t.Errorf("notice %q", notice)
	}
	begin(base, now).End(nil)
	if notice := begin(base, now).Notice(now); !strings.Contains(notice, "times within an hour; the last time: it was killed") {
		t.Errorf("after an end in order: notice %q", notice)
	}
	if notice := s.Notice(now.Add(2 * time.Hour)); notice != "" {
		t.Errorf("after two hours: %q", notice)
	}
	os.WriteFile(filepath.Join(base, "starts.json"), []byte("nonsense"), 0o600)
	if notice := begin(base, now).Notice(now); notice != "" {
		t.Errorf("of nonsense: %q", notice)
	}
	for range 100 {
		s = begin(base, now)
	}
	if raw, _ := os.ReadFile(filepath.Join(base, "starts.json")); len(raw) > 2000 || s.Notice(now) == "" {
		t.Errorf("%d bytes", len(raw))
	}
}

// said is a report in one line.
func said(s *logfile.Starts, now time.Time) string {
	r := s.Report(now)
	return strings.TrimSpace(fmt.Sprintf("%d starts, %d crashes %s", *r.Recent, *r.Crashes, r.Why))
}

// The report counts the starts of the last ten minutes, and those of them that follow a crash.
func TestReport(t *testing.T) {
	base := t.TempDir()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	s := begin(base, now)
	if got := said(s, now); got != "1 starts, 0 crashes" {
		t.Errorf("the first start: %s", got)
	}
	s.End(nil)
	s = begin(base, now.Add(time.Minute))
	s.End(errors.New(`no <"disk">\`))
	s = begin(base, now.Add(2*time.Minute))
	if got := said(s, now.Add(3*time.Minute)); got != "3 starts, 1 crashes no ('disk')/" {
		t.Errorf("after a crash: %s", got)
	}
	if got := said(s, now.Add(10*time.Minute)); got != "2 starts, 1 crashes no ('disk')/" {
		t.Errorf("ten minutes after the first start: %s", got)
	}
	if got := said(s, now.Add(time.Hour)); got != "0 starts, 0 crashes no ('disk')/" {
		t.Errorf("an hour later: %s", got)
	}
	s.End(errors.New(strings.Repeat("é", 500)))
	why := begin(base, now).Report(now).Why
	if len(why) > wire.MaxStartsWhy || !strings.HasSuffix(why, "é...") {
		t.Errorf("%d bytes: %s", len(why), why)
	}
}

// A run that could not say how it ended is explained by its panic, by its supervisor, or by its log, without secrets.
func TestLastWords(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	const supervisor = `{"phase":"crashing","last_error":"it ended 2 times in a row, last with: signal: killed; it is started again after 2s"}`
	const token = "mse_abcdefgh_0123456789abcdefghijklmnopqrstuv"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, "it was killed, or the machine stopped"},
		{"a panic", map[string]string{logfile.CrashFile: "panic: no such device\n\ngoroutine 1 [running]:\n", "status.json": supervisor},
			"panic: no such device"},
		{"a panic with a secret", map[string]string{logfile.CrashFile: "panic: token " + token + " is bad\n"},
			"panic: token mse_abcdefgh_*** is bad"},
		{"an end for a hang", map[string]string{logfile.CrashFile: "SIGABRT: abort\nPC=0x1 m=0 sigcode=0\n", "status.json": supervisor},
			"it hung: it gave no sign of life, and was ended"},
		{"its supervisor", map[string]string{"status.json": supervisor, "agent.log": "a\nb\n"}, "signal: killed"},
		{"a status of another kind", map[string]string{"status.json": `{"phase":"online"}`}, "it was killed, or the machine stopped"},
		{"its log", map[string]string{"agent.log": "first\nlevel=INFO msg=last token=" + token + "\n"},
			"it was killed, or the machine stopped; its log ends with: level=INFO msg=last token=***"},
		{"its log in lines of JSON", map[string]string{
			"agent.log": "first\n" + `{"time":"2026-11-01T12:00:00.000Z","level":"info","msg":"the last","n":1}` + "\n"},
			"it was killed, or the machine stopped; its log ends with: time=2026-11-01T12:00:00.000Z level=INFO msg='the last' n=1"},
		{"half a line", map[string]string{"agent.log": strings.Repeat("x", 20_000)}, "it was killed, or the machine stopped"},
		{"an identity that cannot be read", map[string]string{logfile.CrashFile: "panic: x\n", "identity.json": "{"},
			"it was killed, or the machine stopped"},
	} {
		base := t.TempDir()
		begin(base, now)
		for name, content := range test.files {
			if err := os.WriteFile(filepath.Join(base, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := begin(base, now).Report(now).Why; got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// After a restart of the machine, a run that did not end in order is no crash of the agent.
func TestMachineThatWasRestarted(t *testing.T) {
	base := t.TempDir()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct{ record, want string }{
		{`{"running":true,"boot_id":"another"}`, "1 starts, 0 crashes"},
		{`{"running":true,"boot_id":"` + host.BootID() + `"}`, "1 starts, 1 crashes it was killed, or the machine stopped"},
	} {
		if err := os.WriteFile(filepath.Join(base, logfile.StartsFile), []byte(test.record), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := said(begin(base, now), now); got != test.want {
			t.Errorf("%s: got %s", test.record, got)
		}
	}
}

// TestCatch lets a process panic, and reads what it left.
func TestCatch(t *testing.T) {
	now := time.Now()
	if base := os.Getenv("STARTS_PANIC"); base != "" {
		if err := begin(base, now).Catch(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan bool)
		go func() { panic("a wrong turn") }()
		<-ended
	}
	base := t.TempDir()
	command := exec.Command(os.Args[0], "-test.run=^TestCatch$")
	command.Env = append(os.Environ(), "STARTS_PANIC="+base)
	if err := command.Run(); err == nil {
		t.Fatal("it did not panic")
	}
	next := begin(base, now)
	if got := said(next, now); got != "2 starts, 1 crashes panic: a wrong turn" {
		t.Errorf("got %s", got)
	}
	if err := begin(filepath.Join(base, "nowhere"), now).Catch(); err == nil {
		t.Error("there is no such folder, and that is no error")
	}
}
