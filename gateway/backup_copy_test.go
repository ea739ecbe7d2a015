package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCopyInPlace: a copy of the database that is put in place by hand undoes nothing in silence. The gateway refuses it, in its own
// directory and in another one, and takes it as a restore: then a token that was used since the copy has ended.
func TestCopyInPlace(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	token := h.token()
	copied := filepath.Join(t.TempDir(), "copy.db")
	h.muster("backup", copied, "--without-registry")
	h.agent("first", token, "--no-gpu")
	h.until("online", func() bool { return h.online("first") })
	h.gateway.stop()
	content, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	database := filepath.Join(h.data, "muster.db")
	for _, end := range []string{"-wal", "-shm"} {
		_ = os.Remove(database + end)
	}
	if err := os.WriteFile(database, content, 0o600); err != nil {
		t.Fatal(err)
	}
	h.startRefused("a copy from before")
	elsewhere := &house{t: t, data: h.data + "-elsewhere", env: h.env, args: h.args}
	if err := os.MkdirAll(elsewhere.data, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(elsewhere.data) })
	for name, from := range map[string]string{"muster.db": copied, "master.key": filepath.Join(h.data, "master.key")} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(elsewhere.data, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere.startRefused("was copied here")
	if said := h.muster("restore", copied, "--force"); !strings.Contains(said, "Open tokens have ended") {
		t.Errorf("restore says: %s", said)
	}
	h.open()
	second := h.agent("second", token, "--no-gpu")
	<-second.done
	if !strings.Contains(second.text(), "revoked") {
		t.Errorf("a token that was used since the copy is good again:\n%s", second.text())
	}
	h.gateway.stop()
	h.open() // it is this directory's own now
}

// startRefused starts the gateway, which must say why it does not serve.
func (h *house) startRefused(want string) {
	h.t.Helper()
	p := start(h.t, "refused", append([]string{asGateway + "=1"}, h.env...), os.Args[0],
		append([]string{"serve", "--data", h.data}, h.args...)...)
	<-p.done
	code, text := p.cmd.ProcessState.ExitCode(), p.text()
	if code != exitFailed || !strings.Contains(text, want) || !strings.Contains(text, "muster restore") {
		h.t.Errorf("it ends with %d, and does not say %q:\n%s", code, want, text)
	}
}
