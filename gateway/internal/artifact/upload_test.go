package artifact_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"muster/gateway/internal/artifact"
)

func TestPut(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	for _, text := range []string{"", "hello", strings.Repeat("0123456789", 100_000)} {
		digest := f.put("a/b", text)
		if got := f.read("a/b", digest); got != text {
			t.Errorf("%d bytes came back as %d", len(text), len(got))
		}
		f.must(f.Put(ctx, "a/b", digest512(text), -1, strings.NewReader(text)))
		if got := f.read("a/b", digest512(text)); got != text {
			t.Errorf("%d bytes came back as %d by SHA-512", len(text), len(got))
		}
		size, err := f.Stat(ctx, "a/b", digest512(text))
		f.same("its size", err, size, len(text))
	}
	for what, c := range map[string]struct {
		repository, digest string
		size               int64
		text, code         string
	}{
		"other bytes":   {"a/b", digestOf("x"), 1, "y", artifact.CodeDigestInvalid},
		"too few bytes": {"a/b", digestOf("xy"), 2, "x", artifact.CodeBlobUploadInvalid},
		"a bad digest":  {"a/b", "sha256:../../x", 1, "x", artifact.CodeDigestInvalid},
		"a bad name":    {"../b", digestOf("x"), 1, "x", artifact.CodeNameInvalid},
	} {
		f.want(what, f.Put(ctx, c.repository, c.digest, c.size, strings.NewReader(c.text)), c.code)
	}
	err := f.Put(ctx, "a/b", digestOf("x"), 1, iotest.ErrReader(io.ErrUnexpectedEOF))
	f.want("a client that hangs up", err, artifact.CodeBlobUploadInvalid)
	if len(f.files("uploads")) != 0 || len(f.files("blobs")) != 6 {
		t.Errorf("on disk: %v and %v", f.files("uploads"), f.files("blobs"))
	}
	f.uses("six blobs", 2*(5+1_000_000))
	f.sound()
}

func TestModes(t *testing.T) {
	f := newFixture(t)
	f.put("a", "x")
	_, err := f.Begin(t.Context(), "a")
	f.must(err)
	f.must(filepath.Walk(f.config.Folder, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm() != map[bool]os.FileMode{true: 0o700, false: 0o600}[info.IsDir()] {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	}))
}

// TestChunks pushes piece by piece, with every kind of mistake, and with a restart in the middle.
func TestChunks(t *testing.T) {
	for algorithm, digest := range map[string]string{"SHA-256": digestOf("0123456789"), "SHA-512": digest512("0123456789")} {
		f := newFixture(t)
		ctx := t.Context()
		id, err := f.Begin(ctx, "a")
		f.must(err)
		size, err := f.Append(ctx, "a", id, 0, strings.NewReader("0123"))
		f.same("the first chunk", err, size, 4)
		size, err = f.Append(ctx, "a", id, 3, strings.NewReader("x"))
		f.want("a chunk before the end", err, artifact.CodeRangeInvalid)
		if size != 4 {
			t.Errorf("the size after a wrong chunk is %d", size)
		}
		_, err = f.Append(ctx, "a", id, 5, strings.NewReader("x"))
		f.want("a chunk after the end", err, artifact.CodeRangeInvalid)
		f.want("an end at the wrong place", f.Finish(ctx, "a", id, 9, digest, strings.NewReader("9")), artifact.CodeRangeInvalid)
		f.want("an end with a bad digest", f.Finish(ctx, "a", id, 4, "sha256:bad", nil), artifact.CodeDigestInvalid)
		size, err = f.Append(ctx, "a", id, -1, io.MultiReader(strings.NewReader("45"), iotest.ErrReader(errors.New("cut"))))
		f.want("a chunk that is cut off", err, artifact.CodeBlobUploadInvalid)
		if size != 6 {
			t.Errorf("of a chunk that was cut off, %d bytes stayed", size)
		}
		for what, repository := range map[string]string{"another repository": "b", "a bad name": "/"} {
			if _, err := f.Append(ctx, repository, id, -1, strings.NewReader("x")); err == nil {
				t.Errorf("%s: the upload was found", what)
			}
			if _, err := f.Progress(ctx, repository, id); err == nil {
				t.Errorf("%s: progress was told", what)
			}
		}
		f.uses("an upload", 6)
		f.reopen()
		f.uses("an upload after a restart", 6)
		size, err = f.Progress(ctx, "a", id)
		f.same("progress after a restart", err, size, 6)
		size, err = f.Append(ctx, "a", id, 6, strings.NewReader("678"))
		f.same("a chunk after a restart", err, size, 9)
		if err := f.Finish(ctx, "a", id, 9, digest, strings.NewReader("9")); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		if got := f.read("a", digest); got != "0123456789" {
			t.Errorf("%s: got %q", algorithm, got)
		}
		f.sound()
	}
}

