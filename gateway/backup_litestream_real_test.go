//go:build real

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
	"muster/store"
)

// TestRealLitestream: Litestream copies the database of a gateway at work. When the machine dies, its copy is no database to start with: it
// comes in as a restore, and the nodes that it knows come back.
func TestRealLitestream(t *testing.T) {
	program, err := lab.Program("github.com/benbjohnson/litestream/cmd/litestream", "v0.5.18")
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t)
	replica := "file://" + filepath.Join(t.TempDir(), "replica")
	copies := start(t, "litestream", nil, program, "replicate", filepath.Join(h.data, "muster.db"), replica)
	agent := h.agent("first", h.token(), "--no-gpu")
	h.until("online", func() bool { return h.online("first") })
	open := h.token()
	restored := filepath.Join(t.TempDir(), "copy.db")
	h.until("the copy has what was last written", func() bool {
		_ = os.Remove(restored)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, program, "restore", "-o", restored, replica).CombinedOutput(); err != nil {
			t.Logf("not yet: %s", out)
			return false
		}
		text, err := os.ReadFile(restored)
		public, _, _ := strings.Cut(strings.TrimPrefix(open, "mse_"), "_")
		return err == nil && strings.Contains(string(text), public) && strings.Contains(string(text), store.MetaAliveAt)
	})
	_ = h.gateway.cmd.Process.Signal(syscall.SIGKILL)
	<-h.gateway.done
	copies.kill()

	key, err := os.ReadFile(filepath.Join(h.data, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	next := &house{t: t, data: h.data + "-next", env: h.env, args: h.args, url: h.url}
	t.Cleanup(func() { os.RemoveAll(next.data) })
	for name, content := range map[string][]byte{"muster.db": nil, "master.key": key} {
		if content == nil {
			if content, err = os.ReadFile(restored); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(next.data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(next.data, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next.startRefused("was copied here")
	if said := next.muster("restore", restored, "--force"); !strings.Contains(said, "Open tokens have ended") {
		t.Errorf("restore says: %s", said)
	}
	next.open()
	next.until("the node is back", func() bool { return next.online("first") })
	second := next.agent("second", open, "--no-gpu")
	<-second.done
	if !strings.Contains(second.text(), "revoked") || !alive(agent) {
		t.Errorf("an open token of before is good:\n%s", second.text())
	}
}
