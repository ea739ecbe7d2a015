package artifact_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/artifact"
)

func TestMount(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	digest := f.put("a", "x")
	for _, c := range []struct {
		to, digest, from string
		want             bool
	}{
		{"b", digest, "a", true}, {"c", digest, "", true}, {"d", digest, "e", false}, {"d", digest, "../a", false},
		{"d", digestOf("y"), "a", false}, {"d", digestOf("y"), "", false}, {"a", digest, "a", true},
	} {
		done, err := f.Mount(ctx, c.to, c.digest, c.from)
		f.same(c.to+" from "+c.from, err, done, c.want)
	}
	if f.read("b", digest) != "x" || f.read("c", digest) != "x" || len(f.files("blobs")) != 1 {
		t.Errorf("on disk: %v", f.files("blobs"))
	}
	_, err := f.Blob(ctx, "d", digest)
	f.want("a repository that has nothing", err, artifact.CodeBlobUnknown)
	_, err = f.Mount(ctx, "/", digest, "a")
	f.want("a bad name", err, artifact.CodeNameInvalid)
	_, err = f.Mount(ctx, "b", "x", "a")
	f.want("a bad digest", err, artifact.CodeDigestInvalid)

	f.must(os.Remove(f.file(digest)))
	done, err := f.Mount(ctx, "d", digest, "")
	f.same("a blob whose file is gone", err, done, false)
}

// TestLostFiles heals a registry whose files are gone or cut off: they count as missing, and are pushed again.
func TestLostFiles(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	gone := f.put("a", "gone")
	cut := f.put("a", "cut off")
	f.must(os.Remove(f.file(gone)))
	f.must(os.Truncate(f.file(cut), 3))
	f.must(f.Sweep(ctx))
	if !strings.Contains(f.log.String(), "blobs=2") {
		t.Errorf("the log does not say how many are missing: %s", f.log.String())
	}
	for _, digest := range []string{gone, cut} {
		_, err := f.Stat(ctx, "a", digest)
		f.want("stat", err, artifact.CodeBlobUnknown)
		_, err = f.Blob(ctx, "a", digest)
		f.want("blob", err, artifact.CodeBlobUnknown)
	}
	f.put("a", "gone")
	f.put("a", "cut off")
	if f.read("a", gone) != "gone" || f.read("a", cut) != "cut off" {
		t.Error("what was pushed again is not there")
	}
	f.sound()
}

