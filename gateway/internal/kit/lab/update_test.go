//go:build real

package lab_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/kit/lab"
)

// wayBack is how long after the beginning of a trial a version that has failed is replaced by the one before.
const wayBack = 2 * time.Minute

// try is one version on trial on a machine.
type try struct {
	*member
	kind  string // what is wrong with it
	code  string // what the machine says about that
	path  string // of the program
	from  string // the build before
	to    string // the build of the program
	began time.Time
	took  time.Duration // until the version before was heard again
	work  *lab.Workload
}

// build is the name of a program in a machine's layout.
func build(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

// installed is the build that one of the links names.
func (m *member) installed(link string) string {
	state, _ := m.home()
	return strings.TrimPrefix(m.box.Sh("readlink "+state+"/"+link), "versions/")
}

// end tells the agent of a machine to end. What keeps the agent starts what is current.
func (m *member) end() {
	state, _ := m.home()
	m.box.Sh(`kill $(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' ` + state + "/status.json)")
}

// last is what a machine says about its last update.
func (m *member) last() (last struct{ Phase, Code, Detail, Log string }) {
	state, _ := m.home()
	var record struct{ Last any }
	record.Last = &last
	_ = json.Unmarshal([]byte(m.box.Sh("cat "+state+"/update.json")), &record)
	return last
}

// uptime is how long the kernel of a machine runs.
func (m *member) uptime() time.Duration {
	seconds, _, _ := strings.Cut(m.box.Sh("cat /proc/uptime"), " ")
	up, _ := time.ParseDuration(seconds + "s")
	return up
}

// begin does what an agent does at the end of an update: it installs the program, notes the trial, changes the link, starts the guard and
// ends. So a program can be on trial that no agent would take.
func (f *fleet) begin(y *try) {
	f.Helper()
	state, _ := y.home()
	y.to = build(f.T, y.path)
	y.from = y.installed("good")
	y.box.Install(y.path, state+"/versions/"+y.to+"/muster-agent")
	last := map[string]any{
		"channel": wire.DefaultChannel, "release": "sha256:" + y.to, "about": 1, "phase": wire.UpdateTrial, "from": y.from, "to": y.to,
		"trial": map[string]any{"boot": y.box.Sh("cat /proc/sys/kernel/random/boot_id"), "at": y.uptime().Milliseconds()},
	}
	record, err := json.Marshal(map[string]any{"last": last})
	if err != nil {
		f.Fatal(err)
	}
	y.began = time.Now()
	y.box.Write(state+"/update.json", string(record), 0o600)
	y.box.Sh("cd " + state + " && chown --reference=. -R versions update.json && ln -sfn versions/" + y.to + " current.new && " +
		"mv -T current.new current")
	if out, err := y.box.Try(y.user, "setsid "+state+"/good/muster-agent settle --guard --state "+state+" >/dev/null 2>&1 &"); err != nil {
		f.Fatalf("the guard: %v\n%s", err, out)
	}
	y.end()
}

// goneBack expects the version before to be heard in time, with the reason for that.
func (f *fleet) goneBack(tries []*try) {
	f.Helper()
	f.lab.Within(wayBack+30*time.Second, "every machine is back", func() bool {
		open := 0
		for _, y := range tries {
			seen := f.node(y.member).Seen()
			if y.took == 0 && seen.After(y.began.Add(2*time.Second)) {
				y.took = seen.Sub(y.began)
			}
			if y.took == 0 {
				open++
			}
		}
		time.Sleep(500 * time.Millisecond)
		return open == 0
	})
	for _, y := range tries {
		last := y.last()
		f.Logf("%s, %s: back after %s: %s, %s", y.what, y.kind, y.took.Round(100*time.Millisecond), last.Code, last.Detail)
		if y.took > wayBack {
			f.Errorf("%s, %s: back after %s", y.what, y.kind, y.took)
		}
		if last.Phase != wire.UpdateRolledBack || last.Code != y.code {
			f.Errorf("%s, %s: the record says %+v", y.what, y.kind, last)
		}
		if current := y.installed("current"); current != y.from || y.installed("good") != y.from {
			f.Errorf("%s, %s: current is %s, and was %s", y.what, y.kind, current, y.from)
		}
		y.work.Unharmed()
	}
	var all []*member
	for _, y := range tries {
		all = append(all, y.member)
	}
	f.back(all, time.Now())
}

// machines joins one machine for each, with a workload.
func (f *fleet) machines(members ...*member) (tries []*try) {
	f.Helper()
	pin := f.roots()[0]
	for _, m := range members {
		f.join(m, pin)
		f.all = append(f.all, m)
		tries = append(tries, &try{member: m, work: m.box.Workload()})
	}
	return tries
}

// TestTrials puts every kind of release that is no good on trial, where systemd keeps the agent, where its own supervisor does, and where a
// unit that a person wrote knows nothing of trials. Every machine is back with the version before within two minutes, and what else runs
// there does not notice.
func TestTrials(t *testing.T) {
	t.Parallel() // with TestReleases: both wait most of the time
	l := lab.New(t)
	f := &fleet{T: t, lab: l, gateway: l.Gateway()}
	tries := f.machines(
		&member{what: "systemd 1", root: lab.Systemd(), user: "root"}, &member{what: "systemd 2", root: lab.Systemd(), user: "root"},
		&member{what: "systemd 3", root: lab.Systemd(), user: "root"}, &member{what: "unit of a person", root: lab.Systemd(), user: "root"},
		&member{what: "supervisor", root: lab.Plain(), user: "root", boot: "cron"},
		&member{what: "supervisor of a user", root: lab.Plain(), user: "alice", boot: "cron"},
		&member{what: "OpenRC", root: lab.OpenRC(), user: "root",
			boot: "mkdir -p /run/openrc && touch /run/openrc/softlevel && openrc --quiet default"},
	)
	plain := tries[3]
	plain.box.Sh("sed -i -e /ExecStartPre/d -e s/WatchdogSec=.*/WatchdogSec=120/ -e s/TimeoutStartSec=.*/TimeoutStartSec=90/ " +
		"/etc/systemd/system/" + unit + " && systemctl daemon-reload && systemctl restart " + unit)
	f.back([]*member{plain.member}, time.Now())

	text := l.Dir + "/no-program"
	if err := os.WriteFile(text, []byte("this is no program\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	crashing := l.Failing(lab.Crashing, "9.0.1")
	others := append(append([]*try{}, tries[:3]...), tries[4:]...)
	plain.set("ends at its start", crashing, wire.UpdateHung) // nothing counts its starts
	f.begin(plain)
	for _, y := range others {
		y.set("ends at its start", crashing, wire.UpdateCrashed)
		f.begin(y)
	}
	f.goneBack(others)
	for _, y := range others {
		y.set("is no program", text, wire.UpdateNoStart)
		f.begin(y)
	}
	f.goneBack(others)

	hanging := l.Failing(lab.Hanging, "9.0.2")
	ready := l.Failing(lab.HungReady, "9.0.3")
	deaf := l.Failing(lab.Deaf, "9.0.4")
	for i, y := range others {
		switch i {
		case 0, 4:
			y.set("hangs", hanging, wire.UpdateHung)
		case 1, 5:
			y.set("hangs once it is ready", ready, wire.UpdateHung)
		default:
			y.set("does not report", deaf, wire.UpdateUnreachable)
		}
		f.begin(y)
	}
	f.goneBack(append(others, plain))
}

// set gives a machine another release to try.
func (y *try) set(kind, path, code string) {
	y.kind = kind
	y.path = path
	y.code = code
	y.took = 0
}
