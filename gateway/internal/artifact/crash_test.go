package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"muster/agent/disk"
	"muster/agent/disk/disktest"
	"muster/gateway/internal/artifact"
	"muster/store"
)

// The test binary is a gateway that kills itself before one change on disk, when these are set.
const (
	crashDir  = "MUSTER_TEST_CRASH_DIR"
	crashStep = "MUSTER_TEST_CRASH_STEP"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := crash(dir, os.Getenv(crashStep)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// steps are all changes on disk, as often as work makes them.
var steps = []string{"create", "write", "sync the blob", "rename", "sync the folder", "record", "remove"}

// work does each kind of change, and some more than once.
func work(ctx context.Context, r *artifact.Registry) error {
	if err := r.Put(ctx, "a", digestOf("one"), 3, strings.NewReader("one")); err != nil {
		return err
	}
	if err := r.Put(ctx, "b", digestOf("one"), 3, strings.NewReader("one")); err != nil {
		return err
	}
	id, err := r.Begin(ctx, "a")
	if err != nil {
		return err
	}
	if _, err := r.Append(ctx, "a", id, 0, strings.NewReader("tw")); err != nil {
		return err
	}
	if err := r.Finish(ctx, "a", id, 2, digest512("two"), strings.NewReader("o")); err != nil {
		return err
	}
	if err := r.DeleteBlob(ctx, "a", digest512("two"), by); err != nil {
		return err
	}
	return r.Sweep(ctx)
}

// crash works until the step, written as a name and how often it comes before.
func crash(dir, step string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Options{Path: filepath.Join(dir, "muster.db"), MasterKey: make([]byte, 32)})
	if err != nil {
		return err
	}
	seen := map[string]int{}
	config := artifact.Config{Folder: filepath.Join(dir, "registry"), Records: s.Records()}
	r, err := artifact.OpenSteps(ctx, config, disktest.Named(func(name string) error {
		if fmt.Sprint(name, seen[name]) == step {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		seen[name]++
		return nil
	}))
	if err != nil {
		return err
	}
	return errors.Join(work(ctx, r), s.Close())
}

// counted lists every step of work: each is a crash to try.
func counted(t *testing.T) (list []string) {
	f := newFixture(t)
	seen := map[string]int{}
	f.step = func(name string) error {
		list = append(list, fmt.Sprint(name, seen[name]))
		seen[name]++
		return nil
	}
	f.reopen()
	f.must(work(t.Context(), f.Registry))
	for _, step := range steps {
		if seen[step] == 0 {
			t.Errorf("no step %q", step)
		}
	}
	if len(seen) != len(steps) {
		t.Errorf("steps that are not in the table: %v", seen)
	}
	return list
}

// TestKill kills a gateway before each change on disk. What is left is whole, the same work can be done again, and a sweep after some
// hours leaves nothing else.
func TestKill(t *testing.T) {
	for _, step := range counted(t) {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), crashDir+"="+dir, crashStep+"="+step)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the gateway was not killed: %v\n%s", err, out)
			}
			f := openFixture(t, dir)
			f.recovers()
		})
	}
}

// recovers proves that a registry is sound, works, and can be swept clean.
func (f *fixture) recovers() {
	f.t.Helper()
	ctx := f.t.Context()
	f.sound()
	f.must(work(ctx, f.Registry))
	f.sound()
	f.same("after the work", nil, []string{f.read("a", digestOf("one")), f.read("b", digestOf("one"))}, []string{"one", "one"})
	f.must(f.DeleteBlob(ctx, "a", digestOf("one"), by))
	f.must(f.DeleteBlob(ctx, "b", digestOf("one"), by))
	f.pass(1000 * artifact.UploadLife) // the killed gateway had the true time, which is before or after the test's
	f.must(f.Sweep(ctx))
	if left := f.files(); len(left) != 0 {
		f.t.Errorf("left: %v", left)
	}
	f.uses("nothing", 0)
}

// TestFullDisk lets each change on disk fail. The caller is told what to do, what was written is removed, and all is well later.
func TestFullDisk(t *testing.T) {
	for _, step := range counted(t) {
		t.Run(step, func(t *testing.T) {
			f := newFixture(t)
			seen := map[string]int{}
			failed := false
			f.step = func(name string) error {
				seen[name]++
				failed = failed || fmt.Sprint(name, seen[name]-1) == step
				if failed && name != "remove" || failed && strings.HasPrefix(step, "remove") {
					return syscall.ENOSPC
				}
				return nil
			}
			err := work(t.Context(), f.Registry)
			if !failed || err == nil {
				t.Fatalf("failed: %v, %v", failed, err)
			}
			if !strings.HasPrefix(step, "remove") {
				f.want(step, err, artifact.CodeUnavailable)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("the cause is not in %v", err)
			}
			f.sound()
			f.step = nil
			f.leftBy(step)
			f.recovers()
		})
	}
}

