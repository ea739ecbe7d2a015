package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// tree lists what is on the box: paths, modes and contents.
func (b *box) tree() string {
	b.t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(b.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		out.WriteString(strings.TrimPrefix(path, b.root) + " " + info.Mode().String() + "\n")
		if info.Mode().IsRegular() {
			raw, err := os.ReadFile(path)
			out.Write(raw)
			return err
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out.String()
}

func TestLeave(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"systemd", "supervisor", "onstart"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			switch kind {
			case "systemd":
				b.mkdir("run/systemd/system")
			case "onstart":
				b.mkdir("root")
				os.WriteFile(filepath.Join(b.root, "root/onstart.sh"), []byte("#!/bin/sh\nsleep infinity\n"), 0o755)
			}
			before := b.tree()
			b.joined()
			b.online()
			code, out, errs := b.call("leave", "--state", b.base)
			if code != 0 || !strings.Contains(out, "told "+b.url+": node gpu-1 is retired") ||
				!strings.HasSuffix(out, "left: this machine is as it was before\n") {
				t.Errorf("exit %d\n%s%s", code, out, errs)
			}
			if after := b.tree(); after != before {
				t.Errorf("before\n%safter\n%s", before, after)
			}
			if identity.Running(b.base) || len(b.g.Requests("/leave")) == 0 {
				t.Error("the agent runs, or the gateway was not told")
			}
			if code, out, _ := b.call("leave", "--state", b.base); code != 0 || !strings.Contains(out, "nothing to do") {
				t.Errorf("again: exit %d\n%s", code, out)
			}
		})
	}
}

// TestLeaveAfterAMove: the agent ran with another URL of the gateway than its node joined at. leave tells the gateway at that one.
func TestLeaveAfterAMove(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	b.online()
	old := b.read("base/identity.json")
	b.put("base/identity.json", strings.ReplaceAll(old, b.url, "https://127.0.0.1:1"), 0o600)
	if err := os.Remove(filepath.Join(b.root, "etc/muster/agent.env")); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := b.call("leave", "--state", b.base); code != 0 || !strings.Contains(out, "told "+b.url+": node gpu-1 is retired") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestLeaveFindsTheState(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	if code, out, errs := b.call("status"); code != 0 || !strings.Contains(out, "online") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := b.call("leave"); code != 0 || !strings.Contains(out, "removed "+b.base) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestLeaveWithoutTheGateway(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	b.rule(func(q gatewaytest.Request) *gatewaytest.Reply {
		if strings.HasSuffix(q.Path, "/leave") {
			return &gatewaytest.Reply{Hangup: true}
		}
		return nil
	})
	code, out, errs := b.call("leave", "--state", b.base)
	if code != 1 || !strings.Contains(errs, "nothing was removed") || !strings.Contains(errs, "--force") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	b.online() // goes on as before
	code, out, errs = b.call("leave", "--state", b.base, "--force")
	if code != 0 || !strings.Contains(out, "the gateway was not told") || !strings.Contains(out, "muster node retire gpu-1") {
		t.Errorf("forced: exit %d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(b.base); err == nil {
		t.Error("the state is left")
	}
}

// TestLeaveWhatIsRetired: leave goes on where the gateway has retired this node already.
func TestLeaveWhatIsRetired(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	b.rule(refuse("/leave", 403, wire.CodeRetired))
	if code, out, errs := b.call("leave", "--state", b.base); code != 0 || !strings.Contains(out, "given this node up already (retired)") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// TestLeaveInAConflict: a copy that leaves does not tell the operator to retire the machine that stays.
func TestLeaveInAConflict(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	b.rule(refuse("/leave", 403, wire.CodeIdentityConflict))
	code, out, errs := b.call("leave", "--state", b.base, "--force")
	if code != 0 || strings.Contains(out, "node retire") || !strings.Contains(out, "muster help identity-trouble") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestLeaveAfterAnInterruptedJoin(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	before := b.tree()
	if code, _, _ := b.join(); code != 1 {
		t.Errorf("joined without a token: exit %d", code)
	}
	code, out, errs := b.call("leave", "--state", b.base)
	if after := b.tree(); code != 0 || after != before {
		t.Errorf("exit %d\n%s%s\n%s", code, out, errs, after)
	}
}

func TestLeaveADamagedIdentity(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	os.WriteFile(filepath.Join(b.base, "identity.json"), []byte("{"), 0o600)
	if code, _, errs := b.call("leave", "--state", b.base); code != 1 || !strings.Contains(errs, "damaged") ||
		!strings.Contains(errs, "--force") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if code, _, errs := b.call("leave", "--state", b.base, "--force"); code != 0 {
		t.Errorf("forced: exit %d\n%s", code, errs)
	}
}
