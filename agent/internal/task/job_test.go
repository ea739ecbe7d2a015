package task_test

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/internal/task"
	"muster/agent/wire"
)

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// policyFile writes a policy into a folder of its own.
func policyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), task.PolicyFile)
	if err := os.Chmod(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFailed(t *testing.T) {
	o := task.Failed(wire.Refuse(wire.CodeTaskForbidden, "no", "yes"))
	if o.ExitCode != 1 || o.Code != wire.CodeTaskForbidden || o.Error != "no (yes)" {
		t.Errorf("%+v", o)
	}
	if o := task.Failf("step %d: %w", 2, errors.New("why")); o.ExitCode != 1 || o.Code != "" || o.Error != "step 2: why" {
		t.Errorf("%+v", o)
	}
}
