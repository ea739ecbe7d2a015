package logfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const token = "mse_abcdefgh_0123456789abcdefghijklmnopqrstuv"

func TestLogFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.log")
	now := time.Now()
	file := New(path)
	file.now = func() time.Time { return now }
	log := NewLogger(slog.LevelInfo, io.Discard, file)
	for range 5 {
		for range 40 {
			log.Info(strings.Repeat("x", 32<<10))
		}
	}
	log.Debug("too fine")
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Size() > maxLog || info.Size() == 0 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", entry.Name(), info)
		}
	}
	if len(entries) != 2 || file.Trouble() != nil || entries[1].Name() != filepath.Base(Older(path)) {
		t.Errorf("%d files, %v", len(entries), file.Trouble())
	}
	broken := New(filepath.Join(path, "below-a-file"))
	broken.now = file.now
	if n, err := broken.Write([]byte("line")); n != 4 || err != nil || broken.Trouble() == nil {
		t.Errorf("%d, %v, %v", n, err, broken.Trouble())
	}
	broken.Flush() // there is nothing to sync
	broken.path = path
	if broken.Write([]byte("line")); broken.Trouble() == nil {
		t.Error("tried again at once")
	}
	now = now.Add(reopenPause)
	if broken.Write([]byte("line")); broken.Trouble() != nil {
		t.Error(broken.Trouble())
	}
}

// written logs with do, and gives what stands in the file and on stderr.
func written(t *testing.T, do func(*slog.Logger, *File)) (lines, stderr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.log")
	var screen bytes.Buffer
	file := New(path)
	do(NewLogger(slog.LevelDebug, &screen, file), file)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), screen.String()
}

// TestKeys: the keys of a line and the forms of their values are a promise to whoever reads the file.
func TestKeys(t *testing.T) {
	lines, stderr := written(t, func(log *slog.Logger, _ *File) {
		log = log.With("node", "n-1").WithGroup("work")
		log.Warn("it is \"so\"", "error", errors.New("no room"), "took", 1500*time.Millisecond, "count", 3, "list", []string{"a", "b"},
			"time", time.Unix(0, 0).UTC(), "level", "high")
	})
	at, rest, _ := strings.Cut(lines, `",`)
	at = strings.TrimPrefix(at, `{"time":"`)
	moment, err := time.Parse("2006-01-02T15:04:05.000Z", at)
	if err != nil || time.Since(moment).Abs() > time.Hour {
		t.Errorf("the time is %q", at)
	}
	want := `"level":"warn","msg":"it is \"so\"","node":"n-1","work":{"error":"no room","took":"1.5s","count":3,"list":["a","b"],` +
		`"time":"1970-01-01T00:00:00Z","level":"high"}}` + "\n"
	if rest != want {
		t.Errorf("got  %swant %s", rest, want)
	}
	if !strings.Contains(stderr, `level=WARN msg="it is \"so\"" node=n-1 work.error="no room" work.took=1.5s work.count=3`) {
		t.Errorf("stderr got %s", stderr)
	}
}

func TestLevels(t *testing.T) {
	lines, _ := written(t, func(log *slog.Logger, _ *File) {
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelDebug + 2, slog.LevelInfo, slog.LevelWarn + 1, slog.LevelError, 99} {
			log.Log(t.Context(), level, "x")
		}
	})
	var got []string
	for line := range strings.Lines(lines) {
		l, err := Parse([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l.Level)
	}
	if want := []string{"debug", "debug", "info", "warn", "error", "error"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

type named struct{ Token, Name string }

// TestNoSecrets: a secret gets into neither, whatever it comes as.
func TestNoSecrets(t *testing.T) {
	const known = "correct horse battery"
	for name, value := range map[string]any{
		"text": "it is " + token + " here", "error": fmt.Errorf("no: %w", errors.New(token)), "list": []string{"a", token},
		"token": "whatever it is", "struct": named{Token: "plain words"}, "stringer": time.UTC, "pointer": &named{Name: token},
		"known": known, "long": strings.Repeat("x", 20_000) + " " + known, "bytes": []byte(token), "map": map[string]string{"password": "plain"},
	} {
		lines, stderr := written(t, func(log *slog.Logger, file *File) {
			file.Hide(known)
			log.Info("with "+token+" and "+known, name, value)
			log.With(name, value).WithGroup("g").Info("", slog.Group("inner", name, value))
		})
		for _, text := range []string{lines, stderr} {
			for _, secret := range []string{token, known, "whatever", "plain"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s: %.300s", name, text)
				}
			}
		}
		for line := range strings.Lines(lines) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: no JSON: %s", name, line)
			}
		}
	}
	lines, _ := written(t, func(log *slog.Logger, file *File) {
		file.Hide(known)
		file.Hide("another one")
		log.Info(known, "f", func() {})
	})
	if !strings.Contains(lines, known) || !strings.Contains(lines, `"f":"(a value that cannot be written: func())"`) {
		t.Errorf("what is no secret any more, and what is no value: %s", lines)
	}
}

