package task_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/task"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// TestArchive: the file of a task gets to the gateway whole and before the result, also if the gateway is away for a while and where the
// agent is started anew meanwhile.
func TestArchive(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcde\n"), 3*wire.MaxTaskPiece/32+7)
	sum := sha256.Sum256(content)
	for _, restarts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			d.handle = func(_ context.Context, job task.Job) task.Outcome {
				if err := os.WriteFile(filepath.Join(job.Dir, "diag.tar.gz"), content, 0o600); err != nil {
					t.Error(err)
				}
				return task.Outcome{Archive: "diag.tar.gz"}
			}
			id := d.diag()
			tries := 0
			d.refuse = func(step, _ string) *gatewaytest.Reply {
				if step != "output" {
					return nil
				}
				if tries++; tries == 2 {
					return gatewaytest.Refusal(503, wire.CodeUnavailable)
				}
				return nil
			}
			if restarts {
				d.run(100 * time.Millisecond)
			}
			d.run(time.Minute)
			var got []byte
			for _, piece := range d.output[id] {
				if piece.File == wire.TaskArchive {
					got = append(got[:piece.Offset], piece.Data...)
				}
			}
			r := d.result(id)
			if !bytes.Equal(got, content) || r.Archive == nil || *r.Archive != (wire.TaskFile{Name: "diag.tar.gz", Size: int64(len(content)),
				SHA256: hex.EncodeToString(sum[:])}) || r.Status != wire.TaskCompleted || d.begun() != 1 {
				t.Errorf("restarts %t: %d of %d bytes, %+v", restarts, len(got), len(content), r)
			}
			if _, err := os.Stat(d.jobs[0].Dir); err == nil {
				t.Error("the folder stays")
			}
		})
	}
}

// TestArchiveThatCannotBeSent: a handler names something else than a file of its own folder.
func TestArchiveThatCannotBeSent(t *testing.T) {
	for name, c := range map[string]struct {
		archive string
		make    func(path string) error
		says    string
	}{
		"nothing":       {"diag", func(string) error { return nil }, "no such file"},
		"a path":        {"../diag", func(string) error { return nil }, "is not the name of a file"},
		"the folder":    {".", func(string) error { return nil }, "is not the name of a file"},
		"the one above": {"..", func(string) error { return nil }, "is not the name of a file"},
		"a link":        {"diag", func(path string) error { return os.Symlink("/etc/passwd", path) }, "cannot be sent"},
		"a pipe":        {"diag", func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is not a file"},
		"a folder":      {"diag", func(path string) error { return os.Mkdir(path, 0o700) }, "is not a file"},
		"too much": {"diag", func(path string) error {
			return os.WriteFile(path, make([]byte, wire.MaxTaskArchive+1), 0o600)
		}, "can be sent"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			d.handle = func(_ context.Context, job task.Job) task.Outcome {
				if err := c.make(filepath.Join(job.Dir, "diag")); err != nil {
					t.Error(err)
				}
				return task.Outcome{Archive: c.archive}
			}
			id := d.diag()
			d.run(time.Minute)
			r := d.result(id)
			if r.Status != wire.TaskFailed || r.Archive != nil || !strings.Contains(r.Error, c.says) || len(d.output[id]) != 0 {
				t.Errorf("%s: %+v, %d pieces", name, r, len(d.output[id]))
			}
		})
	}
}

// TestStream: what a task writes is read while it runs, in order and without a gap; a silent task says that it is at work.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		began := time.Now()
		var seen []time.Duration
		d.handle = func(_ context.Context, job task.Job) task.Outcome {
			for range 100 {
				job.Output.Write([]byte("0123456789"))
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(20 * time.Second)
			return task.Outcome{}
		}
		d.refuse = func(step, _ string) *gatewaytest.Reply {
			if step == "output" {
				seen = append(seen, time.Since(began))
			}
			if step == "output" && len(seen) == 5 {
				return &gatewaytest.Reply{Hangup: true}
			}
			return nil
		}
		id := d.diag()
		d.run(time.Minute)
		var got []byte
		for _, piece := range d.output[id] {
			if piece.Offset != int64(len(got)) {
				t.Errorf("a piece at %d after %d bytes", piece.Offset, len(got))
			}
			got = append(got, piece.Data...)
		}
		if want := strings.Repeat("0123456789", 100); string(got) != want || string(d.result(id).Output.Head) != want {
			t.Errorf("%d bytes of output", len(got))
		}
		if len(seen) < 25 || len(seen) > 33 {
			t.Errorf("%d pieces: %v", len(seen), seen)
		}
	})
}
