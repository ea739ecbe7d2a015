package gateway

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/disk/disktest"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/datadir"
)

// TestKeyMoves: wherever the power goes while the master key moves away from the database, one of the two places has it. Once it has moved,
// it lies beside the database no more.
func TestKeyMoves(t *testing.T) {
	const inData, key = "/data/master.key", "the master key"
	done := false
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		path := filepath.Join(m.Dir, inData)
		if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(key), 0o600)); err != nil {
			t.Fatal(err)
		}
	}, func(m *disktest.Machine) {
		s := &service{Session: &cli.Session{Env: cli.Env{Stdout: io.Discard}}, Machine: cli.Machine{Root: m.Dir, Disk: m.Steps}}
		done = s.keepKey([]byte(key), inData, inData) == nil
	}, func(dir, happened string) {
		kept, _ := os.ReadFile(filepath.Join(dir, datadir.ServiceKey))
		before, _ := os.ReadFile(filepath.Join(dir, inData))
		if string(kept) != key && string(before) != key || done && (string(kept) != key || before != nil) {
			t.Errorf("%s, done %t: %q, and beside the database %q", happened, done, kept, before)
		}
	})
	if !done {
		t.Error("the key was not moved")
	}
}
