//go:build real

package lab_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/kit/cloudsim"
	"muster/gateway/internal/kit/cloudsim/vast"
	"muster/gateway/internal/kit/lab"
)

const (
	vastAddress = "127.0.0.1:8480"
	vastKey     = "key-of-the-simulator-7f3a"
)

// market is a simulated vast.ai whose machines are boxes, and the machine of an operator.
type market struct {
	*testing.T
	lab      *lab.Lab
	gateway  *lab.Gateway
	operator *lab.Box
	rented   []*rented
}

// rented is a machine of the company.
type rented struct {
	*lab.Box
	id   string // at the company
	port int    // of its ssh
}

func (r *rented) name() string { return "vast_ai/" + r.id }
func (r *rented) node() string { return "vast-ai-" + r.id }

// push is the command that joins it by hand.
func (r *rented) push() string {
	return fmt.Sprintf("muster push root@127.0.0.1:%d --provider vast_ai --instance-id %s --tenant platform --name %s --gpus 1", r.port, r.id,
		r.node())
}

// newMarket has two machines that somebody has rented, and that have joined.
func newMarket(t *testing.T) *market {
	t.Helper()
	m := &market{T: t, lab: lab.New(t)}
	m.gateway = m.lab.Gateway()
	m.operator = m.lab.Box(lab.Plain())
	m.gateway.Mount(m.operator)
	m.operator.Start()
	host := vast.Host{GPU: "H100 SXM", GPUs: 1, MiB: 81559, Price: 2_000_000}
	sim := vast.New(cloudsim.Config{Keys: map[string][]string{vastKey: nil}}, host)
	server := &http.Server{Handler: sim, ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { _ = server.Close() })
	listener := m.lab.Listen(vastAddress)
	go func() { _ = server.Serve(listener) }()
	for i := range 2 {
		id, err := sim.Rent(host.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		r := &rented{Box: m.lab.Box(lab.Plain()), id: id, port: 39467 + i}
		sim.Spoil(id, "ssh_host", "127.0.0.1")
		sim.Spoil(id, "ssh_port", r.port)
		r.AddGPU()
		r.Start()
		m.rented = append(m.rented, r)
	}
	key := filepath.Join(m.lab.Dir, "vast.key")
	if err := os.WriteFile(key, []byte(vastKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.gateway.Muster("provider", "add", "vast_ai", "--key-file", key, "--url", "http://"+vastAddress, "--tenant", "platform")
	m.operator.Await()
	for _, r := range m.rented {
		r.Await()
		r.Sh("export CONTAINER_ID=" + r.id + " VAST_CONTAINERLABEL=C." + r.id + "\n" + m.gateway.Token("--label", "batch=x").Command)
	}
	return m
}

// online are the ids of the nodes that are heard, by their names.
func (m *market) online() map[string]string {
	m.Helper()
	ids := map[string]string{}
	for _, n := range m.gateway.Nodes() {
		if n.Status == wire.StatusOnline {
			ids[n.Name] = n.ID
		}
	}
	return ids
}

// found are the findings, when muster has looked at the company.
func (m *market) found() []providers.Finding {
	m.Helper()
	m.gateway.Muster("provider", "sync", "vast_ai")
	var plan providers.Plan
	if err := json.Unmarshal([]byte(m.gateway.Muster("provider", "plan", "-o", "json")), &plan); err != nil {
		m.Fatal(err)
	}
	return plan.Findings
}

// onboard joins machines from the operator's machine.
func (m *market) onboard(args string) (string, error) {
	return m.operator.Try("root", "muster provider onboard "+args)
}

// refused expects that a machine does not join, for these reasons, and that no token is good for anything after that.
func (m *market) refused(r *rented, says ...string) {
	m.Helper()
	out, err := m.onboard(r.name() + " --yes")
	if by := "By hand, where it did not work:\n  " + r.push() + "\n"; err == nil || !contains(out, append(says, by)...) {
		m.Errorf("%v; it does not say %q and\n%s:\n%s", err, says, by, out)
	}
	if list := m.gateway.Muster("token", "ls"); strings.Contains(list, "mse_") {
		m.Errorf("it left a token:\n%s", list)
	}
}

// refusals goes through what an operator may meet, until nothing is in the way any more.
func (m *market) refusals(r, emptied *rented) {
	m.Helper()
	m.refused(r, "Connection refused", "hint: check the address and the port")
	for _, each := range m.rented {
		each.Sh(fmt.Sprintf("mkdir -p /run/sshd; /usr/sbin/sshd -p %d", each.port))
	}
	m.refused(r, "Host key verification failed", "connecting once with ssh")
	m.operator.Sh(fmt.Sprintf("mkdir -p -m 700 .ssh; ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519; "+
		"echo '[127.0.0.1]:%d '$(cat .ssh/id_ed25519.pub) >.ssh/known_hosts", r.port))
	m.refused(r, "HOST IDENTIFICATION HAS CHANGED", "ssh-keygen -f", "forget its old key")
	m.operator.Sh("rm .ssh/known_hosts")
	for _, each := range m.rented {
		m.operator.Sh(fmt.Sprintf("echo '[127.0.0.1]:%d %s' >>.ssh/known_hosts", each.port, each.Sh("cat /etc/ssh/ssh_host_ed25519_key.pub")))
	}
	m.refused(r, "Permission denied (publickey", "hint: name the key with -i FILE")
	for _, each := range m.rented {
		each.Sh("mkdir -p -m 700 .ssh; umask 077; echo '" + m.operator.Sh("cat .ssh/id_ed25519.pub") + "' >.ssh/authorized_keys")
	}
	r.Sh("mv /usr/bin/mktemp /usr/bin/away")
	m.refused(r, "this machine lacks mktemp", "install coreutils")
	r.Sh("mv /usr/bin/away /usr/bin/mktemp")
	if all := m.gateway.Muster("token", "ls", "--all"); strings.Count(all, "mse_") != len(m.rented) {
		m.Errorf("tokens were made for a machine that cannot be joined:\n%s", all)
	}
	emptied.Sh("touch /var/lib/muster-agent")
	m.refused(emptied, "[2/5] failed: /var/lib/muster-agent cannot be written", "the token is not spent")
	emptied.Sh("rm /var/lib/muster-agent")
}

// TestOnboard: of two machines that are paid for the agents die, and one loses its disk too. They are billed and silent, until they are
// joined again over a real ssh, as the nodes that they were. What ssh or a machine refuses is said with the next step.
func TestOnboard(t *testing.T) {
	t.Parallel()
	m := newMarket(t)
	before := m.online()
	killed, emptied := m.rented[0], m.rented[1]
	killed.Sh("pkill -9 muster-agent")
	emptied.Sh("pkill -9 muster-agent; rm -r /var/lib/muster-agent /etc/muster")
	m.lab.Until("both are found", func() bool { return len(m.found()) == len(before) })
	for i, f := range m.found() {
		if r := m.rented[i]; f.Kind != providers.FoundBilledSilent || f.Next != "muster provider onboard "+r.name() || f.Node != r.node() ||
			f.PerDay == nil || math.Abs(*f.PerDay-48) > .01 {
			t.Errorf("found: %+v", f)
		}
	}
	both := killed.name() + " " + emptied.name()
	for args, want := range map[string]string{"": "left alone unless named:\n  muster provider onboard " + both + "\n",
		both: "What would be done:\n  " + killed.push() + "\n"} {
		if out, err := m.onboard("--plan " + args); err != nil || !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q: %v\n%s", want, err, out)
		}
	}
	m.refusals(killed, emptied)
	watched := m.lab.Watch(lab.AnyToken)
	out, err := m.onboard(both + " --yes")
	if seen := watched(); len(seen) > 0 {
		t.Errorf("a token stood in these processes' arguments: %q", seen)
	}
	if err != nil || !contains(out, "2 machines: 2 joined, 0 failed", "[2/5] known here as "+killed.node(),
		"[2/5] enrolled as "+emptied.node()) {
		t.Errorf("they have not joined: %v\n%s", err, out)
	}
	m.lab.Until("nothing is found", func() bool { return len(m.found()) == 0 })
	if after := m.online(); len(before) != len(m.rented) || !maps.Equal(after, before) {
		t.Errorf("the nodes were %v, and are %v", before, after)
	}
	if list := m.gateway.Muster("node", "ls", "-l", "batch=x"); !contains(list, killed.node(), emptied.node()) {
		t.Errorf("the nodes have other labels:\n%s", list)
	}
}
