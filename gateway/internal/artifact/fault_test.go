package artifact_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/internal/artifact"
	"muster/store"
)

// TestDatabaseClosed calls everything that reads or writes records.
func TestDatabaseClosed(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	digest := f.put("a", "{}")
	f.must(f.store.Close())
	closed := map[string]error{"delete a blob": f.DeleteBlob(ctx, "a", digest, by), "delete a tag": f.DeleteManifest(ctx, "a", "v1", by),
		"delete a manifest": f.DeleteManifest(ctx, "a", digest, by), "hold": f.Hold(ctx, "a", digest, "x"), "release": f.Release(ctx, "x"),
		"sweep": f.Sweep(ctx), "each": f.Each(ctx, func(artifact.Info) error { return nil })}
	_, closed["stat"] = f.Stat(ctx, "a", digest)
	_, closed["blob"] = f.Blob(ctx, "a", digest)
	_, closed["raw"] = f.Raw(ctx, digest)
	_, closed["mount"] = f.Mount(ctx, "b", digest, "a")
	_, closed["manifest"] = f.Manifest(ctx, "a", "v1")
	_, closed["push"] = f.PutManifest(ctx, "a", artifact.PutManifest{Reference: "v1", Body: image("{}"), By: by})
	_, _, closed["tags"] = f.Tags(ctx, "a", -1, "")
	_, closed["repositories"] = f.Repositories(ctx)
	_, closed["referrers"] = f.Referrers(ctx, "a", digest, "")
	_, closed["open"] = artifact.Open(ctx, f.config)
	for what, err := range closed {
		var refusal *artifact.Error
		if err == nil || errors.As(err, &refusal) || !errors.Is(err, store.ErrClosed) && !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !strings.Contains(f.log.String(), "how much it keeps") {
		t.Errorf("the log does not say that the sum is not known: %s", f.log.String())
	}
	f.uses("what was counted before", 2)
}

func TestEachStops(t *testing.T) {
	f := newFixture(t)
	f.put("a", "x")
	f.put("a", "y")
	stop := errors.New("stop")
	calls := 0
	err := f.Each(t.Context(), func(artifact.Info) error {
		calls++
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// TestFullQuota begins nothing if there is no room at all.
func TestFullQuota(t *testing.T) {
	f := newFixture(t)
	f.put("a", "12345")
	f.config.Quota = 4
	f.reopen()
	_, err := f.Begin(t.Context(), "a")
	f.want("begin", err, artifact.CodeDenied)
	f.uses("what was there", 5)
}

// TestStrangeFiles opens a registry whose folders have other things in them, and one that is a file.
func TestStrangeFiles(t *testing.T) {
	f := newFixture(t)
	uploads := filepath.Join(f.config.Folder, "uploads")
	folder := filepath.Join(uploads, strings.Repeat("0", 64))
	f.must(errors.Join(os.WriteFile(filepath.Join(uploads, "README"), []byte("text"), 0o600), os.Mkdir(folder, 0o700)))
	f.reopen()
	f.uses("nothing", 0)
	f.must(errors.Join(os.RemoveAll(uploads), os.WriteFile(uploads, nil, 0o600)))
	if _, err := artifact.Open(t.Context(), f.config); err == nil {
		t.Error("a file was opened as a folder")
	}
}

func TestLongNames(t *testing.T) {
	f := newFixture(t)
	_, err := f.Manifest(t.Context(), strings.Repeat("A", 1<<20), "v1")
	f.want("a long name", err, artifact.CodeNameInvalid)
	if len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}
