package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// screen is where a program under test writes. It can be read while the program runs.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// agent runs the program until done reports true, or until it ends where done is nil.
func agent(t *testing.T, getenv func(string) string, stdin string, done func() bool, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out, err screen
	if done != nil {
		go func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if ctx.Err() != nil || done() {
					cancel()
					return
				}
			}
		}()
	}
	code = run(ctx, args, getenv, strings.NewReader(stdin), &out, &err)
	return code, out.String(), err.String()
}

func TestUsage(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	none := environment("HOME", state)
	tests := []struct {
		name   string
		args   []string
		getenv func(string) string
		code   int
		want   string // on either screen
	}{
		{"nothing", nil, none, 2, "no command given"},
		{"flags without a command", []string{"--gateway", "https://gw"}, none, 2, "no command given"},
		{"help", []string{"--help"}, none, 0, "Examples:"},
		{"help among flags", []string{"--gateway", "https://gw", "--help"}, none, 0, "Examples:"},
		{"help command", []string{"help"}, none, 0, "Examples:"},
		{"unknown command", []string{"fly"}, none, 2, "there is no command"},
		{"unknown command's help", []string{"fly"}, none, 2, "Try: muster-agent --help"},
		{"run help", []string{"run", "--help"}, none, 0, "--root-pin PIN"},
		{"help before the command", []string{"--help", "run"}, none, 0, "--root-pin PIN"},
		{"status help", []string{"status", "-h"}, none, 0, "-o FORMAT"},
		{"probe help", []string{"probe", "--help"}, none, 0, "--capture"},
		{"version", []string{"version"}, none, 0, "muster-agent dev"},
		{"version flag", []string{"--version"}, none, 0, "muster-agent dev"},
		{"no gateway", []string{"run"}, none, 2, "add --gateway"},
		{"bad gateway", []string{"run", "--gateway", "gw:1"}, none, 2, "is a URL such as"},
		{"gateway by variable", []string{"run"}, environment("MUSTER_GATEWAY", "https://gw/x"), 2, "carries a path"},
		{"unknown flag", []string{"run", "--fly"}, none, 2, "there is no flag --fly"},
		{"stray argument", []string{"run", "mse_stray", "--gateway", "https://gw"}, none, 2, "takes flags only"},
		{"bad label", []string{"run", "--label", "x"}, none, 2, "KEY=VALUE"},
		{"bad label variable", []string{"run"}, environment("MUSTER_LABEL", "x"), 2, `MUSTER_LABEL has the value "x": a label is KEY=VALUE`},
		{"bad interval", []string{"run", "--gateway", "https://gw", "--interval", "1ms"}, none, 2, "at least 100ms"},
		{"an interval without a unit", []string{"run", "--gateway", "https://gw", "--interval", "1"}, none, 2, "such as 30m, 12h or 7d"},
		{"GPU interval too fast", []string{"run", "--gateway", "https://gw", "--gpu-interval", "1ms"}, none, 2,
			"--gpu-interval is between 1s and 1h"},
		{"GPU interval too slow", []string{"run", "--gateway", "https://gw"}, environment("MUSTER_GPU_INTERVAL", "2h"), 2,
			"--gpu-interval is between"},
		{"bad probe output", []string{"probe", "-o", "xml"}, none, 2, "table or json"},
		{"bad pin", []string{"run", "--gateway", "https://gw", "--root-pin", "x"}, none, 2, "--root-pin"},
		{"bad level", []string{"run", "--gateway", "https://gw", "--log-level", "loud"}, none, 2, "log-level"},
		{"bad name", []string{"run", "--gateway", "https://gw", "--name", "a\nb"}, none, 2, "--name"},
		{"long name", []string{"run", "--gateway", "https://gw", "--name", strings.Repeat("a", 300)}, none, 2, "--name"},
		{"two sources", []string{"run", "--gateway", "https://gw", "--token", "a", "--token-file", "b"}, none, 2, "exclude each other"},
		{"no credential", []string{"run", "--gateway", "https://gw", "--state", t.TempDir()}, none, 1, "set MUSTER_TOKEN"},
		{"no token file", []string{"run", "--gateway", "https://gw", "--state", t.TempDir(), "--token-file", state + "/none"}, none, 1,
			"no such file"},
		{"empty token file", []string{"run", "--gateway", "https://gw", "--state", t.TempDir(), "--token-file", "-"}, none, 1, "is empty"},
		{"mistyped", []string{"run", "--gateway", "https://gw", "--state", t.TempDir(), "--token", "mse_abcdefghijkl_secretsecret"}, none, 1,
			"mistyped"},
		{"bad output", []string{"status", "-o", "xml"}, none, 2, "table or json"},
		{"never ran", []string{"status", "--state", t.TempDir()}, none, 1, "no agent has run"},
		{"profile help", []string{"profile", "--help"}, none, 0, "--dry-run"},
		{"no action", []string{"profile"}, none, 2, "takes apply NAME, or show"},
		{"no profile", []string{"profile", "apply"}, none, 2, "takes apply NAME, or show"},
		{"bad profile", []string{"profile", "apply", "../x"}, none, 2, "is not the name of a profile"},
		{"both", []string{"probe", "--capture", "--no-gpu"}, none, 2, "exclude each other"},
		{"capture of nothing", []string{"probe", "--capture", "--nvidia-smi", state + "/none"}, none, 1, "--nvidia-smi"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := agent(t, test.getenv, "", nil, test.args...)
			if code != test.code || !strings.Contains(stdout+stderr, test.want) {
				t.Errorf("exit %d, want %d with %q\n%s%s", code, test.code, test.want, stdout, stderr)
			}
			if strings.Contains(stdout+stderr, "secretsecret") || strings.Contains(stderr, "mse_stray") {
				t.Errorf("a secret is shown: %s", stderr)
			}
			if (code == 0) == (stdout == "") && test.name != "nothing" {
				t.Errorf("exit %d with %q on stdout", code, stdout)
			}
		})
	}
}

