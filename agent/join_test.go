package main

import (
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
	t.Parallel()
	b := systemdBox(t)
	out := b.joined("--label", "tier=a b")
	for i, want := range []string{
		`\[1/5\] gateway https://127\.0\.0\.1:\d+: reachable, its own certificate, its clock and this machine's agree`,
		`\[2/5\] enrolled as gpu-1 \(tenant default\), certificate until 20..-..-..T..:..:..Z`,
		`\[3/5\] agent dev linux/\w+ sha256:[0-9a-f]{12}\.\.\. in \S*/base`,
		`\[4/5\] systemd: muster-agent\.service enabled and started`,
		`\[5/5\] online: GPUs are not looked at \(--no-gpu\), first heartbeat accepted`,
		`joined\. How it is:`, `  \S*/base/current/muster-agent status`, `To give it back:`, `  \S*/base/current/muster-agent leave`,
	} {
		if line := strings.Split(out, "\n")[i]; !regexp.MustCompile("^" + want + "$").MatchString(line) {
			t.Errorf("line %d: %s", i, line)
		}
	}
	if calls := strings.Join(b.calls, "; "); calls != "systemctl show muster-agent.service --property=ExecStart --value; "+
		"systemctl enable --no-reload muster-agent.service; systemctl start muster-agent.service" {
		t.Errorf("calls %s", calls)
	}
	checkLayout(t, b)
	if found := b.holding(b.token); found != nil {
		t.Errorf("the token is in %v", found)
	}
	settings, err := service.ReadSettings(filepath.Join(b.root, "etc/muster/agent.env"))
	want := service.Settings{
		"MUSTER_GATEWAY": b.url, "MUSTER_STATE": b.base, "MUSTER_NAME": "gpu-1", "MUSTER_LABEL": "tier=a b", "MUSTER_NO_GPU": "true",
		"MUSTER_INTERVAL": "200ms",
	}
	if err != nil || !settings.Equal(want) {
		t.Errorf("settings %v, %v", settings, err)
	}
	b.online()
}

// checkLayout checks names, links and modes of what join wrote.
func checkLayout(t *testing.T, b *box) {
	t.Helper()
	digest, err := service.Digest(service.OwnProgram)
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

// TestJoinIsNotOnlineInTime: join ends, and prints the agent's last error.
func TestJoinIsNotOnlineInTime(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.rule(refuse("/heartbeat", 503, wire.CodeUnavailable))
	var out, errs screen
	p := b.program(&out, &errs)
	p.Patience = brief()
	code := execute(t.Context(), p, []string{"join", "--gateway", b.url, "--state", b.base, "--name", "gpu-1", "--no-gpu", "--token", b.token})
	for _, want := range []string{"not online yet, trying again: ", "because of unavailable",
		"[5/5] failed: not online after " + brief().String() + ": ",
		"agent.log", "the same command waits again"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("exit %d, no %q in\n%s%s", code, want, out.String(), errs.String())
		}
	}
	b.rule(nil)
	if code, out, errs := b.join(); code != 0 {
		t.Errorf("again: exit %d\n%s%s", code, out, errs)
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
	t.Parallel()
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
		{"heartbeats refused", refuse("/heartbeat", 403, wire.CodeBanned), func(b *box) []string { return nil }, 1,
			[]string{"[5/5] failed: ", "banned", "do something"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := systemdBox(t)
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
			p.Patience = brief()
			code := execute(t.Context(), p, append([]string{"join", "--gateway", b.url, "--state", b.base, "--name", "gpu-1", "--no-gpu"},
				test.args(b)...))
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
	t.Parallel()
	b := systemdBox(t)
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
	t.Parallel()
	b := systemdBox(t)
	b.tools = func(call string) ([]byte, error) {
		if strings.Contains(call, "systemctl start") {
			return []byte("Job for muster-agent.service failed."), fmt.Errorf("exit status 1")
		}
		return nil, nil
	}
	code, out, _ := b.join("--token", b.token)
	if code != 1 || !strings.Contains(out, "[4/5] failed: ") || !strings.Contains(out, "Job for muster-agent.service failed.") ||
		!strings.Contains(out, "journalctl") {
		t.Errorf("exit %d\n%s", code, out)
	}
	b.tools = nil
	if code, out, errs := b.join(); code != 0 || !strings.Contains(out, "known here as gpu-1") {
		t.Errorf("again, without the token: exit %d\n%s%s", code, out, errs)
	}
}

func TestJoinShowsGPUs(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	smi := filepath.Join(t.TempDir(), "nvidia-smi")
	const script = `#!/bin/sh
case "$*" in
*--help*) printf '"%s"\n' index uuid name ;;
*) echo '0, GPU-1, NVIDIA H100 80GB HBM3' ;;
esac
`
	if err := os.WriteFile(smi, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	code, out, errs := b.call("join", "--gateway", b.url, "--state", b.base, "--name", "gpu-1", "--nvidia-smi", smi, "--token", b.token)
	if code != 0 || !strings.Contains(out, "[5/5] online: 1x NVIDIA H100 80GB HBM3, first heartbeat accepted") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}
