package artifact_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/artifact"
)

// other is another gateway, with the blobs that it has.
type other struct {
	blobs map[string]string // by digest
	fails error
}

func (o *other) copy(_ context.Context, blob artifact.Info, content *io.SectionReader) error {
	all, err := io.ReadAll(content)
	if err == nil && int64(len(all)) != blob.Size {
		err = errors.New("another size")
	}
	o.blobs[blob.Digest] = string(all)
	return errors.Join(err, o.fails)
}

func (o *other) fetch(blob artifact.Info) (io.ReadCloser, error) {
	text, ok := o.blobs[blob.Digest]
	if !ok {
		return nil, errors.New("it is not here")
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func withOther(t *testing.T) (*fixture, *other) {
	t.Helper()
	o := &other{blobs: map[string]string{}}
	return newFixture(t, func(c *artifact.Config) {
		c.Copy = o.copy
		c.Fetch = func(_ context.Context, blob artifact.Info) (io.ReadCloser, error) { return o.fetch(blob) }
	}), o
}

// TestCopied: a push is acknowledged when another gateway has the blob, and refused when that failed. Then nothing of it is here.
func TestCopied(t *testing.T) {
	f, o := withOther(t)
	digest := f.put("app", "hello")
	f.same("the copy", nil, o.blobs[digest], "hello")
	o.fails = errors.New("no room there")
	err := f.Put(t.Context(), "app", digestOf("other"), 5, strings.NewReader("other"))
	f.want("a push without a copy", err, artifact.CodeUnavailable)
	_, err = f.Stat(t.Context(), "app", digestOf("other"))
	f.want("after it", err, artifact.CodeBlobUnknown)
	f.same("the files", nil, len(f.files("blobs", "sha256")), 1)
	f.same("uploads", nil, len(f.files("uploads")), 0)
}

// TestFetched: a blob that is on record and not here is fetched once, and what is not its bytes is not taken. A blob that nobody gives now is
// no unknown blob.
func TestFetched(t *testing.T) {
	f, o := withOther(t)
	digest := f.put("app", "hello")
	f.must(os.Remove(f.file(digest)))
	o.blobs[digest] = "hallo"
	_, err := f.Blob(t.Context(), "app", digest)
	f.want("other bytes", err, artifact.CodeUnavailable)
	o.blobs[digest] = "hello and more"
	_, err = f.Blob(t.Context(), "app", digest)
	f.want("more bytes", err, artifact.CodeUnavailable)
	o.blobs[digest] = "hello"
	f.same("the blob", nil, f.read("app", digest), "hello")
	delete(o.blobs, digest)
	f.same("here by now", nil, f.read("app", digest), "hello")
	f.must(os.Remove(f.file(digest)))
	_, err = f.Blob(t.Context(), "app", digest)
	f.want("nowhere", err, artifact.CodeUnavailable)
	_, err = f.Blob(t.Context(), "app", digestOf("never"))
	f.want("not on record", err, artifact.CodeBlobUnknown)
}

// TestMirror: a gateway that stands by fetches what it lacks, and goes on after what it cannot get.
func TestMirror(t *testing.T) {
	f, o := withOther(t)
	one, two, three := f.put("app", "one"), f.put("app", "two"), f.put("lib", "three")
	folder := filepath.Join(t.TempDir(), "registry")
	delete(o.blobs, two)
	mirror := func() (int, error) { return artifact.Mirror(t.Context(), f.store.Records(), folder, o.fetch) }
	n, err := mirror()
	if n != 2 || err == nil {
		t.Errorf("%d are fetched, %v", n, err)
	}
	o.blobs = map[string]string{two: "two"}
	n, err = mirror()
	f.same("the rest", err, n, 1)
	n, err = mirror()
	f.same("nothing more", err, n, 0)
	for digest, text := range map[string]string{one: "one", two: "two", three: "three"} {
		file, err := artifact.File(folder, artifact.Info{Digest: digest, Size: int64(len(text))})
		f.must(err)
		got, err := io.ReadAll(file)
		f.same(text, err, string(got), text)
		f.must(file.Close())
	}
}

// TestMirrorForgets: what has no record goes, unless it is new: its record may be on the way.
func TestMirrorForgets(t *testing.T) {
	f, o := withOther(t)
	folder := filepath.Join(t.TempDir(), "registry")
	kept := f.put("app", "kept")
	mirror := func() []string {
		t.Helper()
		_, err := artifact.Mirror(t.Context(), f.store.Records(), folder, o.fetch)
		f.must(err)
		var all []string
		for _, dir := range []string{"blobs/sha256", "uploads"} {
			entries, err := os.ReadDir(filepath.Join(folder, dir))
			f.must(err)
			for _, entry := range entries {
				all = append(all, entry.Name())
			}
		}
		return all
	}
	mirror()
	old := digestOf("old")
	f.must(artifact.Import(nil, folder, artifact.Info{Digest: old, Size: 3}, strings.NewReader("old")))
	upload := filepath.Join(folder, "uploads", strings.Repeat("ab", 32))
	f.must(os.WriteFile(upload, nil, 0o600))
	f.same("new ones", nil, len(mirror()), 3)
	long := time.Now().Add(-25 * time.Hour)
	for _, path := range []string{filepath.Join(folder, "blobs/sha256", hexOf(kept)), filepath.Join(folder, "blobs/sha256", hexOf(old)), upload} {
		f.must(os.Chtimes(path, long, long))
	}
	if got := mirror(); len(got) != 1 || got[0] != hexOf(kept) {
		t.Errorf("these are left: %q", got)
	}
}

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }
