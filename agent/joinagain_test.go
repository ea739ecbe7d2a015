package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

func TestJoinAgainChangesNothing(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	pid := b.status().PID
	calls := len(b.calls)
	for _, args := range [][]string{{"--token", b.token}, {}} {
		code, out, errs := b.join(args...)
		if code != 0 || !strings.HasPrefix(out, "already joined as gpu-1 and online since 20") || !strings.HasSuffix(out, ": nothing to do\n") {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
	}
	if code, out, errs := b.call("join", "--state", b.base); code != 0 || !strings.HasPrefix(out, "already joined") {
		t.Errorf("with nothing said again: exit %d\n%s%s", code, out, errs)
	}
	if b.status().PID != pid || len(b.calls) != calls {
		t.Errorf("process %d became %d, calls %v", pid, b.status().PID, b.calls[calls:])
	}
	if n := len(b.g.Requests(wire.PathRegister)); n != 1 {
		t.Errorf("%d registrations", n)
	}
	code, out, errs := b.join("--log-level", "debug")
	if code != 0 || !strings.Contains(out, "[2/5] known here as gpu-1") || b.status().PID == pid {
		t.Errorf("another setting: exit %d\n%s%s", code, out, errs)
	}
}

// TestJoinGoesOnWhereItWasInterrupted removes one thing after the other that a join writes, and joins again.
func TestJoinGoesOnWhereItWasInterrupted(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	for name, damage := range map[string]func(){
		"settings":  func() { os.Remove(filepath.Join(b.root, "etc/muster/agent.env")) },
		"unit":      func() { os.Remove(filepath.Join(b.root, "etc/systemd/system/muster-agent.service")); b.stopUnit() },
		"good":      func() { os.Remove(filepath.Join(b.base, "good")) },
		"current":   func() { os.Remove(filepath.Join(b.base, "current")) },
		"the build": func() { os.RemoveAll(filepath.Join(b.base, "versions")) },
		"torn":      func() { os.Truncate(filepath.Join(b.base, "service.json"), 3); b.stopUnit() },
	} {
		damage()
		if code, out, errs := b.join(); code != 0 {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
		checkLayout(t, b)
		if code, out, _ := b.join(); code != 0 || !strings.HasPrefix(out, "already joined") {
			t.Errorf("%s: and once more: exit %d\n%s", name, code, out)
		}
	}
}

func TestJoinUpdates(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	l := service.Layout{Base: b.base}
	now := l.Current()
	old := olderBuild(t, b)
	b.command(t.Context(), "systemctl", "restart", service.Name)
	b.until("the older build is online", func() bool {
		return b.status().Phase == identity.PhaseOnline &&
			b.manager().Agent() == b.status().PID
	})
	pid := b.status().PID
	code, out, errs := b.join()
	if code != 0 || l.Current() != now || l.Good() != now || b.status().PID == pid {
		t.Errorf("exit %d, current %.8s good %.8s (before %.8s)\n%s%s", code, l.Current(), l.Good(), old, out, errs)
	}
	if entries, _ := os.ReadDir(filepath.Join(b.base, "versions")); len(entries) != 1 {
		t.Errorf("builds left: %v", entries)
	}
}

// olderBuild makes another build current and good: this program with one more byte at its end.
func olderBuild(t *testing.T, b *box) string {
	t.Helper()
	raw, err := os.ReadFile(service.OwnProgram)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "muster-agent")
	if err := os.WriteFile(path, append(raw, 'x'), 0o755); err != nil {
		t.Fatal(err)
	}
	free, err := service.SettleLock(t.Context(), b.base) // else an agent that has just begun removes what no link points at yet
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	l := service.Layout{Base: b.base}
	digest, err := l.Install(path)
	if err == nil {
		err = l.SetCurrent(digest)
	}
	if err == nil {
		err = l.SetGood(digest)
	}
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestJoinGoesBack: where the new build is not accepted, join starts the build from before.
func TestJoinGoesBack(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	old := olderBuild(t, b)
	b.command(t.Context(), "systemctl", "restart", service.Name)
	b.rule(refuse("/heartbeat", 403, wire.CodeBanned))
	code, out, errs := b.call("join", "--gateway", b.url, "--state", b.base)
	l := service.Layout{Base: b.base}
	if code != 1 || l.Current() != old || l.Good() != old || !strings.Contains(out, "went back to the version before") ||
		!strings.Contains(out, "because of banned") {
		t.Errorf("exit %d, current %.8s, want %.8s\n%s%s", code, l.Current(), old, out, errs)
	}
}

// TestJoinLocksBuilds: join replaces no build without the lock that keeps an agent at work from removing it again.
func TestJoinLocksBuilds(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	old := olderBuild(t, b)
	lock := filepath.Join(b.base, "settle.lock")
	os.Remove(lock)
	if err := os.Mkdir(lock, 0o755); err != nil {
		t.Fatal(err)
	}
	code, out, errs := b.call("join", "--gateway", b.url, "--state", b.base)
	if current := (service.Layout{Base: b.base}).Current(); code != 1 || current != old || !strings.Contains(out, "[3/5] failed: ") || !strings.Contains(out, lock) {
		t.Errorf("exit %d, current %.8s, want %.8s\n%s%s", code, current, old, out, errs)
	}
}

// TestJoinOnAnotherInstance: join does not use an identity that came with a copied disk.
func TestJoinOnAnotherInstance(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined("--provider", "vast_ai", "--instance-id", "1")
	code, out, errs := b.join("--provider", "vast_ai", "--instance-id", "2")
	if code != 1 || !strings.Contains(out, "belongs to instance 1 and this is 2") || !strings.Contains(out, "MUSTER_TOKEN") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	b.online()
	code, out, _ = b.join("--provider", "vast_ai", "--instance-id", "2", "--token", b.token)
	if code != 1 || !strings.Contains(out, "token_used") { // this gateway knows no bound instances: it was asked, and refused
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestJoinInterrupted(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.rule(func(q gatewaytest.Request) *gatewaytest.Reply {
		if q.Path == wire.PathRegister {
			cancel()
			return gatewaytest.Refusal(503, wire.CodeUnavailable)
		}
		return nil
	})
	var out, errs screen
	code := execute(ctx, b.program(&out, &errs), []string{"join", "--gateway", b.url, "--state", b.base, "--name", "gpu-1", "--no-gpu",
		"--token", b.token})
	if code != 1 || !strings.Contains(out.String(), "[2/5] failed: interrupted: the same command goes on from here") {
		t.Errorf("exit %d\n%s%s", code, out.String(), errs.String())
	}
	b.rule(nil)
	b.joined()
}
