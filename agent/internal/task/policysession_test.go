package task_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"muster/agent/internal/task"
	"muster/agent/wire"
)

func load(t *testing.T, text string) task.Policy {
	t.Helper()
	p, err := task.LoadPolicy(policyFile(t, text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

// forbids tells whether an error is a refusal by the policy.
func forbids(t *testing.T, err error) bool {
	t.Helper()
	var refusal *wire.ErrorDetail
	if err != nil && (!errors.As(err, &refusal) || refusal.Code != wire.CodeTaskForbidden || refusal.Hint == "") {
		t.Errorf("%v", err)
	}
	return err != nil
}

func TestSessionUsers(t *testing.T) {
	for text, want := range map[string]string{ // who of root and ada
		`{}`:                              "root ada",
		`{"session_users":[]}`:            "",
		`{"session_users":["ada"]}`:       "ada",
		`{"session_users":["ad","a da"]}`: "",
	} {
		p := load(t, text)
		var allowed []string
		for _, user := range []string{"root", "ada"} {
			if !forbids(t, p.CheckUser(user)) {
				allowed = append(allowed, user)
			}
		}
		if got := strings.Join(allowed, " "); got != want {
			t.Errorf("%s allows %q, not %q", text, got, want)
		}
	}
}

func TestForwardPorts(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                      "22 8000 8999 9000",
		`{"forward_ports":[]}`:                    "",
		`{"forward_ports":["22"]}`:                "22",
		`{"forward_ports":["8000-8999"]}`:         "8000 8999",
		`{"forward_ports":["22","9000-65535"]}`:   "22 9000",
		`{"forward_ports":["1-21","23","23-23"]}`: "",
	} {
		p := load(t, text)
		for name, port := range map[string]int{"22": 22, "8000": 8000, "8999": 8999, "9000": 9000} {
			if forbids(t, p.CheckPort(port)) == strings.Contains(" "+want+" ", " "+name+" ") {
				t.Errorf("%s, port %d: allowed are to be %q", text, port, want)
			}
		}
	}
}

func TestForwardHosts(t *testing.T) {
	for text, want := range map[string]string{ // the addresses that may be reached
		`{}`:                   "127.0.0.1 127.8.9.1 ::1 ::ffff:127.0.0.1",
		`{"forward_hosts":[]}`: "127.0.0.1 127.8.9.1 ::1 ::ffff:127.0.0.1",
		`{"forward_hosts":["10.0.0.0/8","fd00::/8"]}`: "127.0.0.1 127.8.9.1 ::1 ::ffff:127.0.0.1 10.1.2.3 ::ffff:10.1.2.3 fd00::1",
		`{"forward_hosts":["10.1.2.3"]}`:              "127.0.0.1 127.8.9.1 ::1 ::ffff:127.0.0.1 10.1.2.3 ::ffff:10.1.2.3",
		`{"forward_hosts":["::ffff:10.1.2.3"]}`:       "127.0.0.1 127.8.9.1 ::1 ::ffff:127.0.0.1 10.1.2.3 ::ffff:10.1.2.3",
		`{"forward_hosts":["db.example"]}`:            "127.0.0.1 127.8.9.1 ::1 ::ffff:127.0.0.1",
	} {
		p := load(t, text)
		for _, address := range []string{"127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "10.1.2.3", "::ffff:10.1.2.3", "fd00::1",
			"0.0.0.0", "::", "169.254.169.254", "fe80::1%eth0"} {
			if forbids(t, p.CheckAddress(netip.MustParseAddr(address))) == strings.Contains(" "+want+" ", " "+address+" ") {
				t.Errorf("%s, %s: allowed are to be %q", text, address, want)
			}
		}
		if got := p.NamesHost("DB.example"); got != strings.Contains(text, "db.example") {
			t.Errorf("%s names the host: %v", text, got)
		}
	}
}

// TestSessionKeys: an owner who demands keys for tasks alone lets nobody in by the gateway's own key, but for logs.
func TestSessionKeys(t *testing.T) {
	operator, key := newOperator(t)
	for text, want := range map[string]string{ // what the gateway's key may open, and what the operator's
		`{}`: "shell logs, shell logs",
		`{"operator_keys":{"workload.*":["` + key + `"]}}`:    "logs, logs",
		`{"operator_keys":{"session.*":["` + key + `"]}}`:     ", shell logs",
		`{"operator_keys":{"session.shell":["` + key + `"]}}`: "logs, shell logs",
		`{"operator_keys":{"*":["` + key + `"]}}`:             ", shell logs",
		`{"forbid":["session.shell"]}`:                        "logs, logs",
		`{"allow":["workload.*"]}`:                            ", ",
	} {
		p := load(t, text)
		var both []string
		gateways, _ := newOperator(t)
		for _, key := range []ed25519.PublicKey{gateways, operator} {
			var open []string
			for _, name := range []string{"shell", "logs"} {
				if !forbids(t, p.CheckSession("session."+name, key)) {
					open = append(open, name)
				}
			}
			both = append(both, strings.Join(open, " "))
		}
		if got := strings.Join(both, ", "); got != want {
			t.Errorf("%s opens %q, not %q", text, got, want)
		}
	}
}

// newOperator makes a key, and gives it as a policy names it too.
func newOperator(t *testing.T) (key ed25519.PublicKey, text string) {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, base64.StdEncoding.EncodeToString(public)
}
