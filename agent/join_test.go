package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

func TestJoinSystemd(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
	out := b.joined("--label", "tier=a b")
	for i, want := range []string{
		`\[1/5\] gateway https://127\.0\.0\.1:\d+: reachable, its own certificate, its clock and this machine's agree`,
		`\[2/5\] enrolled as gpu-1 \(tenant default\), certificate until 20..-..-..T..:..:..Z`,
		`\[3/5\] agent dev linux/\w+ sha256:[0-9a-f]{12}\.\.\. in .*/base/versions/[0-9a-f]{64}/muster-agent`,
		`\[4/5\] systemd: muster-agent\.service enabled and started`,
		`\[5/5\] online: GPUs are not looked at \(--no-gpu\), first heartbeat accepted`,
		`joined\. .*/base/current/muster-agent status .*/base/current/muster-agent leave`,
	} {
		if line := strings.Split(out, "\n")[i]; !regexp.MustCompile("^" + want + "$").MatchString(line) {
			t.Errorf("line %d: %s", i, line)
		}
	}
	if calls := strings.Join(b.calls, "; "); calls != "systemctl show muster-agent.service --property=ExecStart --value; systemctl enable --no-reload muster-agent.service; systemctl start muster-agent.service" {
		t.Errorf("calls %s", calls)
	}
	checkLayout(t, b)
	if found := b.holding(b.token); found != nil {
		t.Errorf("the token is in %v", found)
	}
	settings, err := service.ReadSettings(filepath.Join(b.root, "etc/muster/agent.env"))
	want := service.Settings{
		"MUSTER_GATEWAY": b.url, "MUSTER_STATE": b.base, "MUSTER_NAME": "gpu-1", "MUSTER_LABEL": "tier=a b", "MUSTER_NO_GPU": "true", "MUSTER_INTERVAL": "200ms",
	}
	if err != nil || !settings.Equal(want) {
		t.Errorf("settings %v, %v", settings, err)
	}
	b.online()
}

