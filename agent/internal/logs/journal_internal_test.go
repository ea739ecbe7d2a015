package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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
	if got := next(t, r); got.Message != "two" || r.place != "journal:s=2000000" {
		t.Errorf("%+v, %s", got, r.place)
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

// TestLongJournalMessages: no line is lost, however large its fields are and in whatever order they come.
func TestLongJournalMessages(t *testing.T) {
	long := strings.Repeat("x\"é ", 400_000)
	numbers := strings.Repeat("104,105,32,", 600_000)
	filler := `"FILLER":"` + strings.Repeat(`y\"`, 1<<20) + `","MORE":[[1,2],"}"]`
	stamped := func(fields string) string { return `{` + fields + `,"__REALTIME_TIMESTAMP":"9","__CURSOR":"c"}` + "\n" }
	tests := []struct {
		line, begins string
		bytes        int // of the whole message
	}{
		{journalEntry(1e6, long, `,"PRIORITY":"3"`), `x"é x"é `, len(long)},
		{journalEntry(2e6, "between", ""), "between", len("between")},
		{stamped(`"MESSAGE":[` + numbers + "0]"), "hi hi ", 3*600_000 + 1},
		{journalEntry(4e6, long[:90_000], ""), `x"é `, 90_000},
		{stamped(filler + `,"MESSAGE":"behind"`), "behind", len("behind")},
		{stamped(`"MESSAGE":"before",` + filler), "before", len("before")},
		{stamped(`"MESSAGE":["` + strings.Repeat("a", 1<<20) + `","b"]`), "aaa", 1<<20 + 1},
		{stamped(`"MESSAGE":["first","` + strings.Repeat("a", 1<<20) + `"]`), "first", 5},
		{stamped(`"MESSAGE":[[` + numbers + `0],"b"]`), "hi hi ", 3*600_000 + 1},
		{stamped(`"MESSAGE":"` + strings.Repeat(`\ud83d\ude00`, 1<<18) + `"`), "\U0001f600", 0},
		{stamped(`"MESSAGE":[` + numbers + `0],"PRIORITY":["3","` + strings.Repeat("4", 2<<20) + `"]`), "hi hi ", 3*600_000 + 1},
		{stamped(`"PRIORITY":"` + strings.Repeat("4", 2<<20) + `","MESSAGE":"odd"`), "odd", 3},
	}
	var journal strings.Builder
	for _, test := range tests {
		journal.WriteString(test.line)
	}
	playJournal(t, journal.String())
	lines, err := all(t, newHost(t), Ask{Source: wire.LogBoot})
	if err != nil || len(lines) != len(tests) {
		t.Fatalf("%d lines of %d, %v", len(lines), len(tests), err)
	}
	for i, test := range tests {
		l := lines[i]
		if !strings.HasPrefix(l.Message, test.begins) || len(l.Message) > wire.MaxLogLine || l.Time.Unix() > 4 ||
			test.bytes > wire.MaxLogLine && (len(l.Message) < wire.MaxLogLine/2 || l.Cut == 0) {
			t.Errorf("%d: %.20q... is %d bytes, %d cut", i, l.Message, len(l.Message), l.Cut)
		}
		if whole := len(l.Message) + l.Cut; test.bytes > 0 && (whole-test.bytes > 2 || test.bytes-whole > 2) {
			t.Errorf("%d: %d bytes and %d cut, of %d", i, len(l.Message), l.Cut, test.bytes)
		}
	}
}

// TestJournalMemory: what is kept of a line does not grow with the line.
func TestJournalMemory(t *testing.T) {
	c := &journalCutter{}
	piece := []byte(strings.Repeat(`1,`, 1<<20))
	for _, field := range []string{"MESSAGE", "PRIORITY", "FILLER"} {
		_ = c.feed([]byte(`{"`+field+`":[`), nil)
		for range 4 {
			_ = c.feed(piece, nil)
		}
		if kept := cap(c.value) + cap(c.line); kept > 2*maxMessage {
			t.Errorf("%s: %d bytes are kept", field, kept)
		}
		_ = c.flush(func(one) error { return nil })
	}
	_ = c.feed(bytes.Repeat(piece, 4), nil)
	if len(c.name) > maxName {
		t.Errorf("%d bytes of a name", len(c.name))
	}
}

// FuzzJournal: whatever journalctl prints, in whatever pieces, it makes the same entries; and a whole object makes the entry that the
// standard library reads there.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(journalEntry(1e6, "one\n\x00", `,"PRIORITY":"4"`)), 3)
	f.Add([]byte(`{"__REALTIME_TIMESTAMP":"3","MESSAGE":[104,105,`), 7)
	f.Add([]byte(`{"__REALTIME_TIMESTAMP":"3","MESSAGE":"abc\ud83d\ude`), 7)
	f.Add([]byte(`{"MESSAGE":[["a"],[1,2]],"PRIORITY":[[1]],"__REALTIME_TIMESTAMP":["5","6"]}`), 1)
	f.Add([]byte("-- a note: \"\n{\"__REALTIME_TIMESTAMP\":\"3\",\"A\":{\"B\":[1,2]},\"MESSAGE\":null}\n\n"), 2)
	f.Fuzz(func(t *testing.T, raw []byte, size int) {
		whole := journalEntries(raw, len(raw)+1)
		if pieces := journalEntries(raw, max(size, 1)); !reflect.DeepEqual(pieces, whole) {
			t.Errorf("%q is %+v, and in pieces %+v", raw, whole, pieces)
		}
		for _, e := range whole {
			if e.at.Before(time.Unix(0, 0)) || len(e.text) > len(raw) {
				t.Errorf("%q is %+v", raw, e)
			}
			newReader().line(e)
		}
		if bytes.HasPrefix(raw, []byte("{")) && json.Valid(raw) && !bytes.ContainsAny(raw, "\\\n") && len(raw) < maxOther {
			plain, ok := parseJournal(one{text: raw})
			if ok != (len(whole) == 1) || ok && !reflect.DeepEqual(plain, whole[0]) {
				t.Errorf("%q is %+v, not %+v", raw, whole, plain)
			}
		}
	})
}

func journalEntries(raw []byte, size int) (found []entry) {
	c := &journalCutter{}
	give := func(l one) error {
		if e, ok := parseJournal(l); ok {
			found = append(found, e)
		}
		return nil
	}
	for piece := range slices.Chunk(raw, size) {
		_ = c.feed(piece, give)
	}
	_ = c.flush(give)
	return found
}