// online reports whether the agent on a state directory is online.
func online(state string) func() bool {
	return func() bool {
		s, err := identity.ReadStatus(state)
		return err == nil && s.Phase == identity.PhaseOnline
	}
}

func TestJoinsAndGoesOn(t *testing.T) {
	g := gatewaytest.New(t)
	url := gatewaytest.Listen(t, g, g.Serving(t))
	base := t.TempDir()
	state := filepath.Join(base, "state")
	leaked := filepath.Join(base, "leaked")
	fake := filepath.Join(base, "nvidia-smi")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\nenv | grep MUSTER_ >>"+leaked+"\ntouch "+leaked+"\nexit 9\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	token := g.Token(t)
	t.Setenv("MUSTER_TOKEN", token)
	args := []string{"--state", state, "run", "--gateway", url, "--interval", "100ms", "--label", "tier=a", "--name", "gpu-1",
		"--instance-id", "7", "--nvidia-smi", fake}
	hasReading := func() bool {
		for _, r := range g.Requests("/heartbeat") {
			var h wire.HeartbeatRequest
			if json.Unmarshal(r.Body, &h) == nil && strings.Contains(string(h.Hardware), `"state":"failed"`) {
				return true
			}
		}
		return false
	}
	code, _, stderr := agent(t, os.Getenv, "", func() bool {
		if !hasReading() || !online(state)() { // the second one would else take the lock first
			return false
		}
		_, second, _ := agent(t, os.Getenv, "", nil, append(args, "--log-level=error")...)
		return second == ""
	}, args...)
	if code != 0 || !strings.Contains(stderr, "msg=enrolled") || strings.Contains(stderr, token) {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	if os.Getenv("MUSTER_TOKEN") != "" {
		t.Error("the token is still in the environment")
	}
	if raw, err := os.ReadFile(leaked); err != nil || len(raw) > 0 {
		t.Errorf("nvidia-smi saw %q, %v", raw, err)
	}
	for _, file := range []string{"identity.json", "status.json", "agent.log"} {
		raw, err := os.ReadFile(filepath.Join(state, file))
		if err != nil || bytes.Contains(raw, []byte(token[18:])) {
			t.Errorf("%s: %v, or it holds the token", file, err)
		}
	}

	before := len(g.Requests(wire.PathRegister))
	os.Remove(filepath.Join(state, "status.json"))
	code, _, stderr = agent(t, environment("MUSTER_TOKEN", token), "", online(state), args...)
	if code != 0 || !strings.Contains(stderr, "the credential is not used") || len(g.Requests(wire.PathRegister)) != before {
		t.Errorf("again: exit %d\n%s", code, stderr)
	}
	checkStatus(t, state, url)
}

func checkStatus(t *testing.T, state, url string) {
	t.Helper()
	code, stdout, stderr := agent(t, environment(), "", nil, "status", "--state", state)
	if code != 1 || !strings.Contains(stdout, "not running (was online)") || !strings.Contains(stdout, url) ||
		!strings.Contains(stderr, "start it with") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	directory, err := identity.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	code, stdout, _ = agent(t, environment(), "", nil, "status", "-o", "json", "--state", state)
	var got struct {
		Running bool
		NodeID  string `json:"node_id"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || !got.Running || got.NodeID != gatewaytest.NodeID {
		t.Errorf("exit %d, %v\n%s", code, err, stdout)
	}
}

func TestSecondAgentOnOneState(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	directory, err := identity.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	code, _, stderr := agent(t, environment(), "", nil, "run", "--gateway", "https://gw.test", "--state", state)
	if code != 1 || !strings.Contains(stderr, "another muster-agent is running") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestIdentityOfAnotherInstance(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t)
	url := gatewaytest.Listen(t, g, nil)
	state := t.TempDir()
	directory, err := identity.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	old := g.Node(t)
	old.InstanceID = "1"
	if err := directory.Save(old); err != nil {
		t.Fatal(err)
	}
	directory.Close()
	args := []string{"run", "--gateway", url, "--state", state, "--instance-id", "2", "--no-gpu", "--name", "n"}
	code, _, stderr := agent(t, environment(), "", nil, args...)
	if code != 1 || !strings.Contains(stderr, "belongs to instance 1 and this is 2") || len(g.Requests("")) != 0 {
		t.Errorf("exit %d: %s", code, stderr)
	}
	code, _, stderr = agent(t, environment("MUSTER_TOKEN", g.Token(t)), "", online(state), args...)
	if code != 0 || len(g.Requests(wire.PathRegister)) != 1 {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(state, "identity-"+gatewaytest.NodeID+".json")); err != nil {
		t.Error(err)
	}
}

// TestFlagsBeforeTheCommand: every flag of every command may stand in front of the command, and a switch takes no value there.
func TestFlagsBeforeTheCommand(t *testing.T) {
	t.Parallel()
	for _, one := range commands() {
		_, help, _ := agent(t, environment("HOME", t.TempDir()), "", nil, one.name, "--help")
		flags := 0
		for line := range strings.Lines(help) {
			if !strings.HasPrefix(line, "  -") {
				continue
			}
			flags++
			words := strings.Fields(line)
			args := []string{words[0], "value", one.name}
			if value := words[1]; value != strings.ToUpper(value) {
				args = []string{words[0], one.name}
			}
			if name, rest := findCommand(args); name != one.name || len(rest) != len(args)-1 {
				t.Errorf("%q: command %q with %q", args, name, rest)
			}
		}
		if flags == 0 && one.name != "version" {
			t.Errorf("%s has no flags in\n%s", one.name, help)
		}
	}
}
