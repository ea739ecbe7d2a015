//go:build real

package lab_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// carried is the path of the agent that somebody brought to a machine.
const carried = "/srv/muster-agent"

// member is one machine of a fleet.
type member struct {
	what string
	root lab.Root
	user string
	boot string // what a person or a provider has run at boot
	box  *lab.Box
	node lab.Node
}

func (m *member) home() (state, settings string) {
	if m.user == "root" {
		return "/var/lib/muster-agent", "/etc/muster/agent.env"
	}
	return "/home/" + m.user + "/.local/state/muster-agent", "/home/" + m.user + "/.config/muster/agent.env"
}

// power boots the machine, for the first time or again.
func (m *member) power(again bool) {
	if again {
		m.box.Reboot()
	} else {
		m.box.Boot()
	}
	if m.boot != "" {
		m.box.Sh(m.boot)
	}
}

// members are one machine of every kind of init, and one that is off while everything changes.
func members() []*member {
	const openRC = "mkdir -p /run/openrc && touch /run/openrc/softlevel && openrc --quiet default"
	const supervise = "at=/var/lib/muster-agent; [ ! -d $at ] || " +
		"$at/good/muster-agent supervise --state $at --settings /etc/muster/agent.env"
	return []*member{
		{what: "systemd", root: lab.Systemd(), user: "root"},
		{what: "systemd of a user", root: lab.Logins(), user: "alice"},
		{what: "OpenRC", root: lab.OpenRC(), user: "root", boot: openRC},
		{what: "supervisor by cron", root: lab.Plain(), user: "root", boot: "cron"},
		{what: "supervisor by a user's cron", root: lab.Plain(), user: "alice", boot: "cron"},
		{what: "supervisor by an entry point, busybox", root: lab.Busybox(), user: "root", boot: supervise},
		{what: "asleep", root: lab.Plain(), user: "root", boot: "cron"},
	}
}

// fleet is a gateway with machines of all kinds.
type fleet struct {
	*testing.T
	lab     *lab.Lab
	gateway *lab.Gateway
	all     []*member
}

// TestLife has machines of every kind of init, with the settings of older agents. All that they trust is replaced twice, and they
// go through kill -9, power cuts and an update. One of them is off all the time. In the end all are the nodes that they were.
func TestLife(t *testing.T) {
	t.Parallel()
	l := lab.New(t)
	f := &fleet{T: t, lab: l, gateway: l.Gateway(), all: members()}
	pin := f.roots()[0]
	for _, m := range f.all {
		f.join(m, pin)
	}
	awake := f.all[:len(f.all)-1]
	asleep := f.all[len(f.all)-1]
	f.back(awake, time.Now())
	asleep.box.PowerCut()

	f.Log("-- the first rotation, and kill -9")
	f.rotate(awake)
	start := time.Now()
	for _, m := range awake {
		state, _ := m.home()
		m.box.Sh(`kill -9 $(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' ` + state + "/status.json)")
	}
	f.back(awake, start)

	f.Log("-- the second rotation, and a reboot")
	f.rotate(awake)
	if slices.Contains(f.roots(), pin) {
		t.Fatalf("the root of the first enrolments is still trusted: %v", f.roots())
	}
	start = time.Now()
	for _, m := range awake {
		m.power(true)
	}
	f.back(awake, start)

	f.Log("-- the update of gateway and agents")
	f.update(awake)

	f.Log("-- the one that slept")
	start = time.Now()
	asleep.power(false)
	f.back([]*member{asleep}, start)
	if nodes := f.gateway.Nodes(); len(nodes) != len(f.all) {
		t.Errorf("%d nodes, not %d: %+v", len(nodes), len(f.all), nodes)
	}
}

// roots are the pins of the roots that nodes trust.
func (f *fleet) roots() (pins []string) {
	f.Helper()
	var ca struct{ Roots []struct{ Pin string } }
	if err := json.Unmarshal([]byte(f.gateway.Muster("ca", "show", "-o", "json")), &ca); err != nil {
		f.Fatal(err)
	}
	for _, root := range ca.Roots {
		pins = append(pins, root.Pin)
	}
	return pins
}

