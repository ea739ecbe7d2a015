package artifact_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/disk/disktest"
	"muster/gateway/internal/artifact"
)

// TestDamagedStaysAside: a damaged blob that was set aside has its name no more, also after a loss of power. Else a client would be told
// that it need not push it again.
func TestDamagedStaysAside(t *testing.T) {
	var f *fixture
	name := ""
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		f = newFixture(t, func(c *artifact.Config) { c.Folder = filepath.Join(m.Dir, "registry") })
		digest := f.put("a", "hello")
		f.must(os.WriteFile(f.file(digest), []byte("hallo"), 0o600))
		name = strings.TrimPrefix(f.file(digest), m.Dir)
	}, func(m *disktest.Machine) {
		r, err := artifact.OpenSteps(t.Context(), f.config, m.Steps)
		if err != nil {
			return
		}
		_, err = r.Raw(t.Context(), digestOf("hello"))
		f.want("raw", err, artifact.CodeBlobUnknown)
	}, func(dir, happened string) {
		if _, err := os.Stat(dir + name); err == nil && strings.HasPrefix(happened, "at the end") {
			t.Errorf("%s: it has its name", happened)
		}
	})
}

// TestLongerBlob: a blob whose file has grown is not given to anybody.
func TestLongerBlob(t *testing.T) {
	f := newFixture(t)
	digest := f.put("a", "hello")
	f.must(os.WriteFile(f.file(digest), []byte("hello and more"), 0o600))
	_, err := f.Blob(t.Context(), "a", digest)
	f.want("blob", err, artifact.CodeBlobUnknown)
	_, err = f.Stat(t.Context(), "a", digest)
	f.want("stat", err, artifact.CodeBlobUnknown)
}