func TestFinished(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	for what, end := range map[string]func(id string) error{
		"finished": func(id string) error { return f.Finish(ctx, "a", id, -1, digestOf("x"), strings.NewReader("x")) },
		"canceled": func(id string) error { return f.Cancel(ctx, "a", id) },
		"refused": func(id string) error {
			err := f.Finish(ctx, "a", id, -1, digestOf("x"), strings.NewReader("y"))
			f.want("other bytes", err, artifact.CodeDigestInvalid)
			return nil
		},
	} {
		id, err := f.Begin(ctx, "a")
		f.must(err)
		f.must(end(id))
		_, err = f.Append(ctx, "a", id, -1, strings.NewReader("x"))
		f.want(what+": append", err, artifact.CodeBlobUploadUnknown)
		_, err = f.Progress(ctx, "a", id)
		f.want(what+": progress", err, artifact.CodeBlobUploadUnknown)
		f.want(what+": finish", f.Finish(ctx, "a", id, -1, digestOf("x"), nil), artifact.CodeBlobUploadUnknown)
		f.want(what+": cancel", f.Cancel(ctx, "a", id), artifact.CodeBlobUploadUnknown)
	}
	if left := f.files("uploads"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	f.uses("one blob", 1)
}

// TestOneWriter lets a second request come while the first one is in the middle of its bytes.
func TestOneWriter(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	id, err := f.Begin(ctx, "a")
	f.must(err)
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := f.Append(ctx, "a", id, 0, reader)
		done <- err
	}()
	_, err = writer.Write([]byte("x")) // returns when it was read, so the upload is in use
	f.must(err)
	_, err = f.Append(ctx, "a", id, -1, strings.NewReader("y"))
	f.want("a second append", err, artifact.CodeTooManyRequests)
	f.want("a finish", f.Finish(ctx, "a", id, -1, digestOf("x"), nil), artifact.CodeTooManyRequests)
	f.want("a cancel", f.Cancel(ctx, "a", id), artifact.CodeTooManyRequests)
	f.pass(2 * artifact.UploadLife)
	f.must(f.Sweep(ctx))
	f.must(writer.Close())
	f.must(<-done)
	f.must(f.Finish(ctx, "a", id, 1, digestOf("x"), nil))
	f.sound()
}

