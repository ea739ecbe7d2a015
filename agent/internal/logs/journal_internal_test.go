package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/wire"
)

// programs puts shell scripts on the PATH, in front of nothing but the system's own folder.
func programs(t *testing.T, scripts map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder)
	return folder
}

// journalScript plays journalctl: it says what it was asked, and prints a file.
const journalScript = `cd "$(dirname "$0")"
echo "$*" >> calls
env >> environ
case "$*" in
*--lines=1*) head -n 1 entries; cat complaint 2>/dev/null >&2; exit 0;;
esac
cat entries
case "$*" in
*--follow*) sleep 1000 & echo $! > child; wait;;
esac`

func playJournal(t *testing.T, entries string) (folder string) {
	folder = programs(t, map[string]string{"journalctl": journalScript})
	put(t, filepath.Join(folder, "entries"), entries)
	return folder
}

func journalEntry(micros int64, message, more string) string {
	raw, _ := json.Marshal(message)
	return fmt.Sprintf(`{"__CURSOR":"s=%d","__REALTIME_TIMESTAMP":"%d","MESSAGE":%s%s}`+"\n", micros, micros, raw, more)
}

func TestJournal(t *testing.T) {
	h := newHost(t)
	folder := playJournal(t, journalEntry(1e6, "one", `,"PRIORITY":"4","SYSLOG_IDENTIFIER":"sshd","_PID":"12","_SYSTEMD_UNIT":"ssh.service"`)+
		"-- No entries --\n"+journalEntry(2e6, "password="+known+" and "+token, "")+journalEntry(3e6, `{"level":"error"}`, `,"PRIORITY":"6"`)+
		`{"__REALTIME_TIMESTAMP":"4000000","MESSAGE":[104,105,0,255],"PRIORITY":["3","4"]}`+"\n"+
		`{"__REALTIME_TIMESTAMP":"5000000","MESSAGE":null}`+"\n"+`{"MESSAGE":"no time"}`+"\n")
	t.Setenv("MUSTER_TOKEN", token)
	lines, err := all(t, h, Ask{Source: wire.LogBoot})
	if got := messages(lines); err != nil || got != `one|password=***|{"level":"error"}|hi`+"\uFFFD\uFFFD|" {
		t.Fatalf("%q, %v", got, err)
	}
	first := lines[0]
	if first.Level != "warn" || first.Fields["identifier"] != "sshd" || first.Fields["pid"] != "12" || first.Fields["unit"] != "ssh.service" ||
		!first.Time.Equal(time.Unix(1, 0)) || first.Source != wire.LogBoot || lines[2].Level != "error" || lines[3].Level != "error" {
		t.Errorf("%+v", lines)
	}
	calls, _ := os.ReadFile(filepath.Join(folder, "calls"))
	want := "--no-pager --output=json --lines=1\n--no-pager --quiet --all --output=json --boot\n"
	if string(calls) != want {
		t.Errorf("asked %s", calls)
	}
	environ, _ := os.ReadFile(filepath.Join(folder, "environ"))
	if bytes.Contains(environ, []byte("MUSTER_")) || !bytes.Contains(environ, []byte("LC_ALL=C")) {
		t.Errorf("%s", environ)
	}
}

func TestJournalArgs(t *testing.T) {
	since := time.Unix(1000, 5e8)
	for _, test := range []struct {
		ask  Ask
		want string
	}{
		{Ask{Source: wire.LogBoot, Since: since}, "--since=@1000 --boot"},
		{Ask{Source: wire.LogBoot, Since: since, After: "journal:s=1", Follow: true}, "--after-cursor=s=1 --follow --no-tail"},
		{Ask{Source: "unit:ssh", Since: since, Follow: true}, "--since=@1000 --follow --no-tail"},
		{Ask{Source: "unit:ssh", After: "journal:"}, ""},
		{Ask{Source: "unit:ssh", After: "file:1:2:3:4"}, ""},
	} {
		got := strings.Join(journalArgs(test.ask, nil), " ")
		if want := strings.TrimSpace("--no-pager --quiet --all --output=json " + test.want); got != want {
			t.Errorf("%+v: %s", test.ask, got)
		}
	}
}

// TestJournalEnds: a reader that is closed leaves no process behind, and a journal that ends by itself says so.
func TestJournalEnds(t *testing.T) {
	h := newHost(t)
	folder := playJournal(t, journalEntry(1e6, "one", "")+journalEntry(2e6, "two", ""))
	r := open(t, h, Ask{Source: "unit:ssh", Since: time.UnixMicro(15e5), Follow: true})
	if got := next(t, r); got.Message != "two" || r.Position() != "journal:s=2000000" {
		t.Errorf("%+v, %s", got, r.Position())
	}
	pid := 0
	for pid == 0 {
		raw, _ := os.ReadFile(filepath.Join(folder, "child"))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
	}
	r.Close()
	for deadline := time.Now().Add(time.Minute); alive(pid); {
		if time.Now().After(deadline) {
			t.Fatal("what journalctl has started is still there")
		}
	}
	programs(t, map[string]string{"journalctl": "true"})
	if _, err := all(t, h, Ask{Source: wire.LogBoot, Follow: true}); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Error(err)
	}
}

