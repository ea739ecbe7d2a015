package backup

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/disk/disktest"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/masterkey"
)

// TestServiceKeyPowerCuts: the installed service has its old key or the restored one, wherever the power goes. Once it was placed, it has
// the restored one, and the old one is aside.
func TestServiceKeyPowerCuts(t *testing.T) {
	before, key := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	aside := ""
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		file := filepath.Join(m.Dir, datadir.ServiceKey)
		text := []byte(base64.StdEncoding.EncodeToString(before) + "\n")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}, func(m *disktest.Machine) {
		s := &site{keys: masterkey.Source{Root: m.Dir, Service: true, Disk: m.Steps}, disk: m.Steps}
		aside = ""
		place, err := s.prepareKey(key)
		if err != nil {
			return
		}
		if _, kept, err := place(); err == nil {
			aside = filepath.Base(kept)
		}
	}, func(dir, happened string) {
		file := filepath.Join(dir, datadir.ServiceKey)
		now, err := masterkey.Read(file)
		if !bytes.Equal(now, key) && (aside != "" || !bytes.Equal(now, before)) {
			t.Errorf("%s: the service's key is %x, %v", happened, now, err)
		}
		if old, err := masterkey.Read(filepath.Join(filepath.Dir(file), aside)); aside != "" && !bytes.Equal(old, before) {
			t.Errorf("%s: the key aside is %x, %v", happened, old, err)
		}
	})
	if aside == "" {
		t.Error("the key was not placed")
	}
}
