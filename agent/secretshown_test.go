package main

import (
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/wire"
)

// TestPSKInArguments: every user of the machine can read a pre-shared key in the arguments, so it is not used and nothing is sent.
func TestPSKInArguments(t *testing.T) {
	t.Parallel()
	const psk = "correct horse battery staple"
	b := systemdBox(t)
	b.g.PSK(t, psk)
	for name, args := range map[string][]string{
		"join":  {"join", "--gateway", b.url, "--state", b.base, "--no-gpu", "--token", psk},
		"check": {"join", "--check", "--gateway", b.url, "--state", b.base, "--no-gpu", "--token", psk},
		"run":   {"run", "--gateway", b.url, "--state", filepath.Join(b.root, "run-state"), "--no-gpu", "--token", psk},
	} {
		code, out, errs := b.call(args...)
		if code != 1 || !strings.Contains(out+errs, "MUSTER_TOKEN or --token-file") || strings.Contains(out+errs, psk) {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
	}
	if n := len(b.g.Requests(wire.PathRegister)); n != 0 {
		t.Errorf("%d registrations", n)
	}
	b.put("psk", psk, 0o600)
	if code, out, errs := b.join("--token-file", filepath.Join(b.root, "psk"), "--root-pin", b.g.CA.Pin()); code != 0 {
		t.Errorf("from a file: exit %d\n%s%s", code, out, errs)
	}
}

// TestMistypedPSK: join finds a mistyped key before it does anything, as it finds a mistyped token.
func TestMistypedPSK(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.put("psk", "msk_NRqoE9TkIk6y1DgEfu8m8A1cj4P8", 0o600)
	code, out, errs := b.join("--token-file", filepath.Join(b.root, "psk"))
	if code != 1 || !strings.Contains(errs, "mistyped or cut off") || strings.Contains(out, "[1/5]") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}