func TestConcurrentUploads(t *testing.T) {
	f := newFixture(t)
	text := strings.Repeat("x", 300_000)
	var group sync.WaitGroup
	for i := range 8 {
		repository := []string{"a", "b"}[i%2]
		group.Go(func() {
			if err := f.Put(t.Context(), repository, digestOf(text), -1, iotest.HalfReader(strings.NewReader(text))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if f.read("a", digestOf(text)) != text || f.read("b", digestOf(text)) != text || len(f.files()) != 1 {
		t.Errorf("on disk: %v", f.files())
	}
	f.uses("one blob", int64(len(text)))
}

func TestUploadsEnd(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	old, err := f.Begin(ctx, "a")
	f.must(err)
	_, err = f.Append(ctx, "a", old, 0, strings.NewReader("old"))
	f.must(err)
	f.pass(artifact.UploadLife / 2)
	f.reopen() // its age is on disk
	young, err := f.Begin(ctx, "a")
	f.must(err)
	f.pass(artifact.UploadLife/2 + time.Second)
	f.must(f.Sweep(ctx))
	_, err = f.Progress(ctx, "a", old)
	f.want("an old upload", err, artifact.CodeBlobUploadUnknown)
	_, err = f.Progress(ctx, "a", young)
	f.want("a young upload", err, "")
	if left := f.files("uploads"); len(left) != 1 || left[0] != young {
		t.Errorf("left: %v", left)
	}
	f.uses("nothing", 0)
}

func TestTooManyUploads(t *testing.T) {
	f := newFixture(t)
	for range artifact.MostOpen {
		_, err := f.Begin(t.Context(), "a")
		f.must(err)
	}
	_, err := f.Begin(t.Context(), "a")
	f.want("one more", err, artifact.CodeTooManyRequests)
	f.pass(artifact.UploadLife + time.Second)
	f.must(f.Sweep(t.Context()))
	_, err = f.Begin(t.Context(), "a")
	f.want("later", err, "")
}

func TestCanceledCaller(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	id, err := f.Begin(ctx, "a")
	f.must(err)
	cancel()
	size, err := f.Append(ctx, "a", id, 0, io.MultiReader(strings.NewReader("one"), strings.NewReader("two")))
	if !errors.Is(err, context.Canceled) || size != 3 {
		t.Errorf("%d bytes, %v", size, err)
	}
}

func TestLimits(t *testing.T) {
	f := newFixture(t, func(c *artifact.Config) { c.MaxBlob, c.Quota = 10, 25 })
	ctx := t.Context()
	ten := strings.Repeat("x", 10)
	f.want("a blob of the limit", f.Put(ctx, "a", digestOf(ten), -1, strings.NewReader(ten)), "")
	tooLarge := f.Put(ctx, "a", digestOf(ten+"y"), -1, strings.NewReader(ten+"y"))
	f.want("a byte more", tooLarge, artifact.CodeSizeInvalid)
	announced := f.Put(ctx, "a", digestOf(ten), 11, iotest.ErrReader(errors.New("the bytes were read")))
	f.want("a byte more, announced", announced, artifact.CodeSizeInvalid)
	f.uses("the first blob", 10)

	id, err := f.Begin(ctx, "a")
	f.must(err)
	size, err := f.Append(ctx, "a", id, 0, strings.NewReader("123456789"))
	f.same("an upload", err, size, 9)
	size, err = f.Append(ctx, "a", id, 9, strings.NewReader("ab"))
	f.want("an upload beyond the limit", err, artifact.CodeSizeInvalid)
	if size != 9 {
		t.Errorf("the upload has %d bytes after a refusal", size)
	}
	overQuota := f.Put(ctx, "b", digestOf("1234567"), -1, strings.NewReader("1234567")) // 10 + 9 + 7
	f.want("over the quota, with an upload", overQuota, artifact.CodeDenied)
	f.want("within the quota, with an upload", f.Put(ctx, "b", digestOf("123456"), -1, strings.NewReader("123456")), "")
	_, err = f.Append(ctx, "a", id, 9, strings.NewReader("0"))
	f.want("an upload over the quota", err, artifact.CodeDenied)
	f.must(f.Cancel(ctx, "a", id))
	f.uses("two blobs", 16)
	config := f.put("a", "{}")
	overManifest := func() error {
		_, err := f.PutManifest(ctx, "a", artifact.PutManifest{Reference: "v1", Body: image("{}"), By: by})
		return err
	}()
	f.want("a manifest over the quota", overManifest, artifact.CodeDenied)
	for setting, errs := range map[string][]error{
		artifact.SettingQuota: {overQuota, overManifest}, artifact.SettingMaxBlob: {tooLarge, announced},
	} {
		for _, err := range errs {
			if err == nil || !strings.Contains(err.Error(), setting) {
				t.Errorf("%v does not name %s", err, setting)
			}
		}
	}
	f.must(f.DeleteBlob(ctx, "a", config, by))
	f.must(f.DeleteBlob(ctx, "a", digestOf(ten), by))
	f.must(f.Sweep(ctx))
	f.uses("after a sweep", 6)
	_, quota := f.Usage(ctx)
	f.same("the quota", nil, quota, 25)
	f.sound()
}

// TestQuotaRace pushes more at once than there is room for: what is kept is never more than the quota.
func TestQuotaRace(t *testing.T) {
	f := newFixture(t, func(c *artifact.Config) { c.Quota = 1000 })
	var group sync.WaitGroup
	for i := range 20 {
		text := strings.Repeat(string(rune('a'+i)), 100)
		group.Go(func() {
			err := f.Put(t.Context(), "a", digestOf(text), 100, iotest.OneByteReader(strings.NewReader(text)))
			if err != nil && !artifact.Is(err, artifact.CodeDenied) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if used, _ := f.Usage(t.Context()); used > 1000 || used != int64(100*len(f.files())) {
		t.Errorf("%d bytes are counted for %d blobs", used, len(f.files()))
	}
}

// TestKernelSends has what package net asks for before it hands a file to the kernel.
func TestKernelSends(t *testing.T) {
	f := newFixture(t)
	blob, err := f.Blob(t.Context(), "a", f.put("a", "x"))
	f.must(err)
	defer blob.Close()
	if _, ok := any(blob).(syscall.Conn); !ok {
		t.Errorf("%T cannot be handed to the kernel", blob)
	}
}

// TestConstantMemory pushes and reads more than the test may hold in memory at once.
func TestConstantMemory(t *testing.T) {
	f := newFixture(t)
	const size = 64 << 20
	zeros := func() io.Reader { return io.LimitReader(zero{}, size) }
	digest := "sha256:3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351"
	allocated := testing.AllocsPerRun(1, func() {
		f.must(f.Put(t.Context(), "a", digest, size, zeros()))
	})
	if allocated > 2000 {
		t.Errorf("%v allocations for one blob", allocated)
	}
	blob, err := f.Blob(t.Context(), "a", digest)
	f.must(err)
	n, err := io.Copy(io.Discard, blob)
	f.same("read", errors.Join(err, blob.Close()), n, size)
}

type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestImport(t *testing.T) {
	f := newFixture(t)
	text := "hello"
	f.put("a", text)
	info := artifact.Info{Digest: digestOf(text), Size: int64(len(text))}
	var copied bytes.Buffer
	f.must(f.Keep(func() error {
		return f.Each(t.Context(), func(blob artifact.Info) error {
			f.same("each", nil, blob, info)
			raw, err := f.Raw(t.Context(), blob.Digest)
			if err != nil {
				return err
			}
			_, err = io.Copy(&copied, raw)
			return errors.Join(err, raw.Close())
		})
	}))
	f.must(os.RemoveAll(f.config.Folder))
	for what, wrong := range map[string]string{"truncated": "hell", "padded": "hello!", "other": "hallo"} {
		f.want(what, artifact.Import(nil, f.config.Folder, info, strings.NewReader(wrong)), artifact.CodeDigestInvalid)
	}
	f.want("no digest", artifact.Import(nil, f.config.Folder, artifact.Info{Digest: "../x"}, strings.NewReader("")), artifact.CodeDigestInvalid)
	if left := f.files(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	f.must(artifact.Import(nil, f.config.Folder, info, &copied))
	f.must(artifact.Import(nil, f.config.Folder, info, strings.NewReader(text)))
	f.reopen()
	if got := f.read("a", info.Digest); got != text {
		t.Errorf("restored: %q", got)
	}
	_, err := f.Raw(t.Context(), digestOf("x"))
	f.want("raw: unknown", err, artifact.CodeBlobUnknown)
	_, err = f.Raw(t.Context(), "x")
	f.want("raw: no digest", err, artifact.CodeDigestInvalid)
}

// TestDamaged: a blob whose bytes have changed on the disk is set aside, so that a client is told to push it again. Then all is well.
func TestDamaged(t *testing.T) {
	f := newFixture(t)
	digest := f.put("a", "hello")
	f.must(os.WriteFile(f.file(digest), []byte("hallo"), 0o600))
	_, err := f.Raw(t.Context(), digest)
	f.want("raw", err, artifact.CodeBlobUnknown)
	_, err = f.Stat(t.Context(), "a", digest)
	f.want("stat", err, artifact.CodeBlobUnknown)
	if _, err := os.Stat(f.file(digest) + ".damaged"); err != nil {
		t.Errorf("it is not set aside: %v", err)
	}
	f.must(f.Sweep(t.Context()))
	f.put("a", "hello")
	if got := f.read("a", digest); got != "hello" {
		t.Errorf("pushed again: %q", got)
	}
	f.sound()
	if left := f.files("blobs"); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// TestUnreadable: a blob that cannot be read counts as lost, and keeps its place.
func TestUnreadable(t *testing.T) {
	f := newFixture(t)
	folder := filepath.Join(f.config.Folder, "a folder") // it opens, and cannot be read
	f.must(os.Mkdir(folder, 0o700))
	info, err := os.Stat(folder)
	f.must(err)
	digest := f.put("a", strings.Repeat("x", int(info.Size())))
	f.must(os.Remove(f.file(digest)))
	f.must(os.Rename(folder, f.file(digest)))
	_, err = f.Raw(t.Context(), digest)
	f.want("raw", err, artifact.CodeBlobUnknown)
	if _, err := os.Stat(f.file(digest)); err != nil {
		t.Error(err)
	}
}