// checkLayout checks names, links and modes of what join wrote.
func checkLayout(t *testing.T, b *box) {
	t.Helper()
	digest, err := service.Digest(ownProgram)
	if err != nil {
		t.Fatal(err)
	}
	l := service.Layout{Base: b.base}
	if l.Current() != digest || l.Good() != digest {
		t.Errorf("current %s, good %s, want %s", l.Current(), l.Good(), digest)
	}
	for path, want := range map[string]fs.FileMode{
		b.base: 0o700, l.Version(digest): 0o755, filepath.Join(b.base, "identity.json"): 0o600, filepath.Join(b.base, "agent.log"): 0o600,
		filepath.Join(b.root, "etc/muster/agent.env"): 0o600,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestJoinAgainChangesNothing(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
	b.joined()
	pid, calls := b.status().PID, len(b.calls)
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

// TestJoinGoesOnWhereItWasInterrupted takes away one thing after the other that a join writes.
func TestJoinGoesOnWhereItWasInterrupted(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
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
	b := newBox(t)
	b.mkdir("run/systemd/system")
	b.joined()
	l := service.Layout{Base: b.base}
	now := l.Current()
	old := olderBuild(t, b)
	b.command(t.Context(), "systemctl", "restart", service.Name)
	b.until("the older build is online", func() bool { return b.status().Phase == identity.PhaseOnline && b.manager().Agent() == b.status().PID })
	pid := b.status().PID
	code, out, errs := b.join()
	if code != 0 || l.Current() != now || l.Good() != now || b.status().PID == pid {
		t.Errorf("exit %d, current %.8s good %.8s (before %.8s)\n%s%s", code, l.Current(), l.Good(), old, out, errs)
	}
	if entries, _ := os.ReadDir(filepath.Join(b.base, "versions")); len(entries) != 1 {
		t.Errorf("builds left: %v", entries)
	}
}

// olderBuild makes another build current and good: this program with a byte behind it.
func olderBuild(t *testing.T, b *box) string {
	t.Helper()
	raw, err := os.ReadFile(ownProgram)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "muster-agent")
	if err := os.WriteFile(path, append(raw, 'x'), 0o755); err != nil {
		t.Fatal(err)
	}
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

// TestJoinGoesBack returns to the build that was good where the next one is not accepted.
func TestJoinGoesBack(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
	b.joined()
	old := olderBuild(t, b)
	b.command(t.Context(), "systemctl", "restart", service.Name)
	b.rule(func(q gatewaytest.Request) *gatewaytest.Reply {
		if strings.HasSuffix(q.Path, "/heartbeat") {
			return gatewaytest.Refusal(403, wire.CodeBanned)
		}
		return nil
	})
	code, out, errs := b.call("join", "--gateway", b.url, "--state", b.base)
	l := service.Layout{Base: b.base}
	if code != 1 || l.Current() != old || l.Good() != old || !strings.Contains(out, "went back to the version before") || !strings.Contains(out, "because of banned") {
		t.Errorf("exit %d, current %.8s, want %.8s\n%s%s", code, l.Current(), old, out, errs)
	}
}

// TestJoinIsNotOnlineInTime ends, and says what the agent said.
func TestJoinIsNotOnlineInTime(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
	b.rule(func(q gatewaytest.Request) *gatewaytest.Reply {
		if strings.HasSuffix(q.Path, "/heartbeat") {
			return gatewaytest.Refusal(503, wire.CodeUnavailable)
		}
		return nil
	})
	var out, errs screen
	p := b.program(&out, &errs)
	p.patience = 3e9
	code := p.main(t.Context(), []string{"join", "--gateway", b.url, "--state", b.base, "--name", "gpu-1", "--no-gpu", "--token", b.token})
	for _, want := range []string{"not online yet, trying again: ", "because of unavailable", "[5/5] failed: not online after 3s: ", "agent.log", "the same command waits again"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("exit %d, no %q in\n%s%s", code, want, out.String(), errs.String())
		}
	}
	b.rule(nil)
	if code, out, errs := b.join(); code != 0 {
		t.Errorf("again: exit %d\n%s%s", code, out, errs)
	}
}

func TestJoinRefusesAnotherGateway(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
	b.joined("--root-pin", b.g.CA.Pin()) // the other gateway has another root
	other := newBox(t)
	t.Setenv(asAgent, b.root)
	args := []string{"join", "--gateway", other.url, "--state", b.base, "--token", other.token}
	code, out, errs := b.call(args...)
	if code != 1 || !strings.Contains(errs, b.url) || !strings.Contains(errs, other.url) || !strings.Contains(errs, "--force") || out != "" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	b.online()
	code, out, errs = b.call(append(args, "--force")...)
	if code != 0 || !strings.Contains(out, "kept in ") {
		t.Errorf("forced: exit %d\n%s%s", code, out, errs)
	}
	other.online()
	if got := b.read("etc/muster/agent.env"); !strings.Contains(got, "MUSTER_GATEWAY="+other.url+"\n") || strings.Contains(got, "ROOT_PIN") {
		t.Errorf("settings %s", got)
	}
}

// TestJoinUnderAnotherAddress changes over without a token where it is the same gateway.
func TestJoinUnderAnotherAddress(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
	b.joined()
	moved := gatewaytest.Listen(t, b.g, b.g.Serving(t))
	code, out, errs := b.call("join", "--gateway", moved, "--state", b.base, "--force")
	if code != 0 || !strings.Contains(out, "known here as gpu-1") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, out, _ := b.call("join", "--gateway", moved, "--state", b.base); code != 0 || !strings.HasPrefix(out, "already joined") {
		t.Errorf("again: exit %d\n%s", code, out)
	}
	if n := len(b.g.Requests(wire.PathRegister)); n != 1 {
		t.Errorf("%d registrations", n)
	}
}

// TestJoinAfterBeingRefused enrols afresh with the token where the identity that is there is worth nothing any more.
func TestJoinAfterBeingRefused(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
	b.joined()
	b.g.Forget()
	b.until("the agent is refused", func() bool { return b.status().Phase == identity.PhaseRefused })
	again := newBox(t)
	b.rule(nil)
	t.Setenv(asAgent, b.root)
	if code, out, errs := b.call("join", "--state", b.base); code != 1 || !strings.Contains(out, "unknown_certificate") {
		t.Errorf("without a token: exit %d\n%s%s", code, out, errs)
	}
	code, out, errs := b.call("join", "--gateway", again.url, "--state", b.base, "--force", "--token", again.token)
	if code != 0 || !strings.Contains(out, "enrolled as gpu-1") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func (b *box) read(path string) string {
	raw, err := os.ReadFile(filepath.Join(b.root, path))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func TestJoinFailuresHaveANextStep(t *testing.T) {
	mistyped := func(token string) string { return token[:len(token)-1] + string(token[len(token)-1]^1) }
	for _, test := range []struct {
		name   string
		script func(gatewaytest.Request) *gatewaytest.Reply
		args   func(*box) []string
		code   int
		want   []string
	}{
		{"mistyped token", nil, func(b *box) []string { return []string{"--token", mistyped(b.token)} }, 1, []string{"typ"}},
		{"no token", nil, func(b *box) []string { return nil }, 1, []string{"[2/5] failed: ", "MUSTER_TOKEN", "muster token create"}},
		{"nobody there", nil, func(b *box) []string { return []string{"--token", b.token, "--gateway", "https://127.0.0.1:1"} }, 1,
			[]string{"[1/5] failed: ", "nothing listens there", "trying again"}},
		{"wrong pin", nil, func(b *box) []string {
			return []string{"--token", b.token, "--root-pin", "sha256:" + strings.Repeat("00", 32)}
		}, 1,
			[]string{"[1/5] failed: ", "another gateway", "compare it"}},
		{"odd path", nil, func(b *box) []string { return []string{"--state", b.base + " x"} }, 2, []string{"--state"}},
		{"used token", refuse(wire.PathRegister, 409, wire.CodeTokenUsed), func(b *box) []string { return []string{"--token", b.token} }, 1,
			[]string{"[2/5] failed: ", "token_used", "do something"}},
		{"edge", edge, func(b *box) []string { return []string{"--token", b.token} }, 1,
			[]string{"does not answer like a gateway", "Cloudflare", "[2/5] failed: ", "the token is not lost"}},
		{"heartbeats refused", refuse("/heartbeat", 403, wire.CodeBanned), func(b *box) []string { return nil }, 1, []string{"[5/5] failed: ", "banned", "do something"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBox(t)
			b.mkdir("run/systemd/system")
			if strings.HasPrefix(test.name, "heartbeats") {
				b.joined()
				b.stopUnit()
				os.Remove(filepath.Join(b.base, "good"))
			}
			b.rule(func(q gatewaytest.Request) *gatewaytest.Reply {
				if test.script != nil {
					if reply := test.script(q); reply != nil {
						return reply
					}
				}
				return nil
			})
			var out, errs screen
			p := b.program(&out, &errs)
			p.patience = 3e9
			code := p.main(t.Context(), append([]string{"join", "--gateway", b.url, "--state", b.base, "--name", "gpu-1", "--no-gpu"}, test.args(b)...))
			text := out.String() + errs.String()
			if code != test.code || strings.Contains(text, b.token) {
				t.Errorf("exit %d\n%s", code, text)
			}
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}

func refuse(suffix string, status int, code string) func(gatewaytest.Request) *gatewaytest.Reply {
	return func(q gatewaytest.Request) *gatewaytest.Reply {
		if strings.HasSuffix(q.Path, suffix) {
			return gatewaytest.Refusal(status, code)
		}
		return nil
	}
}

func edge(gatewaytest.Request) *gatewaytest.Reply {
	return &gatewaytest.Reply{
		Status: 403, Unproven: true, Header: map[string]string{"Cf-Mitigated": "challenge", "Cf-Ray": "x", "Content-Type": "text/html"},
		Body: []byte("<html><title>Just a moment</title>"),
	}
}

func TestJoinWaitsForNobodyElsesAgent(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
	directory, err := identity.Open(b.base)
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	directory.SaveStatus(identity.Status{PID: os.Getpid(), Phase: identity.PhaseOnline})
	if code, out, errs := b.join("--token", b.token); code != 1 || !strings.Contains(errs, "started by hand") || out != "" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestJoinServiceFailureIsSaid(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
	b.tools = func(call string) ([]byte, error) {
		if strings.Contains(call, "systemctl start") {
			return []byte("Job for muster-agent.service failed."), fmt.Errorf("exit status 1")
		}
		return nil, nil
	}
	code, out, _ := b.join("--token", b.token)
	if code != 1 || !strings.Contains(out, "[4/5] failed: ") || !strings.Contains(out, "Job for muster-agent.service failed.") || !strings.Contains(out, "journalctl") {
		t.Errorf("exit %d\n%s", code, out)
	}
	b.tools = nil
	if code, out, errs := b.join(); code != 0 || !strings.Contains(out, "known here as gpu-1") {
		t.Errorf("again, without the token: exit %d\n%s%s", code, out, errs)
	}
}

func TestJoinShowsGPUs(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
	smi := filepath.Join(t.TempDir(), "nvidia-smi")
	script := "#!/bin/sh\ncase \"$*\" in *--help*) echo '\"index\"'; echo '\"uuid\"'; echo '\"name\"' ;; *) echo '0, GPU-1, NVIDIA H100 80GB HBM3' ;; esac\n"
	if err := os.WriteFile(smi, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	code, out, errs := b.call("join", "--gateway", b.url, "--state", b.base, "--name", "gpu-1", "--nvidia-smi", smi, "--token", b.token)
	if code != 0 || !strings.Contains(out, "[5/5] online: 1x NVIDIA H100 80GB HBM3, first heartbeat accepted") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// TestJoinOnAnotherInstance does not use an identity that came with a copied disk.
func TestJoinOnAnotherInstance(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
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
	b := newBox(t)
	b.mkdir("run/systemd/system")
	ctx, cancel := context.WithCancel(t.Context())
	b.rule(func(q gatewaytest.Request) *gatewaytest.Reply {
		if q.Path == wire.PathRegister {
			cancel()
			return gatewaytest.Refusal(503, wire.CodeUnavailable)
		}
		return nil
	})
	var out, errs screen
	code := b.program(&out, &errs).main(ctx, []string{"join", "--gateway", b.url, "--state", b.base, "--name", "gpu-1", "--no-gpu", "--token", b.token})
	if code != 1 || !strings.Contains(out.String(), "[2/5] failed: interrupted: the same command goes on from here") {
		t.Errorf("exit %d\n%s%s", code, out.String(), errs.String())
	}
	b.rule(nil)
	b.joined()
}

func TestProgramThatCannotRun(t *testing.T) {
	var j joining
	path := filepath.Join(t.TempDir(), "muster-agent")
	for mode, want := range map[fs.FileMode]string{0o644: "mounted noexec: give --state", 0o755: "use the agent for this machine's platform"} {
		os.Remove(path)
		if err := os.WriteFile(path, []byte{0x7f, 'E', 'L', 'F', 0, 0}, mode); err != nil {
			t.Fatal(err)
		}
		if err := j.tryProgram(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// TestJoinForcedInVain: a changeover that the other gateway refuses leaves the node at work where it was.
func TestJoinForcedInVain(t *testing.T) {
	b := newBox(t)
	b.mkdir("run/systemd/system")
	b.joined()
	other := newBox(t)
	other.rule(func(q gatewaytest.Request) *gatewaytest.Reply {
		return gatewaytest.Refusal(403, wire.CodeTokenRevoked)
	})
	t.Setenv(asAgent, b.root)
	code, out, errs := b.call("join", "--gateway", other.url, "--state", b.base, "--token", other.token, "--force")
	if code != 1 || !strings.Contains(out, "nothing has changed") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	b.online()
	state := identity.State{}
	if err := json.Unmarshal([]byte(b.read("base/identity.json")), &state); err != nil || state.Current == nil || state.Gateway.URL != b.url {
		t.Errorf("%v, the identity is of %q", err, state.Gateway.URL)
	}
}
