package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/host"
	"muster/agent/internal/process"
	"muster/agent/internal/workload"
	"muster/agent/wire"
)

// podmanScript plays podman, with one container.
const podmanScript = `cd "$(dirname "$0")"
case "$1" in
--version) echo "podman version 4.3.1";;
ps) case "$*" in *muster.task=none*) ;; *) echo c0ffee;; esac;;
container) cat inspect;;
logs) echo "$*" >> calls; cat out; cat err >&2; exit $(cat code);;
esac`

const inspect = `[{"Id":"c0ffee","Name":"/muster-web","Config":{"Labels":{"muster.task":"t","muster.workload":"web",
"muster.secret_env":"SECRET"},"Env":["SECRET=seven dwarfs"]},"State":{"Status":"running"}}]`

func containers(t *testing.T, out, complaint string, code int) (Host, string) {
	folder := programs(t, map[string]string{"podman": podmanScript})
	for name, text := range map[string]string{"inspect": inspect, "out": out, "err": complaint, "code": fmt.Sprint(code)} {
		put(t, filepath.Join(folder, name), text)
	}
	h := newHost(t)
	h.Workloads = workload.Host{State: h.State}
	return h, folder
}

const outLines = `2026-11-22T15:00:00.100000000Z one
2026-11-22T16:00:00.100000000+01:00 one too
2026-11-22T15:00:00.300000000Z {"level":"warn","msg":"two"}
2026-11-22T15:00:01.000000000Z it is seven dwarfs, ` + known + " and " + token + `
2026-11-22T15:00:02Z
`

func TestWorkload(t *testing.T) {
	h, folder := containers(t, outLines, "", 0)
	ask := Ask{Source: "workload:web", Since: time.Date(2026, 11, 22, 15, 0, 0, 1e8, time.UTC)}
	lines, err := all(t, h, ask)
	want := `one|one too|{"level":"warn","msg":"two"}|it is ***, *** and mse_abcdefgh_***|`
	if got := messages(lines); err != nil || got != want {
		t.Fatalf("%q, %v", got, err)
	}
	if lines[2].Level != "warn" || lines[0].Time.Nanosecond() != 1e8 || !lines[1].Time.Equal(lines[0].Time) ||
		lines[0].Source != "workload:web" {
		t.Errorf("%+v", lines)
	}
	calls, _ := os.ReadFile(filepath.Join(folder, "calls"))
	if string(calls) != "logs --timestamps --since=2026-11-22T15:00:00Z c0ffee\n" {
		t.Errorf("%s", calls)
	}
	r := open(t, h, ask)
	for i := range lines { // go on behind each line, also between two of one time
		next(t, r)
		rest, err := all(t, h, Ask{Source: "workload:web", After: r.place})
		if got := messages(rest); err != nil || got != messages(lines[i+1:]) {
			t.Errorf("behind %d: %q, %v", i, got, err)
		}
	}
	if _, err := h.Open(t.Context(), Ask{Source: "workload:web", Follow: true}); err != nil {
		t.Error(err)
	}
}

// TestWorkloadFollowsJournal: podman would end the log of a container that runs, if it were asked for a part of the journal.
func TestWorkloadFollowsJournal(t *testing.T) {
	for driver, want := range map[string]string{
		"journald": "logs --timestamps --follow c0ffee\n",
		"k8s-file": "logs --timestamps --since=2026-11-22T15:00:02Z --follow c0ffee\n",
	} {
		h, folder := containers(t, outLines, "", 0)
		put(t, filepath.Join(folder, "inspect"), strings.Replace(inspect, `"State"`, `"HostConfig":{"LogConfig":{"Type":"`+driver+`"}},"State"`, 1))
		lines, err := all(t, h, Ask{Source: "workload:web", Since: time.Date(2026, 11, 22, 15, 0, 2, 0, time.UTC), Follow: true})
		if calls, _ := os.ReadFile(filepath.Join(folder, "calls")); len(lines) != 1 || err != nil || string(calls) != want {
			t.Errorf("%s: %v, %v, asked for %q", driver, lines, err, calls)
		}
	}
}

func TestWorkloadFails(t *testing.T) {
	h, _ := containers(t, outLines, "Error: no such container: "+token+"\n", 125)
	lines, err := all(t, h, Ask{Source: "workload:web"})
	if len(lines) != 6 || err == nil || !strings.Contains(err.Error(), "no such container: mse_abcdefgh_***") {
		t.Errorf("%v, %v", lines, err)
	}
	if l := lines[5]; !l.Time.Equal(lines[4].Time) || strings.Contains(l.Message, token) {
		t.Errorf("%+v", l)
	}
	_, err = h.Open(t.Context(), Ask{Source: "workload:other"})
	var said *wire.ErrorDetail
	if !errors.As(err, &said) || said.Code != wire.CodeNotFound || !strings.Contains(err.Error(), "it has web") {
		t.Error(err)
	}
}

