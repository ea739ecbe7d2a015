package archive_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/backup/archive"
)

var made = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const content = "SQLite format 3\x00 and so on"

func digest(text string) string    { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }
func digest512(text string) string { return fmt.Sprintf("sha512:%x", sha512.Sum512([]byte(text))) }

// sample is an archive with two blobs.
func sample(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w := archive.NewWriter(&out, made)
	err := errors.Join(w.Database(int64(len(content)), strings.NewReader(content)),
		w.Add(archive.Blob{Digest: digest("one"), Size: 3}, strings.NewReader("one")),
		w.Add(archive.Blob{Digest: digest512("three"), Size: 5}, strings.NewReader("three")), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestReadWhatWasWritten(t *testing.T) {
	var database string
	got := map[string]string{}
	summary, err := archive.Read(bytes.NewReader(sample(t)), archive.Visitor{
		Database: func(size int64, r io.Reader) error {
			all, err := io.ReadAll(r)
			database = string(all)
			return err
		},
		Blob: func(b archive.Blob, r io.Reader) error {
			all, err := io.ReadAll(r)
			got[b.Digest] = string(all)
			return err
		},
	})
	want := archive.Summary{Database: int64(len(content)), DatabaseDigest: digest(content), Blobs: 2, Bytes: 8}
	if err != nil || summary != want || database != content || got[digest("one")] != "one" || got[digest512("three")] != "three" {
		t.Errorf("%+v, %q, %v, %v", summary, database, got, err)
	}
	if _, err := archive.Read(bytes.NewReader(sample(t)), archive.Visitor{}); err != nil {
		t.Error(err)
	}
	full := errors.New("no room")
	for _, v := range []archive.Visitor{{Database: func(int64, io.Reader) error { return full }},
		{Blob: func(archive.Blob, io.Reader) error { return full }}} {
		if _, err := archive.Read(bytes.NewReader(sample(t)), v); !errors.Is(err, full) {
			t.Errorf("got %v", err)
		}
	}
}

// TestCutOff: no part of an archive passes for a whole one.
func TestCutOff(t *testing.T) {
	whole := sample(t)
	last := bytes.LastIndexByte(whole, '}') // the zeros behind it say nothing
	for n := range last {
		if _, err := archive.Read(bytes.NewReader(whole[:n]), archive.Visitor{}); err == nil {
			t.Fatalf("the first %d bytes of %d pass", n, len(whole))
		}
	}
}

// TestChanged: no byte of the content or of a name can be another one.
func TestChanged(t *testing.T) {
	whole := sample(t)
	for _, what := range []string{"SQLite", "one", "three", "muster.db", "registry/blobs/sha256", "backup.json", `"blobs":2`} {
		changed := bytes.Clone(whole)
		changed[bytes.Index(changed, []byte(what))+1] ^= 1
		if _, err := archive.Read(bytes.NewReader(changed), archive.Visitor{}); err == nil {
			t.Errorf("%s: changed, and it passes", what)
		}
	}
}

// entries makes an archive of entries that need not belong in one.
func entries(headers ...tar.Header) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		h.Size = int64(len(h.Linkname))
		text := h.Linkname // stands for the content of a file
		if h.Typeflag == tar.TypeReg {
			h.Linkname = ""
		} else {
			h.Size = 0
		}
		_ = w.WriteHeader(&h)
		if h.Typeflag == tar.TypeReg {
			_, _ = io.WriteString(w, text)
		}
	}
	_ = w.Close()
	return out.Bytes()
}

func file(name, text string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: text}
}

func TestForeign(t *testing.T) {
	db := file("muster.db", content)
	blob := file("registry/blobs/"+strings.Replace(digest("one"), ":", "/", 1), "one")
	for what, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"nothing":              {nil, "cut off"},
		"text":                 {bytes.Repeat([]byte("not an archive "), 100), "did not make it"},
		"another archive":      {entries(file("readme", "x")), "did not make it"},
		"a link for database":  {entries(tar.Header{Typeflag: tar.TypeSymlink, Name: "muster.db", Linkname: "/etc/passwd"}), "did not make it"},
		"a link":               {entries(db, tar.Header{Typeflag: tar.TypeSymlink, Name: blob.Name, Linkname: "/etc/passwd"}), "no file"},
		"a climbing name":      {entries(db, file("registry/blobs/sha256/../../../x", "x")), "does not belong"},
		"an unknown algorithm": {entries(db, file("registry/blobs/md5/00", "x")), "does not belong"},
		"a digest cut short":   {entries(db, file("registry/blobs/sha256/00", "x")), "does not belong"},
		"a blob twice":         {entries(db, blob, blob), "does not belong"},
		"a wrong blob":         {entries(db, file(blob.Name, "two")), "damaged"},
		"no end":               {entries(db, blob), "cut off"},
		"a wrong end":          {entries(db, blob, file("backup.json", "{}")), "does not hold"},
		"an end that is none":  {entries(db, file("backup.json", "x")), "cannot be read"},
		"a long end":           {entries(db, file("backup.json", strings.Repeat("x", 5000))), "too long"},
	} {
		if _, err := archive.Read(bytes.NewReader(c.archive), archive.Visitor{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", what, err, c.want)
		}
	}
}