func TestCollects(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	config := f.put("a", "{}")
	layer := f.put("a", "layer")
	unused := f.put("a", "unused")
	asked := f.put("a", "asked")
	shared := f.put("a", "shared")
	digest := f.push("a", "v1", image("{}", "layer"))
	f.pass(artifact.Grace - time.Minute)
	_, err := f.Stat(ctx, "a", asked)
	f.must(err)
	done, err := f.Mount(ctx, "b", shared, "a")
	f.same("mount", err, done, true)
	f.pass(2 * time.Minute)
	f.must(f.Sweep(ctx))
	for blob, code := range map[string]string{
		config: "", layer: "", asked: "", unused: artifact.CodeBlobUnknown, shared: artifact.CodeBlobUnknown,
	} {
		_, err := f.Blob(ctx, "a", blob)
		f.want(blob, err, code)
	}
	if f.read("b", shared) != "shared" || len(f.files("blobs")) != 4 {
		t.Errorf("on disk: %v", f.files("blobs"))
	}
	f.must(f.DeleteManifest(ctx, "a", digest, by))
	f.must(f.Sweep(ctx))
	_, err = f.Stat(ctx, "a", layer)
	f.want("a layer whose manifest was just deleted", err, "")
	f.pass(artifact.Grace + time.Minute)
	f.must(f.Sweep(ctx))
	if left := f.files(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	names, err := f.Repositories(ctx)
	f.same("repositories", err, names, []string{})
	f.uses("nothing", 0)
}

// TestSweepLeaves has files that are no blobs, and blobs that nobody has, while a backup runs.
func TestSweepLeaves(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	digest := f.put("a", "x")
	orphan := f.file(digestOf("orphan"))
	other := filepath.Join(filepath.Dir(orphan), "README")
	f.must(errors.Join(os.WriteFile(orphan, []byte("orphan"), 0o600), os.WriteFile(other, nil, 0o600)))
	f.must(f.DeleteBlob(ctx, "a", digest, by))
	f.must(f.Keep(func() error { return f.Sweep(ctx) }))
	if len(f.files("blobs")) != 3 {
		t.Errorf("a sweep in a backup left %v", f.files("blobs"))
	}
	f.must(f.Sweep(ctx))
	if left := f.files("blobs"); len(left) != 1 || left[0] != "README" {
		t.Errorf("left: %v", left)
	}
}

// TestSweepRaces pushes and deletes the same blob while rounds run: what a push promised is there.
func TestSweepRaces(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.put("a", "{}")
	f.push("a", "v1", image("{}"))
	stop := make(chan struct{})
	var group, sweeper sync.WaitGroup
	sweeper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := f.Sweep(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	for _, repository := range []string{"b", "c", "d"} {
		group.Go(func() {
			for range 20 {
				if err := f.Put(ctx, repository, digestOf("x"), 1, strings.NewReader("x")); err != nil {
					t.Error(err)
					continue
				}
				blob, err := f.Blob(ctx, repository, digestOf("x"))
				if err != nil {
					t.Errorf("pushed, and gone: %v", err)
					continue
				}
				text, err := io.ReadAll(blob)
				if err := errors.Join(err, blob.Close(), f.DeleteBlob(ctx, repository, digestOf("x"), by)); err != nil || string(text) != "x" {
					t.Errorf("%q, %v", text, err)
				}
			}
		})
	}
	group.Wait()
	close(stop)
	sweeper.Wait()
	f.must(f.Sweep(ctx))
	if len(f.files("blobs")) != 1 {
		t.Errorf("left: %v", f.files("blobs"))
	}
	f.sound()
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *artifact.Config) { c.Now = time.Now })
		id, err := f.Begin(t.Context(), "a")
		f.must(err)
		f.put("a", "unused")
		deleted := f.put("a", "deleted")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		synctest.Wait()
		f.must(f.DeleteBlob(t.Context(), "a", deleted, by))
		synctest.Wait()
		if len(f.files("blobs")) != 1 {
			t.Errorf("soon after a deletion: %v", f.files("blobs"))
		}
		time.Sleep(artifact.Grace - time.Second)
		synctest.Wait()
		if len(f.files("blobs")) != 1 || len(f.files("uploads")) != 1 {
			t.Errorf("before their time: %v, %v", f.files("blobs"), f.files("uploads"))
		}
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		if len(f.files("blobs")) != 0 {
			t.Errorf("after their time: %v", f.files("blobs"))
		}
		_, err = f.Progress(t.Context(), "a", id)
		f.want("an old upload", err, artifact.CodeBlobUploadUnknown)
		cancel()
		f.must(<-ended)
		f.must(f.store.Close())
	})
}

// TestRunSaysFailures takes the folder away, and gives it back.
func TestRunSaysFailures(t *testing.T) {
	f := newFixture(t)
	f.put("a", "x")
	f.must(os.RemoveAll(f.config.Folder))
	err := f.Sweep(t.Context())
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a sweep of nothing: %v", err)
	}
	f.reopen()
	f.must(f.Sweep(t.Context()))
}

// TestSlowPush: a blob stays while the next one of the same push is on its way, however slow that is.
func TestSlowPush(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	first := f.put("a", "first layer")
	id, err := f.Begin(ctx, "a")
	f.must(err)
	for range 3 {
		f.pass(artifact.UploadLife/4 + time.Minute)
		_, err = f.Append(ctx, "a", id, -1, strings.NewReader("x"))
		f.must(err)
		f.must(f.Sweep(ctx))
	}
	f.must(f.Finish(ctx, "a", id, -1, digestOf("xxx"), nil))
	f.read("a", first)
}
