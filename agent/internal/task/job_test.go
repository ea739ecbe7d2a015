package task_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

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

// TestProbe: a task can measure the way in both directions, and hears of an answer that is too short.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		var up, down, short error
		d.handle = func(ctx context.Context, job task.Job) task.Outcome {
			up = job.Probe(ctx, make([]byte, wire.MaxTaskPiece), 0)
			down = job.Probe(ctx, nil, wire.MaxTaskPiece)
			short = job.Probe(ctx, nil, wire.MaxTaskPiece+1)
			return task.Outcome{}
		}
		id := d.diag()
		d.run(time.Minute)
		if r := d.result(id); up != nil || down != nil || short == nil || r.Status != wire.TaskCompleted || r.Output.Bytes != 0 {
			t.Errorf("%v, %v, %v, %+v", up, down, short, r)
		}
	})
}