// TestFailed: a gateway that cannot go on says why, and what it wrote is no backup.
func TestFailed(t *testing.T) {
	var out bytes.Buffer
	w := archive.NewWriter(&out, made)
	if err := w.Database(int64(len(content)), strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	damaged := w.Add(archive.Blob{Digest: digest("one"), Size: 3}, strings.NewReader("two"))
	if err := w.Fail(damaged); !errors.Is(err, damaged) || damaged == nil {
		t.Errorf("got %v of %v", err, damaged)
	}
	_, failed := archive.Read(&out, archive.Visitor{})
	if failed == nil || !strings.Contains(failed.Error(), "cut off") && !strings.Contains(failed.Error(), "damaged") {
		t.Errorf("got %v", failed)
	}
	out.Reset()
	w = archive.NewWriter(&out, made)
	short := w.Database(100, strings.NewReader("short"))
	if err := w.Fail(short); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if err := archive.NewWriter(&out, made).Add(archive.Blob{Digest: "sha256:xyz"}, nil); err == nil {
		t.Error("no digest, and it was taken")
	}
	out.Reset()
	w = archive.NewWriter(&out, made)
	err := errors.Join(w.Database(int64(len(content)), strings.NewReader(content)))
	_ = w.Fail(errors.New("the disk is gone" + strings.Repeat("\x01", 10_000))) // bounded, so that it can be read
	_, failed = archive.Read(&out, archive.Visitor{})
	if err != nil || failed == nil || !strings.Contains(failed.Error(), "the disk is gone") {
		t.Errorf("got %v", failed)
	}
}

// TestLacks: an archive of a registry that has lost blobs is good, and says what it lacks. Nobody can make it say less.
func TestLacks(t *testing.T) {
	var out bytes.Buffer
	w := archive.NewWriter(&out, made)
	err := errors.Join(w.Database(int64(len(content)), strings.NewReader(content)),
		w.Add(archive.Blob{Digest: digest("one"), Size: 3}, strings.NewReader("one")))
	for i := range 30 {
		w.Lack(digest512(strings.Repeat("x", i)), fmt.Sprint("release ", i/2, strings.Repeat("\x01", 100)))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	var missing, needed []string
	summary, err := archive.Read(bytes.NewReader(out.Bytes()), archive.Visitor{Missing: func(digests, by []string) {
		missing = digests
		needed = by
	}})
	if err != nil || summary.Lacks != 30 || summary.Blobs != 1 || len(missing) != 20 || missing[0] != digest512("") {
		t.Errorf("got %+v, %d are named, %v", summary, len(missing), err)
	}
	if len(needed) != 3 || !strings.HasPrefix(needed[1], "release 1") || len(needed[1]) > 100 {
		t.Errorf("needed by %q", needed)
	}
	for what, pair := range map[string][2]string{
		"fewer": {`"lacks":30`, `"lacks":10`}, "a name": {`"missing":["sha512:`, `"missing":["sha256:`},
	} {
		changed := bytes.Replace(out.Bytes(), []byte(pair[0]), []byte(pair[1]), 1)
		if _, err := archive.Read(bytes.NewReader(changed), archive.Visitor{}); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", what, err)
		}
	}
	whole := archive.Visitor{Missing: func(_, _ []string) { t.Error("nothing is missing") }}
	if _, err := archive.Read(bytes.NewReader(sample(t)), whole); err != nil {
		t.Error(err)
	}
}

func TestIsDatabase(t *testing.T) {
	if !archive.IsDatabase(strings.NewReader(content)) || archive.IsDatabase(bytes.NewReader(sample(t))) ||
		archive.IsDatabase(strings.NewReader("SQL")) {
		t.Error("the forms are not told apart")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample(f))
	f.Add(entries(file("muster.db", "x"), file("backup.json", "{}")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var blobs int
		summary, err := archive.Read(bytes.NewReader(raw), archive.Visitor{Blob: func(b archive.Blob, r io.Reader) error {
			all, err := io.ReadAll(r)
			if err == nil && digest(string(all)) != b.Digest && digest512(string(all)) != b.Digest {
				t.Errorf("%s has other bytes", b.Digest)
			}
			blobs++
			return err
		}})
		if err == nil && summary.Blobs != blobs {
			t.Errorf("%d blobs, and it says %d", blobs, summary.Blobs)
		}
	})
}
