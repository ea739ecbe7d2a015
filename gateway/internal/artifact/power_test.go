package artifact_test

import (
	"io"
	"path/filepath"
	"testing"

	"muster/agent/disk/disktest"
	"muster/gateway/internal/artifact"
)

// TestPowerCuts: after a loss of power at any step, each blob that the database names is there and whole. The database is on another disk
// here, and loses nothing.
func TestPowerCuts(t *testing.T) {
	var f *fixture
	disktest.CutEverywhere(t, func(*disktest.Machine) { f = newFixture(t) }, func(m *disktest.Machine) {
		config := f.config
		config.Folder = filepath.Join(m.Dir, "registry")
		if r, err := artifact.OpenSteps(t.Context(), config, m.Steps); err == nil {
			_ = work(t.Context(), r)
		}
	}, func(dir, happened string) {
		config := f.config
		config.Folder = filepath.Join(dir, "registry")
		r, err := artifact.Open(t.Context(), config)
		f.must(err)
		f.must(r.Each(t.Context(), func(blob artifact.Info) error {
			file, err := r.Raw(t.Context(), blob.Digest)
			if err != nil {
				t.Errorf("%s: %v", happened, err)
				return nil
			}
			defer file.Close()
			content, err := io.ReadAll(file)
			if d := blob.Digest; err != nil || d != digestOf(string(content)) && d != digest512(string(content)) {
				t.Errorf("%s: %s has %q, %v", happened, d, content, err)
			}
			return nil
		}))
	})
}