// join makes a machine a node, with the settings that an older agent would have written.
func (f *fleet) join(m *member, pin string) {
	f.Helper()
	m.box = f.lab.Box(m.root)
	m.box.Install(filepath.Join(lab.Tree(), "bin", "muster-agent"), carried)
	m.power(false)
	f.enrol(m, pin)
}

// enrol makes a machine a node that is up, with the agent that somebody brought.
func (f *fleet) enrol(m *member, pin string) {
	f.Helper()
	if m.user != "root" {
		m.box.Sh("useradd --create-home --shell /bin/sh " + m.user)
	}
	_, settings := m.home()
	out, err := m.box.Try(m.user, carried+" join --gateway "+lab.URL+" --root-pin "+pin+" --token "+f.gateway.Token().Token)
	f.Logf("-- %s\n%s", m.what, out)
	if err != nil {
		f.Fatalf("%s: join: %v", m.what, err)
	}
	m.box.Sh("echo MUSTER_ROOT_PIN=" + pin + " >>" + settings)
	m.node = f.node(m)
}

// node is what the gateway says about a machine.
func (f *fleet) node(m *member) lab.Node {
	f.Helper()
	name := m.box.Sh("cat /etc/hostname")
	for _, node := range f.gateway.Nodes() {
		if node.Name == name {
			return node
		}
	}
	f.Fatalf("%s: no node is called %s", m.what, name)
	return lab.Node{}
}

// back expects that machines are heard after a time, that they are still the same nodes, and that they accept the answers.
func (f *fleet) back(some []*member, after time.Time) {
	f.Helper()
	for _, m := range some {
		state, _ := m.home()
		took := f.lab.Within(90*time.Second, m.what+" is online again", func() bool {
			n := f.node(m)
			if n.Status != "online" || n.State != "active" || !n.Seen().After(after) {
				return false
			}
			said, err := m.box.Try(m.user, state+"/current/muster-agent status -o json")
			return err == nil && strings.Contains(said, `"phase": "online"`)
		})
		f.Logf("%s: online after %s more", m.what, took.Round(time.Millisecond))
		if now := f.node(m); now.ID != m.node.ID {
			f.Errorf("%s: node %s now, and was %s", m.what, now.ID, m.node.ID)
		}
	}
}

// rotate replaces all that nodes trust, and waits until the nodes that are awake use the new keys.
func (f *fleet) rotate(awake []*member) {
	f.Helper()
	old := f.roots()
	for _, command := range []string{
		"key rotate --answer --now", "key rotate --task --now", "ca rotate-root", "ca intermediate",
		"ca drop-root " + old[len(old)-1] + " --yes", "key rotate --trust",
	} {
		f.gateway.Muster(strings.Fields(command)...)
	}
	f.back(awake, time.Now())
}

// update replaces the gateway and, by joining again, the agents. That takes the pin out of their settings.
func (f *fleet) update(some []*member) {
	f.Helper()
	const version = "9.9.9-lab"
	f.gateway.Binary = f.lab.Build(version)
	f.gateway.Stop()
	f.gateway.Open()
	pin := []string{"release", "pin", "--yes"} // else a node that is quick goes back to what its channel points at
	for _, m := range some {
		pin = append(pin, f.node(m).Name)
	}
	f.gateway.Muster(pin...)
	start := time.Now()
	for _, m := range some {
		m.box.Install(filepath.Join(f.lab.Dir, "muster-agent-"+version), carried)
		if out, err := m.box.Try(m.user, carried+" join --gateway "+lab.URL); err != nil {
			f.Errorf("%s: join again: %v\n%s", m.what, err, out)
		}
		_, settings := m.home()
		if kept := m.box.Sh("cat " + settings); strings.Contains(kept, "PIN") {
			f.Errorf("%s: settings\n%s", m.what, kept)
		}
	}
	f.back(some, start)
	for _, m := range some {
		if n := f.node(m); n.Agent.Version != version {
			f.Errorf("%s: agent %s after the update", m.what, n.Agent.Version)
		}
	}
}
