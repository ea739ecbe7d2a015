package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestBackupRestore: a copy is made while the gateway is at work. After a restore nodes come back that have renewed since the copy, also
// where keys were rotated since. Open tokens have ended, and no certificate is taken over twice.
func TestBackupRestore(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--cert-ttl", "5s", "--plain-listen", "127.0.0.1:0")
	tls := h.url
	plain := h.plain()
	direct := h.agent("direct", h.token(), "--no-gpu")
	h.url = plain
	signed := h.agent("signed", h.token(), "--no-gpu")
	h.url = tls
	for _, name := range []string{"direct", "signed"} {
		h.until("online", func() bool { return h.online(name) })
	}
	open := h.token("--uses", "3")
	file := filepath.Join(t.TempDir(), "backup.db")
	h.underLoad(func() { h.muster("backup", file) })
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Fatalf("backup: %v, %v", info, err)
	}
	if code, _, errs := h.try("backup", file); code != exitFailed || !strings.Contains(errs, "already") {
		t.Errorf("over an existing file: %d %s", code, errs)
	}
	h.agent("late", h.token(), "--no-gpu")
	h.until("online", func() bool { return h.online("late") })
	h.muster("key", "rotate", "--answer", "--now")
	at := map[string]int{}
	for _, name := range []string{"direct", "signed"} {
		n, _ := h.node(name)
		at[name] = n.Certificate.Generation
		h.until(name+" renews twice", func() bool { n, _ := h.node(name); return n.Certificate.Generation >= at[name]+2 })
	}
	h.gateway.stop()
	if code, _, errs := h.try("restore", file); code != exitFailed || !strings.Contains(errs, "--force") {
		t.Errorf("over a database: %d %s", code, errs)
	}
	if said := h.muster("restore", file, "--force"); !strings.Contains(said, "before-restore-") {
		t.Errorf("restore says: %s", said)
	}
	h.open()
	for _, name := range []string{"direct", "signed"} {
		h.beats(name)
		h.until(name+" is back", func() bool { return h.online(name) && h.phase(name) == "online" })
		n, _ := h.node(name)
		if n.Certificate.Generation < at[name]+2 {
			t.Errorf("%s is back with generation %d", name, n.Certificate.Generation)
		}
		generation := n.Certificate.Generation
		h.until(name+" renews again", func() bool { n, _ := h.node(name); return n.Certificate.Generation > generation })
	}
	if _, ok := h.node("late"); ok {
		t.Error("a node that the backup does not know is there")
	}
	var events string
	h.until("the node that came since the backup is refused", func() bool {
		events = h.muster("events", "--security")
		return strings.Contains(events, "adopt.refused")
	})
	if strings.Count(events, "node.adopted") != 2 || !strings.Contains(events, "gateway.restored") {
		t.Errorf("events:\n%s", events)
	}
	stranger := h.agent("stranger", open, "--no-gpu")
	<-stranger.done
	if !strings.Contains(stranger.text(), "revoked") {
		t.Errorf("an open token of before is good:\n%s", stranger.text())
	}
	for _, agent := range []*process{direct, signed} {
		if !alive(agent) {
			t.Error("an agent ended")
		}
	}
}

// underLoad runs something while tokens are made as fast as they can be.
func (h *house) underLoad(run func()) {
	h.t.Helper()
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					h.try("token", "create")
				}
			}
		})
	}
	run()
	close(stop)
	wait.Wait()
}

// TestRestoreRefuses: without what it needs a restore says so, and leaves nothing behind.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "backup.db")
	h.muster("backup", file)
	if code, _, errs := h.try("restore", file, "--force"); code != exitFailed || !strings.Contains(errs, "stopped") {
		t.Errorf("on a running gateway: %d %s", code, errs)
	}
	key, err := os.ReadFile(filepath.Join(h.data, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	other := base64.StdEncoding.EncodeToString(make([]byte, 32))
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("not a database at all, but long enough to be looked at"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ key, file, want string }{
		"no master key":      {"", file, "only with the master key"},
		"another master key": {other, file, "another master key"},
		"no backup":          {string(key), filepath.Join(t.TempDir(), "none"), "no such file"},
		"not a database":     {string(key), garbage, "cannot be used"},
	} {
		data := t.TempDir()
		if c.key != "" {
			if err := os.WriteFile(filepath.Join(data, "master.key"), []byte(c.key), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		code, _, errs := h.try("restore", c.file, "--data", data)
		if code != exitFailed || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %s", name, code, errs)
		}
		if _, err := os.Stat(filepath.Join(data, "muster.db")); err == nil {
			t.Errorf("%s: a database was left", name)
		}
		if left, _ := filepath.Glob(filepath.Join(data, "restore-*")); len(left) > 0 {
			t.Errorf("%s: %v was left", name, left)
		}
	}
}

// TestMasterRotationWhole: a real gateway with a node goes on after its master key was rotated.
func TestMasterRotationWhole(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.agent("node", h.token(), "--no-gpu")
	h.until("online", func() bool { return h.online("node") })
	token := h.token()
	if code, _, errs := h.try("key", "rotate", "--master"); code != exitFailed || !strings.Contains(errs, "stopped") {
		t.Errorf("on a running gateway: %d %s", code, errs)
	}
	h.gateway.stop()
	h.muster("key", "rotate", "--master")
	h.open()
	h.beats("node")
	h.agent("second", token, "--no-gpu")
	h.until("a token of before enrols", func() bool { return h.online("second") })
}

// TestMasterKeyOut: the command writes the key of a gateway that has its key from the environment into a new file.
func TestMasterKeyOut(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.gateway.stop()
	file := filepath.Join(t.TempDir(), "new.key")
	if said := h.muster("key", "rotate", "--master", "--master-key-out", file); !strings.Contains(said, file) {
		t.Errorf("it says: %s", said)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if code, _, errs := h.try("key", "export", "--trust", filepath.Join(t.TempDir(), "trust.key")); code != exitFailed ||
		!strings.Contains(errs, "does not open") {
		t.Errorf("with the key before: %d %s", code, errs)
	}
}
