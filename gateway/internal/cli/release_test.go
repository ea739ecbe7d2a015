package cli_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// TestReleaseUsage: what is wrong with a command is said before a gateway is asked, with the next step.
func TestReleaseUsage(t *testing.T) {
	h := newHouse(t)
	h.dir = t.TempDir() // nobody answers here
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, says, hint string }{
		{"release push " + dir, "which version", "--version"},
		{"release push " + dir + " --version 1", "no agent in", "muster-agent-linux-amd64"},
		{"release push " + text + " --version 1", "is no 64-bit ELF program", "make build"},
		{"release push", "needs DIR|FILE", "muster release push"},
		{"release promote x --now --canary 5%", "say how to wait", "--now"},
		{"release promote x --soak soon", "--soak", "30m"},
		{"release promote x --soak 900ms", "no number of whole seconds", "90s"},
		{"release promote x --now --soak 0", "say how to wait", "--now"},
		{"release promote x --channel a/b", "not the name of a channel", "stable"},
		{"release promote x --channel=", "not the name of a channel", "stable"},
		{"release status --channel a/b", "not the name of a channel", "stable"},
		{"release sign " + text, "which key signs", "--key"},
		{"release sign --key " + text + " " + text, "holds no key in PEM", "muster key generate"},
		{"release pause --channel a/b", "not the name of a channel", "stable"},
		{"release login ghcr ghcr.io", "the password is empty", "--file"},
	} {
		code, stdout, stderr := h.muster(strings.Fields(c.args)...)
		if code == 0 || !strings.Contains(stderr, c.says) || !strings.Contains(stderr, c.hint) || stdout != "" {
			t.Errorf("%q: code %d\n%s\n%s", c.args, code, stdout, stderr)
		}
	}
}

// TestReleaseSignOffline signs a file without a gateway: the envelope verifies, and the person has seen what it says. What no node would
// take is not signed.
func TestReleaseSignOffline(t *testing.T) {
	h := newHouse(t)
	h.dir = t.TempDir()
	dir := t.TempDir()
	keyFile := filepath.Join(dir, "key")
	h.done("key", "generate", keyFile)
	pointer := wire.ReleasePointer{Channel: "stable", Sequence: 8, Digest: "sha256:" + strings.Repeat("ab", 32), Size: 500, Version: "0.4.0",
		Platforms: []wire.ReleasePlatform{{OS: "linux", Arch: "amd64", Program: "sha256:" + strings.Repeat("cd", 32)}},
		NotBefore: h.now, Expires: h.now.Add(time.Hour)}
	file := filepath.Join(dir, "pointer.json")
	write := func(p any) {
		raw, err := json.Marshal(p)
		if err == nil {
			err = os.WriteFile(file, append(raw, '\n'), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(pointer)
	code, stdout, stderr := h.muster("release", "sign", "--key", keyFile, file)
	if code != 0 || !strings.Contains(stderr, "number 8") || !strings.Contains(stderr, pointer.Digest) {
		t.Fatalf("code %d\n%s", code, stderr)
	}
	key, err := os.ReadFile(keyFile + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := sign.OpenRelease([]byte(strings.TrimSpace(stdout)), []ed25519.PublicKey{publicKey(t, key)})
	if err != nil || got.Sequence != 8 || got.Digest != pointer.Digest {
		t.Errorf("the envelope %s: %+v, %v", stdout, got, err)
	}
	for what, change := range map[string]func(*wire.ReleasePointer){
		"channel": func(p *wire.ReleasePointer) { p.Channel = "" }, "number": func(p *wire.ReleasePointer) { p.Sequence = 0 },
		"digest": func(p *wire.ReleasePointer) { p.Digest = "latest" }, "platforms": func(p *wire.ReleasePointer) { p.Platforms = nil },
		"time": func(p *wire.ReleasePointer) { p.Expires = p.NotBefore },
	} {
		bad := pointer
		change(&bad)
		write(bad)
		if code, stdout, _ := h.muster("release", "sign", "--key", keyFile, file); code == 0 || stdout != "" {
			t.Errorf("a pointer with a bad %s was signed", what)
		}
	}
	write(map[string]any{"task_id": "x"})
	code, _, stderr = h.muster("release", "sign", "--key", keyFile, file)
	if code == 0 || !strings.Contains(stderr, "no pointer of a release") {
		t.Errorf("a task was signed as a release: %s", stderr)
	}
}

func publicKey(t *testing.T, raw []byte) ed25519.PublicKey {
	t.Helper()
	block, _ := pem.Decode(raw)
	if block == nil {
		t.Fatal("no key in PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(ed25519.PublicKey)
}
