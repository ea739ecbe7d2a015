package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/wire"
)

// statusOf writes a status and runs the command status. running says whether an agent is at work.
func statusOf(t *testing.T, s identity.Status, running bool) (code int, out, errs string) {
	t.Helper()
	state := t.TempDir()
	directory := mustOpen(t, state)
	if err := directory.SaveStatus(s); err != nil {
		t.Fatal(err)
	}
	if !running {
		directory.Close()
	}
	return agent(t, environment("HOME", t.TempDir()), "", nil, "status", "--state", state)
}

func mustOpen(t *testing.T, state string) *identity.Directory {
	t.Helper()
	directory, err := identity.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { directory.Close() })
	return directory
}

// TestStatusSaysHowItIs: exit status 0 means online. Otherwise status says since when the agent is not, why, and what to do.
func TestStatusSaysHowItIs(t *testing.T) {
	t.Parallel()
	last := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	since := last.Add(-time.Hour)
	was := func(change func(*identity.Status)) identity.Status {
		s := identity.Status{Phase: identity.PhaseOnline, Name: "gpu-1", Gateway: "https://gw.test", State: "active", Since: since,
			LastOnline: &last, LastContact: &last}
		change(&s)
		return s
	}
	for _, test := range []struct {
		name    string
		change  func(*identity.Status)
		running bool
		code    int
		want    []string
	}{
		{"online", func(*identity.Status) {}, true, 0, []string{"status        online\n", "state         active\n"}},
		{"retrying", func(s *identity.Status) { s.Phase = identity.PhaseRetrying; s.LastError = "reach gw.test: refused" }, true, 1,
			[]string{"not online, trying again", "it was last online at " + last.Format(time.RFC3339) + " (1h0m",
				"muster-agent: the node is not online: "}},
		{"connecting", func(s *identity.Status) { s.Phase = identity.PhaseRetrying; s.LastOnline = nil }, true, 1,
			[]string{"status        connecting", "it was not online yet; the agent was started at " + since.Format(time.RFC3339)}},
		{"refused", func(s *identity.Status) { s.Phase = identity.PhaseRefused; s.LastError = "revoked" }, true, 1,
			[]string{"an operator has to act", "revoked"}},
		{"in conflict", func(s *identity.Status) { s.State = "unavailable"; s.Reasons = []string{wire.ReasonConflict} }, true, 0,
			[]string{"unavailable: identity_conflict (Two machines use the node's identity", "muster node show gpu-1, on the gateway"}},
		{"ill", func(s *identity.Status) {
			s.State = "unavailable"
			s.Reasons = []string{wire.HealthGPUCountDropped, wire.HealthProbeHung, "of tomorrow"}
		}, true, 0, []string{"gpu_count_dropped (Fewer GPUs answer than the node should have, or nvidia-smi is gone); " +
			"probe_hung (nvidia-smi does not come to an end, or AMD's driver does not answer: the driver may be stuck); of tomorrow"}},
		{"a clock behind", func(s *identity.Status) { s.SkewMillis = 5000 }, true, 0,
			[]string{"this machine's clock is 5s behind the gateway's"}},
		{"a clock ahead", func(s *identity.Status) { s.SkewMillis = -5000 }, true, 0,
			[]string{"this machine's clock is 5s ahead of the gateway's"}},
		{"dead", func(*identity.Status) {}, false, 1, []string{"not running (was online)", "start it with: ",
			" run --gateway https://gw.test --state /"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := statusOf(t, was(test.change), test.running)
			for _, want := range test.want {
				if !strings.Contains(out+errs, want) {
					t.Errorf("no %q in\n%s%s", want, out, errs)
				}
			}
			if code != test.code || test.code == 0 && strings.Contains(out, "away") {
				t.Errorf("exit %d\n%s%s", code, out, errs)
			}
		})
	}
}

// TestHowToStart: for an agent that does not run, status prints the command that starts it, ready to be pasted.
func TestHowToStart(t *testing.T) {
	t.Parallel()
	for kind, want := range map[service.Kind]string{
		service.Systemd: "systemctl start muster-agent", service.OpenRC: "rc-service muster-agent start",
		service.UserSystemd: "systemctl --user start muster-agent",
		service.Supervised:  "BASE/good/muster-agent supervise --state BASE --settings /etc/muster/agent.env",
	} {
		b := newBox(t)
		raw, _ := json.Marshal(map[string]any{"kind": kind})
		b.put("base/service.json", string(raw), 0o600)
		b.put("base/status.json", `{"phase":"online","gateway":"https://gw.test"}`, 0o600)
		code, _, errs := b.call("status", "--state", b.base)
		if want = strings.ReplaceAll(want, "BASE", b.base); code != 1 ||
			!strings.HasSuffix(errs, "the agent does not run: start it with: "+want+"\n") {
			t.Errorf("%s: exit %d\n%s", kind, code, errs)
		}
	}
}

// TestOfRoots: a user who has no agent gets the hint that root has one, with the command that needs sudo.
func TestOfRoots(t *testing.T) {
	t.Parallel()
	for path, text := range map[string]string{
		"etc/systemd/system/muster-agent.service": "[Service]\nExecStart=/srv/a%%b/current/muster-agent run\n",
		"etc/init.d/muster-agent":                 "command=\"/srv/a%b/current/muster-agent\"\n",
	} {
		b := newBox(t)
		b.uid = 1000
		b.put(path, text, 0o644)
		for command, code := range map[string]int{"status": 1, "leave": 0, "supervise": 1} {
			got, out, errs := b.call(command, "--state", b.base)
			if got != code || !strings.Contains(out+errs, "root's agent is on this machine: sudo /srv/a%b/current/muster-agent "+command) {
				t.Errorf("%s: exit %d\n%s%s", command, got, out, errs)
			}
		}
	}
	b := newBox(t)
	b.uid = 1000
	b.mkdir("var/lib/muster-agent")
	if _, _, errs := b.call("status", "--state", b.base); !strings.Contains(errs, "sudo /var/lib/muster-agent/current/muster-agent status") {
		t.Error(errs)
	}
	b.uid = 0
	if _, _, errs := b.call("status", "--state", b.base); strings.Contains(errs, "sudo") {
		t.Error(errs)
	}
}