// leftBy looks at the disk right after a failure: there are recorded blobs, and at most the upload that can go on.
func (f *fixture) leftBy(step string) {
	f.t.Helper()
	if strings.HasPrefix(step, "remove") {
		return // the next round removes it
	}
	recorded := []string{}
	f.must(f.Each(f.t.Context(), func(blob artifact.Info) error {
		_, name, _ := strings.Cut(blob.Digest, ":")
		recorded = append(recorded, name)
		return nil
	}))
	on := f.files("blobs")
	slices.Sort(on)
	slices.Sort(recorded)
	if !slices.Equal(on, recorded) {
		f.t.Errorf("on disk: %v, on record: %v", on, recorded)
	}
	var bytes int64
	f.must(filepath.Walk(f.config.Folder, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			bytes += info.Size()
		}
		return err
	}))
	f.uses("what is left", bytes)
}

func TestFullFolder(t *testing.T) {
	f := newFixture(t)
	for i := 0; ; i++ {
		left := i
		config := f.config
		config.Folder = filepath.Join(t.TempDir(), "registry")
		_, err := artifact.OpenSteps(t.Context(), config, func(disk.Step) error {
			left--
			if left < 0 {
				return syscall.ENOSPC
			}
			return nil
		})
		if left >= 0 {
			if err != nil || i < 10 { // five folders, each made and synced
				t.Errorf("with all of %d steps: %v", i, err)
			}
			break
		}
		f.want(fmt.Sprint("step ", i), err, artifact.CodeUnavailable)
	}
	file := filepath.Join(t.TempDir(), "file")
	f.must(os.WriteFile(file, nil, 0o600))
	config := f.config
	config.Folder = filepath.Join(file, "registry")
	if _, err := artifact.Open(t.Context(), config); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
}

// TestFullDiskThenRoom goes on with an upload whose chunk did not fit.
func TestFullDiskThenRoom(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	id, err := f.Begin(ctx, "a")
	f.must(err)
	_, err = f.Append(ctx, "a", id, 0, strings.NewReader("0123"))
	f.must(err)
	writes := 0
	f.step = func(string) error {
		writes++
		if writes == 2 {
			return syscall.EDQUOT
		}
		return nil
	}
	long := strings.Repeat("x", 300_000)
	size, err := f.Append(ctx, "a", id, 4, strings.NewReader(long))
	f.want("a chunk that does not fit", err, artifact.CodeUnavailable)
	if size != 4 {
		t.Errorf("%d bytes stayed", size)
	}
	f.uses("the upload", 4)
	info, err := os.Stat(filepath.Join(f.config.Folder, "uploads", id))
	f.must(err)
	f.same("bytes on disk", nil, info.Size(), 4)
	f.step = nil
	long = strings.Repeat("y", len(long)) // what was hashed of the chunk that did not fit must be forgotten
	f.must(f.Finish(ctx, "a", id, 4, digestOf("0123"+long), strings.NewReader(long)))
	f.sound()
}

// TestDatabaseFails has room for the file and none for its record.
func TestDatabaseFails(t *testing.T) {
	f := newFixture(t)
	f.put("a", "kept")
	f.must(f.store.Close())
	for _, text := range []string{"kept", "new"} {
		err := f.Put(t.Context(), "b", digestOf(text), -1, strings.NewReader(text))
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if len(f.files("uploads")) != 0 {
		t.Errorf("left: %v", f.files("uploads"))
	}
	g := openFixture(t, f.dir)
	if g.read("a", digestOf("kept")) != "kept" {
		t.Error("a blob of another repository was lost")
	}
	g.must(g.Sweep(t.Context()))
	g.sound()
	if len(g.files("blobs")) != 1 {
		t.Errorf("left: %v", g.files("blobs"))
	}
}

// TestBytesBeyond has more bytes on disk than were counted, as when a failed chunk could not be cut off.
func TestBytesBeyond(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	id, err := f.Begin(ctx, "a")
	f.must(err)
	f.must(os.WriteFile(filepath.Join(f.config.Folder, "uploads", id), []byte("0123456789"), 0o600))
	f.must(f.Finish(ctx, "a", id, 0, digestOf("abc"), strings.NewReader("abc")))
	if got := f.read("a", digestOf("abc")); got != "abc" {
		t.Errorf("got %q", got)
	}
	f.sound()
}
