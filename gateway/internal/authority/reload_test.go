package authority_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/authority"
)

// desk is a file that a test changes, under a clock that it sets.
type desk struct {
	t     *testing.T
	file  string
	now   time.Time
	reads int
	log   bytes.Buffer
}

// read takes every text but "bad".
func (d *desk) read() (string, error) {
	d.reads++
	text, err := os.ReadFile(d.file)
	if string(text) == "bad" {
		err = errors.New("it is bad")
	}
	return string(text), err
}

func (d *desk) put(text string) {
	d.t.Helper()
	err := os.WriteFile(d.file+".new", []byte(text), 0o600)
	if err = errors.Join(err, os.Rename(d.file+".new", d.file)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) open() (*authority.FollowedFiles[string], error) {
	return authority.OpenFollowed(authority.Followed[string]{
		What: "word", Names: []string{d.file, ""}, Read: d.read, Note: func(word string) []any { return []any{"length", len(word)} },
		Now: func() time.Time { return d.now }, Logger: slog.New(slog.NewTextHandler(&d.log, nil)),
	})
}

func TestFollow(t *testing.T) {
	d := &desk{t: t, file: filepath.Join(t.TempDir(), "word"), now: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)}
	if _, err := d.open(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	d.put("one")
	f, err := d.open()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name, put string
		passes    time.Duration
		want      string
		reads     int // all of them so far, the one that failed at the start among them
		logged    string
	}{
		{"nothing new", "", time.Hour, "one", 2, ""},
		{"a change, too early", "two", 999 * time.Millisecond, "one", 2, ""},
		{"a change", "", time.Millisecond, "two", 3, "msg=\"word reloaded\" file=" + d.file + " length=3"},
		{"a bad one", "bad", time.Second, "two", 4, "the new word cannot be used; the last good one stays in use\" error=\"it is bad\""},
		{"the same, not said again", "", time.Second, "two", 5, ""},
		{"mended", "three", time.Second, "three", 6, "length=5"},
		{"a clock that was set back", "four", -time.Hour, "four", 7, "length=4"},
	} {
		d.log.Reset()
		if step.put != "" {
			d.put(step.put)
		}
		d.now = d.now.Add(step.passes)
		if got := f.Current(); got != step.want || d.reads != step.reads {
			t.Errorf("%s: got %s after %d reads, want %s after %d", step.name, got, d.reads, step.want, step.reads)
		}
		if got := d.log.String(); !strings.Contains(got, step.logged) || step.logged == "" && got != "" {
			t.Errorf("%s: the log says %q, want %q", step.name, got, step.logged)
		}
	}
}