// alive tells whether a process runs; one that has ended and that nobody has collected does not.
func alive(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && syscall.Kill(pid, 0) == nil && !bytes.Contains(raw, []byte(") Z "))
}

func TestJournalTrouble(t *testing.T) {
	const (
		noFiles  = "echo 'No journal files were found.' >&2"
		noneOpen = "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1"
		hint     = "echo 'Hint: You are currently not seeing messages from other users and the system.' >&2"
	)
	for name, test := range map[string]struct{ journalctl, systemctl, source, code, says string }{
		"no journalctl":             {"", "", "unit:ssh", wire.CodeNotFound, "read the source agent"},
		"no journal":                {noFiles, "", wire.LogBoot, wire.CodeNotFound, "systemd-journald"},
		"may not":                   {noneOpen, "", wire.LogBoot, wire.CodeForbidden, "systemd-journal USER"},
		"may see little":            {hint, "", "unit:ssh", wire.CodeForbidden, "usermod"},
		"unknown unit":              {"true", "echo LoadState=not-found", "unit:ssh", wire.CodeNotFound, "list-units"},
		"unit that says nothing":    {"true", "echo LoadState=loaded", "unit:ssh", "", ""},
		"systemd that says nothing": {"true", "exit 1", "unit:ssh", "", ""},
		"broken":                    {"echo 'it is broken: " + token + "' >&2; exit 4", "", wire.LogBoot, "", "it is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			scripts := map[string]string{}
			if test.journalctl != "" {
				scripts["journalctl"] = test.journalctl
			}
			if test.systemctl != "" {
				scripts["systemctl"] = test.systemctl
			}
			programs(t, scripts)
			h := newHost(t)
			h.User = true
			_, err := all(t, h, Ask{Source: test.source})
			var said *wire.ErrorDetail
			if errors.As(err, &said) != (test.code != "") || said != nil && said.Code != test.code {
				t.Errorf("%v", err)
			}
			text := fmt.Sprint(err)
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(text, test.says) || strings.Contains(text, token) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestJournalFails: journalctl fails while it is read.
func TestJournalFails(t *testing.T) {
	programs(t, map[string]string{"journalctl": `case "$*" in *--lines=1*) exit 0;; esac
echo '{"__REALTIME_TIMESTAMP":"1","MESSAGE":"one"}'; echo "no more: ` + token + `" >&2; exit 3`})
	lines, err := all(t, newHost(t), Ask{Source: wire.LogBoot})
	if len(lines) != 1 || err == nil || !strings.Contains(err.Error(), "no more: mse_abcdefgh_***") {
		t.Errorf("%v, %v", lines, err)
	}
}

func TestLongJournalMessages(t *testing.T) {
	long := strings.Repeat("x\"é ", 400_000)
	numbers := strings.Repeat("104,105,32,", 600_000)
	playJournal(t, journalEntry(1e6, long, `,"PRIORITY":"3"`)+journalEntry(2e6, "between", "")+
		`{"__REALTIME_TIMESTAMP":"3000000","MESSAGE":[`+numbers+"0]}\n"+journalEntry(4e6, long[:90_000], "")+
		`{"FILLER":"`+long[:1]+strings.Repeat("y", 2<<20)+`","__REALTIME_TIMESTAMP":"5000000","MESSAGE":"lost"}`+"\n")
	lines, err := all(t, newHost(t), Ask{Source: wire.LogBoot})
	if err != nil || len(lines) != 4 || lines[1].Message != "between" {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for i, want := range map[int]string{0: `x"é x"é `, 2: "hi hi ", 3: `x"é `} {
		l := lines[i]
		if !strings.HasPrefix(l.Message, want) || len(l.Message) > wire.MaxLogLine || len(l.Message) < wire.MaxLogLine/2 || l.Cut == 0 {
			t.Errorf("%d: %.20q... is %d bytes, %d cut", i, l.Message, len(l.Message), l.Cut)
		}
	}
}

// FuzzJournal: whatever journalctl prints, also where it is cut off, a line of it makes an entry or none.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(journalEntry(1e6, "one\n\x00", `,"PRIORITY":"4"`)), 0)
	f.Add([]byte(`{"__REALTIME_TIMESTAMP":"3","MESSAGE":[104,105,`), 7)
	f.Add([]byte(`{"__REALTIME_TIMESTAMP":"3","MESSAGE":"abc\ud83d\ude`), 7)
	f.Add([]byte(`{"MESSAGE":[["a"],[1,2]],"PRIORITY":[[1]],"__REALTIME_TIMESTAMP":["5","6"]}`), 0)
	f.Fuzz(func(t *testing.T, raw []byte, left int) {
		e, ok := parseJournal(raw, max(left, 0))
		if !ok {
			return
		}
		if e.at.Before(time.Unix(0, 0)) || len(e.text) > len(raw)+1 && left <= 0 {
			t.Errorf("%q is %+v", raw, e)
		}
		newReader().line(e)
	})
}
