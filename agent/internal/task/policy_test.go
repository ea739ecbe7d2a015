package task_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"muster/agent/internal/task"
	"muster/agent/sign"
	"muster/agent/wire"
)

func TestPolicy(t *testing.T) {
	one := newKey(t)
	two := newKey(t)
	ones := `["` + sign.EncodeKey(public(one)) + `"]`
	twos := `["` + sign.EncodeKey(public(two)) + `"]`
	for text, want := range map[string]string{ // the types that are done where the first key signed
		`{}`:                                   "users workload diag agent shell",
		`{"allow":[]}`:                         "",
		`{"forbid":["workload.*"]}`:            "users diag agent shell",
		`{"forbid":["*"],"allow":["*"]}`:       "",
		`{"allow":["diag.*","agent.*"]}`:       "diag agent",
		`{"allow":["provision_user"]}`:         "users",
		`{"operator_keys":{"*":` + ones + `}}`: "users workload diag agent shell",
		`{"operator_keys":{"*":` + twos + `}}`: "",
		`{"operator_keys":{"*":` + twos + `,"diag.*":` + ones + `}}`:              "diag",
		`{"operator_keys":{"agent.*":` + twos + `,"agent.restart":` + ones + `}}`: "users workload diag agent shell",
		`{"operator_keys":{"agent.*":[]}}`:                                        "users workload diag shell",
		`{"operator_keys":{"agent.*":` + ones + `},"forbid":["agent.restart"]}`:   "users workload diag shell",
		`{"forbid":["session.*"]}`:                                                "users workload diag agent",
		`{"allow":["session.shell"]}`:                                             "shell",
		`{"operator_keys":{"session.*":` + twos + `}}`:                            "users workload diag agent",
	} {
		p, err := task.LoadPolicy(policyFile(t, text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		var done []string
		for _, family := range [][2]string{{"users", wire.TaskProvisionUser}, {"workload", wire.TaskWorkloadStop},
			{"diag", wire.TaskDiagCollect}, {"agent", wire.TaskAgentRestart}, {"shell", wire.SessionShell}} {
			err := p.Check(family[1], public(one))
			var refusal *wire.ErrorDetail
			switch {
			case err == nil:
				done = append(done, family[0])
			case !errors.As(err, &refusal) || refusal.Code != wire.CodeTaskForbidden:
				t.Errorf("%s: %v", text, err)
			}
		}
		if got := strings.Join(done, " "); got != want {
			t.Errorf("%s: %q, not %q", text, got, want)
		}
	}
}

// TestPolicyFailsClosed: a file that is not understood as a whole allows nothing.
func TestPolicyFailsClosed(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  "malformed",
		`{`:                                 "malformed",
		`null`:                              "malformed",
		`[]`:                                "malformed",
		`{"forbid":["workload.*"]} x`:       "malformed",
		`{"Forbid":["workload.*"]}`:         "malformed",
		`{"forbids":["workload.*"]}`:        "malformed",
		`{"forbid":[],"forbid":["*"]}`:      "malformed",
		`{"forbid":"workload.*"}`:           "malformed",
		`{"forbid":["workloads.*"]}`:        `"workloads.*" names no task type`,
		`{"forbid":["workload*"]}`:          "names no task type",
		`{"allow":[""]}`:                    "names no task type",
		`{"operator_keys":{"users":[]}}`:    "names no task type",
		`{"operator_keys":{"*":["AAAA"]}}`:  "is not an Ed25519 public key",
		`{"release_keys":["AAAA"]}`:         "is not an Ed25519 public key",
		`{"forward_ports":[22]}`:            "malformed",
		`{"forward_ports":["0"]}`:           "neither a port",
		`{"forward_ports":["22-"]}`:         "neither a port",
		`{"forward_ports":["9-8"]}`:         "neither a port",
		`{"forward_ports":["1-65536"]}`:     "neither a port",
		`{"forward_hosts":["a b"]}`:         "is no address",
		`{"forward_hosts":[""]}`:            "is no address",
		`{"forward_hosts":["10.0.0.0/40"]}`: "is no address",
		`{"mount_roots":["srv"]}`:           "is not an absolute path",
		`{"mount_roots":["/srv/../etc"]}`:   "is not an absolute path",
		`{"mount_roots":["/srv/"]}`:         "is not an absolute path",
		strings.Repeat(" ", 1<<20) + "{}":   "larger than",
	} {
		if _, err := task.LoadPolicy(policyFile(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

// TestPolicyOfOthers: who could write the file could allow everything.
func TestPolicyOfOthers(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"the group may write it": func(path string) error { return os.Chmod(path, 0o620) },
		"everybody may write it": func(path string) error { return os.Chmod(path, 0o602) },
		"others may replace it":  func(path string) error { return os.Chmod(filepath.Dir(path), 0o703) },
		"it cannot be read":      func(path string) error { return errors.Join(os.Remove(path), os.Symlink(path, path)) },
		"a link to nowhere": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink(filepath.Join(t.TempDir(), "not mounted"), path))
		},
		"a pipe":   func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"a folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"another user's (root only)": func(path string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(path, 0o606)
			}
			return os.Chown(path, 12345, 0)
		},
	} {
		path := policyFile(t, `{}`)
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		if _, err := task.LoadPolicy(path); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

func TestPolicyOrder(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.json")
	if p, err := task.LoadPolicy(missing); err != nil || !reflect.DeepEqual(p, task.Policy{}) {
		t.Errorf("%+v, %v", p, err)
	}
	first := policyFile(t, `{"mount_roots":["/srv"]}`)
	second := policyFile(t, `{"forbid":["*"]}`)
	p, err := task.LoadPolicy(missing, first, second)
	if err != nil || !reflect.DeepEqual(p, task.Policy{MountRoots: []string{"/srv"}}) {
		t.Errorf("%+v, %v", p, err)
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte(`{"forbid":["workload.*"],"allow":["*"],"operator_keys":{"agent.*":[]},"mount_roots":["/srv"]}`))
	f.Add([]byte(`{"session_users":["ada"],"forward_ports":["22","8000-8999"],"forward_hosts":["10.0.0.0/8","db"]}`))
	path := filepath.Join(f.TempDir(), task.PolicyFile)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := task.LoadPolicy(path)
		if err != nil {
			return
		}
		for _, one := range wire.TaskTypes() {
			if p.Check(one.Name, nil) == nil && len(p.OperatorKeys["*"]) > 0 && len(p.OperatorKeys) == 1 {
				t.Errorf("%s needs no key under %q", one.Name, raw)
			}
		}
		if p.CheckPort(22) == nil && p.ForwardPorts != nil && len(p.ForwardPorts) == 0 {
			t.Errorf("a port is open under %q", raw)
		}
		if p.CheckAddress(netip.MustParseAddr("10.1.2.3")) == nil && len(p.ForwardHosts) == 0 {
			t.Errorf("an address is open under %q", raw)
		}
	})
}

