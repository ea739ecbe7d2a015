package recording_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/session/recording"
)

// TestFull: a recording stays below its bound, says when it is full, and has its end.
func TestFull(t *testing.T) {
	folder := t.TempDir()
	c := config(folder)
	c.Most = recording.Least
	s := open(t, c)
	id := wire.NewSessionID()
	tape, err := s.Begin(meta(id))
	must(t, err)
	count := 0
	for err == nil {
		err = tape.Output(noon(), bytes.Repeat([]byte("\x1b"), 100))
		count++
	}
	if again := tape.Output(noon(), []byte("x")); !errors.Is(err, recording.ErrFull) || !errors.Is(again, recording.ErrFull) {
		t.Errorf("after %d pieces: %v, then %v", count, err, again)
	}
	must(t, tape.End(noon(), strings.Repeat("\x1b", 5000)))
	if n := size(t, filepath.Join(folder, id+".cast")); n > c.Most || n < c.Most/2 {
		t.Errorf("the file has %d bytes of %d", n, c.Most)
	}
	if got, p := played(t, s, id); p.State != api.RecordingComplete || len(got) != 100*(count-1) {
		t.Errorf("%s, %d bytes after %d pieces", p.State, len(got), count)
	}
}

// TestFullDisk: the session is told, what was written before is read, and no half part stays in the file.
func TestFullDisk(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mount("none", folder, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("needs root: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(folder, syscall.MNT_DETACH)) })
	s := open(t, config(folder))
	id := wire.NewSessionID()
	tape, err := s.Begin(meta(id))
	must(t, err)
	shown := 0
	for err == nil {
		err = tape.Output(noon(), bytes.Repeat([]byte("x"), 1000))
		shown += 1000
	}
	if !errors.Is(err, recording.ErrUnwritten) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	ballast := filepath.Join(folder, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if _, err := s.Begin(meta(wire.NewSessionID())); !errors.Is(err, recording.ErrUnwritten) {
		t.Errorf("a new one on a full disk: %v", err)
	}
	must(t, os.Remove(ballast))
	if err := tape.End(noon(), ""); !errors.Is(err, recording.ErrUnwritten) {
		t.Errorf("its end: %v", err)
	}
	got, p := played(t, s, id)
	if p.State != api.RecordingCutOff || len(got) == 0 || len(got) < shown-40_000 {
		t.Errorf("%s, %d bytes of %d", p.State, len(got), shown)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) != 1 {
		t.Errorf("the folder has %q", left)
	}
}

// TestFind: what is no session's id reaches no file.
func TestFind(t *testing.T) {
	s := open(t, config(t.TempDir()))
	var said *wire.ErrorDetail
	if _, err := s.Find(wire.NewSessionID()); !errors.As(err, &said) || said.Code != wire.CodeNotFound {
		t.Errorf("no recording: %v", err)
	}
	for _, id := range []string{"", "../x", "s-../../etc/passwd", "s-abc"} {
		_, err := s.Find(id)
		_, errBegin := s.Begin(meta(id))
		if err == nil || errBegin == nil {
			t.Errorf("%q: %v, %v", id, err, errBegin)
		}
	}
	id := wire.NewSessionID()
	take(t, s, id)
	if _, err := s.Begin(meta(id)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the same session twice: %v", err)
	}
}

// TestPrune: the old ones go, then the oldest while all are too large; a live one stays, and so does what is no recording.
func TestPrune(t *testing.T) {
	folder := t.TempDir()
	var told []string
	c := config(folder)
	c.Keep = 24 * time.Hour
	c.Dropped = func(_ context.Context, why string, count int, bytes int64) error {
		told = append(told, fmt.Sprintf("%s: %d, %v", why, count, bytes > 0))
		return nil
	}
	s := open(t, c)
	ids := make([]string, 5)
	for i := range ids {
		ids[i] = wire.NewSessionID()
		take(t, s, ids[i], "text")
		end := noon().Add(-time.Duration(30-10*i) * time.Hour) // 30 h, 20 h, 10 h, now, in 10 h
		must(t, os.Chtimes(filepath.Join(folder, ids[i]+".cast"), end, end))
	}
	goesOn := wire.NewSessionID()
	live, err := s.Begin(meta(goesOn))
	must(t, err)
	long := noon().Add(-100 * time.Hour) // nothing was shown since then, and it is the oldest of all
	must(t, os.Chtimes(filepath.Join(folder, goesOn+".cast"), long, long))
	must(t, os.WriteFile(filepath.Join(folder, "notes.txt"), nil, 0o600))
	names, _ := os.ReadDir(folder)
	must(t, s.Prune(t.Context(), noon(), false)) // the clock was set: nothing is old
	if left, _ := os.ReadDir(folder); len(left) != len(names) {
		t.Errorf("%d files of %d", len(left), len(names))
	}
	must(t, s.Prune(t.Context(), noon(), true))
	if _, err := s.Find(ids[0]); err == nil {
		t.Error("the old one is still there")
	}
	s.Quota = 3*size(t, filepath.Join(folder, ids[1]+".cast")) + 8<<10 // a live one has room for its end
	must(t, s.Prune(t.Context(), noon(), true))                        // the live one counts too, so two of four have to go
	for i, want := range []bool{false, false, false, true, true} {
		if _, err := os.Stat(filepath.Join(folder, ids[i]+".cast")); (err == nil) != want {
			t.Errorf("recording %d: %v", i, err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, goesOn+".cast")); err != nil {
		t.Errorf("the recording that goes on: %v", err)
	}
	must(t, live.End(noon(), ""))
	want := []string{recording.TooOld + ": 1, true", recording.TooMany + ": 2, true"}
	if strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("told %q", told)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "notes.txt")); len(left) != 1 {
		t.Error("a foreign file is gone")
	}
	must(t, os.RemoveAll(folder))
	if err := s.Prune(t.Context(), noon(), true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}

// total is what all recordings in a folder take at one moment, or less: files grow while it adds them up. If one was deleted meanwhile it
// begins again, because another may have grown into the room that the deleted one was counted for.
func total(t *testing.T, folder string) (all int64) {
	t.Helper()
	for gone := true; gone; {
		files, err := filepath.Glob(filepath.Join(folder, "*.cast"))
		must(t, err)
		all, gone = 0, false
		for _, path := range files {
			info, err := os.Stat(path)
			if err == nil {
				all += info.Size()
			}
		}
		for _, path := range files {
			_, err := os.Stat(path)
			gone = gone || err != nil
		}
	}
	return all
}

// TestQuota: the bound of all recordings is kept while they grow, at every moment. The oldest that are over make room; if none is left,
// the session that needs more ends, and its recording has its end.
func TestQuota(t *testing.T) {
	folder := t.TempDir()
	c := config(folder)
	c.Quota = 600 << 10
	told := 0
	refuse := true
	c.Dropped = func(_ context.Context, why string, count int, bytes int64) error {
		if refuse {
			return errors.New("the database takes no writes")
		}
		told += count
		return nil
	}
	before := open(t, c)
	for i := range 5 {
		id := wire.NewSessionID()
		take(t, before, id, strings.Repeat("x", 50<<10))
		end := noon().Add(time.Duration(i) * time.Minute)
		must(t, os.Chtimes(filepath.Join(folder, id+".cast"), end, end))
	}
	s := open(t, c) // another start of the gateway: what is there counts
	var all sync.WaitGroup
	var ended atomic.Int64
	tapes := make([]*recording.Tape, 8)
	for i := range tapes {
		tape, err := s.Begin(meta(wire.NewSessionID()))
		must(t, err)
		tapes[i] = tape
	}
	for _, tape := range tapes {
		all.Go(func() {
			var err error
			for n := 0; err == nil && n < 2<<20; n += 1000 {
				err = tape.Output(noon(), bytes.Repeat([]byte("y"), 1000))
				if got := total(t, folder); got > c.Quota {
					t.Errorf("the recordings take %d bytes", got)
					return
				}
			}
			if errors.Is(err, recording.ErrNoRoom) {
				ended.Add(1)
			}
			if err := tape.End(noon(), "no room"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := total(t, folder); got > c.Quota || got < c.Quota/2 || ended.Load() == 0 {
		t.Errorf("%d bytes at the end, %d sessions had no room", got, ended.Load())
	}
	if err := s.Prune(t.Context(), noon(), true); err == nil || told != 0 {
		t.Errorf("told of %d, %v", told, err)
	}
	refuse = false
	must(t, s.Prune(t.Context(), noon(), true))
	if told < 5 {
		t.Errorf("told of %d", told)
	}
	played, err := filepath.Glob(filepath.Join(folder, "*.cast"))
	must(t, err)
	for _, path := range played {
		p, err := s.Find(strings.TrimSuffix(filepath.Base(path), ".cast"))
		must(t, err)
		if p.State != api.RecordingComplete {
			t.Errorf("%s is %s", path, p.State)
		}
		must(t, p.Close())
	}
}

// TestNoRoom: where recordings that go on have all the room, none begins, and nothing of it stays.
func TestNoRoom(t *testing.T) {
	folder := t.TempDir()
	c := config(folder)
	c.Quota = 20 << 10
	s := open(t, c)
	first, err := s.Begin(meta(wire.NewSessionID()))
	must(t, err)
	must(t, first.Output(noon(), []byte("text")))
	second, err := s.Begin(meta(wire.NewSessionID()))
	must(t, err)
	if _, err := s.Begin(meta(wire.NewSessionID())); !errors.Is(err, recording.ErrNoRoom) {
		t.Errorf("the third: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) != 2 {
		t.Errorf("the folder has %q", left)
	}
	must(t, second.End(noon(), ""))
	third, err := s.Begin(meta(wire.NewSessionID()))
	must(t, err)
	must(t, errors.Join(third.End(noon(), ""), first.End(noon(), "")))
	must(t, os.RemoveAll(folder))
	if err := s.Prune(t.Context(), noon(), true); err == nil {
		t.Error("without a folder nothing is counted")
	}
}

// TestRun looks by itself, and goes on after an error.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		c := config(folder)
		c.Keep = time.Hour
		s := open(t, c)
		id := wire.NewSessionID()
		take(t, s, id, "text")
		end := time.Now().Add(-30 * time.Minute)
		must(t, os.Chtimes(filepath.Join(folder, id+".cast"), end, end))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(25 * time.Minute)
		synctest.Wait()
		if p, err := s.Find(id); err != nil {
			t.Error(err)
		} else {
			must(t, p.Close())
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if _, err := s.Find(id); err == nil {
			t.Error("it is still there")
		}
		cancel()
		must(t, <-done)
	})
}