// TestSynced: warnings and errors go to the disk soon, other lines do not, and a flood costs one sync at a time.
func TestSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var syncs atomic.Int32
		gate := make(chan bool)
		file := New(filepath.Join(t.TempDir(), "agent.log"))
		file.sync = func(*os.File) error { syncs.Add(1); <-gate; return errors.New("the disk says no") }
		log := NewLogger(slog.LevelInfo, io.Discard, file)
		expect := func(what string, want int32) {
			t.Helper()
			if synctest.Wait(); syncs.Load() != want {
				t.Errorf("%s: %d syncs, want %d", what, syncs.Load(), want)
			}
		}
		log.Info("one")
		expect("a line", 0)
		log.Warn("two")
		expect("a warning", 1)
		for range 100 {
			log.Error("three")
		}
		expect("a flood", 1)
		gate <- true
		expect("the flood, once more", 2)
		gate <- true
		expect("all is synced", 2)
		log.Error("four")
		expect("an error", 3)
		go file.Flush()
		expect("the end", 4)
		gate <- true
		gate <- true
		expect("all is synced again", 4)
	})
}

func TestParse(t *testing.T) {
	at := time.Date(2026, 11, 22, 15, 0, 0, 5e6, time.UTC)
	for _, test := range []struct {
		raw  string
		want Line
	}{
		{`{"time":"2026-11-22T15:00:00.005Z","level":"warn","msg":"a","n":3,"o":{"p":1},"q":"r"}`,
			Line{at, "warn", "a", []Field{{"n", "3"}, {"o", `{"p":1}`}, {"q", "r"}}}},
		{`{"time":"2026-11-22T15:00:00.005Z","msg":"a","time":"b"}`, Line{at, "", "a", []Field{{"time", "b"}}}},
	} {
		if got, err := Parse([]byte(test.raw + "\n")); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, %v", test.raw, got, err)
		}
	}
	for _, raw := range []string{"", "panic: no", "{", `{"a":1}`, `{"time":"now"}`, `{"time":}`, `[1]`, `{"time":"2026-11-22T15:00:00Z"`,
		"time=2026-11-22T16:00:00Z level=WARN msg=a", `{1:2}`, `["time","2026-11-22T15:00:00Z"]`} {
		if got, err := Parse([]byte(raw)); err == nil {
			t.Errorf("%q is %v", raw, got)
		}
		if got := Plain([]byte(raw)); got != raw {
			t.Errorf("%q is shown as %q", raw, got)
		}
	}
	want := `time=2026-11-22T15:00:00.005Z level=WARN msg="a b" n=3 e="" u="\x00"`
	if got := Plain([]byte(`{"time":"2026-11-22T15:00:00.005Z","level":"warn","msg":"a b","n":3,"e":"","u":"\u0000"}`)); got != want {
		t.Errorf("got %s", got)
	}
}

// FuzzParse: whatever stands in the file, a line of it is shown as one line with its message.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"time":"2026-11-22T15:00:00.005Z","level":"warn","msg":"a","n":3}`))
	f.Add([]byte(`["time","2026-11-22T15:00:00.005Z"]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		line, err := Parse(raw)
		if err != nil {
			return
		}
		if shown := Plain(raw); !strings.Contains(shown, " msg="+quoted(line.Message)) {
			t.Errorf("%q is %+v, and shown as %q", raw, line, shown)
		}
	})
}