func TestKeyOverSeveralLines(t *testing.T) {
	key := "-----BEGIN EC PRIVATE KEY-----\n" + keyLine + "\n" + keyEnd + "\n-----END EC PRIVATE KEY-----"
	stamp := "2026-11-22T15:00:00.1Z "
	out := stamp + "before\n" + stamp + strings.ReplaceAll(key, "\n", "\n"+stamp) + "\n" + stamp + "after\n" + stamp + keyLine + "\n"
	h, _ := containers(t, out, "", 0)
	lines, err := all(t, h, Ask{Source: "workload:web"})
	got := messages(lines)
	if err != nil || strings.Contains(got, keyLine) || strings.Contains(got, keyEnd) || !strings.HasPrefix(got, "before|") ||
		!strings.Contains(got, "|after|***") {
		t.Errorf("%q, %v", got, err)
	}
}

// FuzzContainer: any line of an engine makes one line, and loses nothing of what stood behind the time.
func FuzzContainer(f *testing.F) {
	f.Add("2026-11-22T15:00:00.1Z one")
	f.Add("2026-11-22T15:00:00.1+25:00 one")
	f.Add("Error: no")
	f.Fuzz(func(t *testing.T, text string) {
		at, rest, ok := containerLine(text)
		if !strings.HasSuffix(text, rest) || !ok && rest != text || ok == at.IsZero() && at.Year() != 1 {
			t.Errorf("%q is %v, %q, %v", text, at, rest, ok)
		}
		w := container{}
		w.resume(text)
		given := 0
		_ = w.line(one{text: []byte(text)}, func(e entry) error { given++; return nil })
		if !ok && given != 1 {
			t.Errorf("%q was not given", text)
		}
	})
}

// FuzzFilePlace: a place that was written is read again, and no other text makes a file's offset negative.
func FuzzFilePlace(f *testing.F) {
	f.Add("file:1:2:3:4")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := parseFilePlace(text)
		if !ok {
			return
		}
		again, ok := parseFilePlace(p.String())
		if p.behind < 0 || !ok || again.behind != p.behind || !again.at.Equal(p.at) || again.sum != p.sum {
			t.Errorf("%q is %+v, then %+v", text, p, again)
		}
	})
}

// TestRunLog: what a program without a container has written is followed until the program ends, with a word about what is not kept. It
// goes on behind a place, also when the file was replaced by the next one meanwhile.
func TestRunLog(t *testing.T) {
	h := newHost(t)
	h.Workloads = workload.Host{State: h.State, Runs: process.Host{State: h.State, Now: func() time.Time { return time.Unix(1000, 0) }}}
	folder := filepath.Join(h.State, process.Folder, "train")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1000, 0)
	raw, err := json.Marshal(struct {
		wire.Run
		Boot string `json:"boot_id"`
	}{wire.Run{Name: "train", Task: "t", StartedAt: &at}, host.BootID()})
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(folder, "run.json"), string(raw))
	put(t, filepath.Join(folder, "output.log"), line(1, "one"))
	put(t, filepath.Join(folder, "cut"), "7")
	r := open(t, h, Ask{Source: wire.LogWorkload + "train", Follow: true})
	if l := next(t, r); l.Dropped != 7 {
		t.Errorf("what is not kept: %+v", l)
	}
	if l := next(t, r); l.Message != "one" || l.Source != wire.LogWorkload+"train" {
		t.Errorf("%+v", l)
	}
	place := r.place
	if err := os.Rename(filepath.Join(folder, "output.log"), filepath.Join(folder, "output.log.1")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(folder, "output.log"), line(2, "two"))
	if l := next(t, r); l.Message != "two" {
		t.Errorf("%+v", l)
	}
	add(t, filepath.Join(folder, "output.log"), line(3, "last"))
	put(t, filepath.Join(folder, "exit.json"), `{"code":0,"at":"2026-11-22T15:00:04Z"}`)
	if l := next(t, r); l.Message != "last" {
		t.Errorf("%+v", l)
	}
	if l, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the end: %+v, %v", l, err)
	}
	rest, err := all(t, h, Ask{Source: wire.LogWorkload + "train", After: place, Follow: true})
	if err != nil || messages(rest) != "two|last" {
		t.Errorf("behind a place: %s, %v", messages(rest), err)
	}
}
