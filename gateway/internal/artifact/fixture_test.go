package artifact_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/disk"
	"muster/agent/wire"
	"muster/gateway/internal/artifact"
	"muster/store"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

var by = store.Actor{Name: "account:ci", Address: "192.0.2.1"}

// fixture is a registry with a database of its own, and a clock that the test sets.
type fixture struct {
	*artifact.Registry
	t      testing.TB
	dir    string
	store  *store.Store
	config artifact.Config
	step   func(string) error
	log    bytes.Buffer
	mu     sync.Mutex
	now    time.Time
}

func newFixture(t testing.TB, change ...func(*artifact.Config)) *fixture {
	t.Helper()
	return openFixture(t, t.TempDir(), change...)
}

func openFixture(t testing.TB, dir string, change ...func(*artifact.Config)) *fixture {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "muster.db"), MasterKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dir: dir, store: s, now: start}
	t.Cleanup(func() {
		if err := f.store.Close(); err != nil {
			t.Error(err)
		}
	})
	f.config = artifact.Config{Folder: filepath.Join(dir, "registry"), Records: s.Records(), Now: f.clock,
		Logger: slog.New(slog.NewTextHandler(&f.log, nil))}
	for _, c := range change {
		c(&f.config)
	}
	f.reopen()
	return f
}

// reopen opens the registry again, as after a restart.
func (f *fixture) reopen() {
	f.t.Helper()
	r, err := artifact.OpenSteps(f.t.Context(), f.config, func(step disk.Step) error {
		if f.step == nil {
			return nil
		}
		return f.step(step.Name)
	})
	f.must(err)
	f.Registry = r
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// want fails the test unless an error has this code; "": unless there is none.
func (f *fixture) want(what string, err error, code string) {
	f.t.Helper()
	if code == "" && err != nil || code != "" && !artifact.Is(err, code) {
		f.t.Errorf("%s: %v, want %q", what, err, code)
	}
}

func (f *fixture) same(what string, err error, got, want any) {
	f.t.Helper()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Errorf("%s: %v, %v; want %v", what, got, err, want)
	}
}

func digestOf(text string) string { return artifact.DigestOf([]byte(text)) }

func digest512(text string) string {
	sum := sha512.Sum512([]byte(text))
	return "sha512:" + hex.EncodeToString(sum[:])
}

func (f *fixture) put(repository, text string) string {
	f.t.Helper()
	digest := digestOf(text)
	f.must(f.Put(f.t.Context(), repository, digest, int64(len(text)), strings.NewReader(text)))
	return digest
}

// read gives what a blob has, or fails the test.
func (f *fixture) read(repository, digest string) string {
	f.t.Helper()
	blob, err := f.Blob(f.t.Context(), repository, digest)
	f.must(err)
	text, err := io.ReadAll(blob)
	f.must(errors.Join(err, blob.Close()))
	if int64(len(text)) != blob.Size || blob.Digest != digest {
		f.t.Errorf("blob %s of %d bytes was opened as %+v", digest, len(text), blob.Info)
	}
	return string(text)
}

// files lists what is on disk below a folder of the registry.
func (f *fixture) files(below ...string) (names []string) {
	f.t.Helper()
	root := filepath.Join(append([]string{f.config.Folder}, below...)...)
	f.must(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, filepath.Base(path))
		}
		return err
	}))
	return names
}

// file is the path of a blob by SHA-256.
func (f *fixture) file(digest string) string {
	return filepath.Join(f.config.Folder, "blobs", artifact.SHA256, strings.TrimPrefix(digest, "sha256:"))
}

// sound fails the test unless every file in blobs is whole, and every record has its file.
func (f *fixture) sound() {
	f.t.Helper()
	for _, name := range f.files("blobs") {
		algorithm := map[int]string{2 * sha256.Size: artifact.SHA256, 2 * sha512.Size: artifact.SHA512}[len(name)]
		text, err := os.ReadFile(filepath.Join(f.config.Folder, "blobs", algorithm, name))
		f.must(err)
		if digest := algorithm + ":" + name; digest != digestOf(string(text)) && digest != digest512(string(text)) {
			f.t.Errorf("blob %s has %d other bytes", digest, len(text))
		}
	}
	f.must(f.Each(f.t.Context(), func(blob artifact.Info) error {
		open, err := f.Raw(f.t.Context(), blob.Digest)
		if err != nil {
			return err
		}
		return open.Close()
	}))
}

func (f *fixture) uses(what string, bytes int64) {
	f.t.Helper()
	if got, _ := f.Usage(f.t.Context()); got != bytes {
		f.t.Errorf("%s: %d bytes are counted, want %d", what, got, bytes)
	}
}

// image is the manifest of an image with these blobs, which have to be there already.
func image(config string, layers ...string) []byte {
	m := map[string]any{"schemaVersion": 2, "mediaType": wire.MediaManifest, "config": descriptor(wire.MediaEmpty, config)}
	list := []any{}
	for _, layer := range layers {
		list = append(list, descriptor(wire.MediaProgram, layer))
	}
	m["layers"] = list
	return encode(m)
}

func index(manifests ...[]byte) []byte {
	list := []any{}
	for _, m := range manifests {
		list = append(list, map[string]any{"mediaType": wire.MediaManifest, "digest": artifact.DigestOf(m), "size": len(m)})
	}
	return encode(map[string]any{"schemaVersion": 2, "mediaType": wire.MediaIndex, "manifests": list})
}

func descriptor(mediaType, text string) map[string]any {
	return map[string]any{"mediaType": mediaType, "digest": digestOf(text), "size": len(text)}
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

func (f *fixture) push(repository, reference string, body []byte) string {
	f.t.Helper()
	done, err := f.PutManifest(f.t.Context(), repository, artifact.PutManifest{Reference: reference, Body: body, By: by})
	f.must(err)
	return done.Digest
}

// events lists kinds and details of the events so far, the oldest first.
func (f *fixture) events() (list []string) {
	f.t.Helper()
	events, err := f.store.Events(f.t.Context(), store.EventQuery{Ascending: true, Security: true})
	f.must(err)
	for _, e := range events {
		detail := []string{}
		for key, value := range e.Detail {
			detail = append(detail, key+"="+value)
		}
		slices.Sort(detail)
		list = append(list, fmt.Sprintf("%s by %s %v", e.Kind, e.Actor, detail))
	}
	return list
}