// TestPolicyReleases: an owner who trusts operators' keys alone does not get another agent by the gateway's key.
func TestPolicyReleases(t *testing.T) {
	one := newKey(t)
	ones := `["` + sign.EncodeKey(public(one)) + `"]`
	twos := `["` + sign.EncodeKey(public(newKey(t))) + `"]`
	for text, want := range map[string]bool{ // whether a release of the first key is taken
		`{}`:                                   true,
		`{"forbid":["*"]}`:                     true, // of tasks
		`{"release_keys":[]}`:                  true,
		`{"release_keys":null}`:                true,
		`{"operator_keys":{}}`:                 true,
		`{"release_keys":` + ones + `}`:        true,
		`{"release_keys":` + twos + `}`:        false,
		`{"operator_keys":{"*":` + ones + `}}`: false,
		`{"operator_keys":{"agent.*":[]}}`:     false,
		`{"operator_keys":{"*":` + ones + `},"release_keys":[]}`:           false,
		`{"operator_keys":{"*":` + twos + `},"release_keys":` + ones + `}`: true,
		`{"operator_keys":{"*":` + ones + `},"release_keys":` + twos + `}`: false,
	} {
		p, err := task.LoadPolicy(policyFile(t, text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := p.CheckRelease(public(one)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestPolicyProcess: a program on the node itself is what session.exec is, so a policy that leaves that out leaves this out too.
func TestPolicyProcess(t *testing.T) {
	one := newKey(t)
	ones, twos := []string{sign.EncodeKey(public(one))}, []string{sign.EncodeKey(public(newKey(t)))}
	keys := func(pattern string, those []string) task.Policy {
		return task.Policy{OperatorKeys: map[string][]string{pattern: those}}
	}
	for _, c := range []struct {
		policy  task.Policy
		allowed bool
	}{
		{task.Policy{}, true},
		{task.Policy{Allow: []string{"workload.*"}}, false},
		{task.Policy{Allow: []string{"workload.*", wire.SessionExec}}, true},
		{task.Policy{Allow: []string{"*"}, Forbid: []string{"session.*"}}, false},
		{task.Policy{Forbid: []string{wire.TaskWorkloadProcess}}, false},
		{task.Policy{Forbid: []string{wire.SessionShell}}, true},
		{keys("session.*", ones), true},
		{keys(wire.SessionExec, twos), false},
		{keys(wire.SessionShell, ones), false}, // it says nothing of programs
		{keys(wire.TaskProvisionUser, ones), false},
		{keys("agent.*", nil), false},
		{keys("workload.*", ones), true},
		{keys(wire.TaskWorkloadProcess, twos), false},
		{keys("*", twos), false},
		{task.Policy{OperatorKeys: map[string][]string{"session.*": twos, wire.TaskWorkloadProcess: ones}}, true},
	} {
		if err := c.policy.Check(wire.TaskWorkloadProcess, public(one)); (err == nil) != c.allowed {
			t.Errorf("%+v: %v", c.policy, err)
		}
		if c.policy.Allow != nil && c.policy.Forbid == nil && c.policy.Check(wire.TaskWorkloadLaunch, nil) != nil {
			t.Errorf("%+v forbids containers", c.policy)
		}
	}
}
