//go:build real

package lab_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/kit/lab"
)

// push makes a release of a program for this machine's platform.
func (f *fleet) push(path, version string) {
	f.Helper()
	f.Log(f.gateway.Muster("release", "push", path, "--version", version))
}

// promote lets all nodes have a release at once.
func (f *fleet) promote(version string) {
	f.Helper()
	f.Log(f.gateway.Muster("release", "promote", version, "--now", "--yes"))
}

// runs expects that machines run a version for good: it has proven itself, and the gateway has heard that.
func (f *fleet) runs(some []*member, version string, limit time.Duration) {
	f.Helper()
	for _, m := range some {
		took := f.lab.Within(limit, m.what+" runs "+version+" for good", func() bool {
			if n := f.node(m); n.Agent.Version != version || n.Status != "online" {
				return false
			}
			return m.installed("good") == m.installed("current")
		})
		f.Logf("%s: runs %s for good after %s more", m.what, version, took.Round(time.Second))
		if now := f.node(m); now.ID != m.node.ID {
			f.Errorf("%s: node %s now, and was %s", m.what, now.ID, m.node.ID)
		}
	}
}

// onTrial tells whether a machine has a version on trial now.
func (m *member) onTrial() bool {
	state, _ := m.home()
	text, err := m.box.Try("root", "cat "+state+"/update.json")
	var record struct{ Last struct{ Phase string } }
	return err == nil && json.Unmarshal([]byte(text), &record) == nil && record.Last.Phase == wire.UpdateTrial &&
		m.installed("current") != m.installed("good")
}

// trials does something to each machine when it has a version on trial. A trial is short, and machines begin in any order, so all of them
// are looked at in turn.
func (f *fleet) trials(some []*member, then func(*member)) {
	f.Helper()
	open := slices.Clone(some)
	f.lab.Until("machines have a version on trial", func() bool {
		open = slices.DeleteFunc(open, func(m *member) bool {
			if !m.onTrial() {
				return false
			}
			then(m)
			return true
		})
		return len(open) == 0
	})
}

// TestReleases takes machines through releases as an operator orders them: one that is good, one that ends at its start, the way back by a
// pointer, and one during whose trial the gateway is away. Two of the machines lose power on the way.
func TestReleases(t *testing.T) {
	t.Parallel() // with TestTrials: both wait most of the time
	l := lab.New(t)
	f := &fleet{T: t, lab: l, gateway: l.Gateway()}
	tries := f.machines(
		&member{what: "systemd", root: lab.Systemd(), user: "root"},
		&member{what: "systemd, power lost at the change", root: lab.Systemd(), user: "root"},
		&member{what: "systemd, power lost on trial", root: lab.Systemd(), user: "root"},
		&member{what: "supervisor of a user", root: lab.Plain(), user: "alice", boot: "cron"},
		&member{what: "supervisor, power lost on trial", root: lab.Plain(), user: "root", boot: "cron"},
		&member{what: "OpenRC", root: lab.OpenRC(), user: "root",
			boot: "mkdir -p /run/openrc && touch /run/openrc/softlevel && openrc --quiet default"},
	)
	first := f.node(f.all[0]).Agent.Version

	f.push(l.Agent("9.1.0"), "9.1.0")
	f.promote("9.1.0")
	change, trial, supervised := tries[1], tries[2], tries[4]
	var after []*member // in the order in which their trials began
	var began []time.Time
	f.trials([]*member{change.member, trial.member, supervised.member}, func(m *member) {
		if m == change.member {
			m.box.PowerCut()
			return
		}
		began = append(began, time.Now())
		after = append(after, m)
	})
	for i, m := range after {
		time.Sleep(time.Until(began[i].Add(wire.TrialStable / 2)))
		m.box.PowerCut()
	}
	change.box.Boot()
	trial.power(false)
	supervised.power(false)
	f.runs(f.all, "9.1.0", 2*time.Minute)
	for _, i := range []int{0, 3, 5} {
		tries[i].work.Unharmed()
	}

	f.push(l.Failing(lab.Crashing, "9.2.0"), "9.2.0")
	f.Log(f.gateway.Muster("release", "promote", "9.2.0", "--canary", "0", "--max-failed", "5", "--yes")) // so the last one halts it
	for _, m := range f.all {
		l.Within(time.Minute, m.what+" has gone back", func() bool { return m.last().Phase == wire.UpdateRolledBack })
	}
	var said string
	l.Until("all have said so, which halts the rollout", func() bool {
		said = f.gateway.Muster("release", "status", "--channel", wire.DefaultChannel, "-o", "wide")
		return strings.Contains(said, "rollout  halted")
	})
	f.Log(said)
	last := strings.Count(said, "this release is crashing")
	last += strings.Count(said, "Main process exited, code=exited, status=3") // what systemd says stands after it, and is long
	if last < 5 {                                                             // OpenRC keeps no standard error
		f.Errorf("the last words of the failed version came from %d machines", last)
	}
	f.runs(f.all, "9.1.0", time.Minute)

	f.Log(f.gateway.Muster("release", "promote", first, "--now", "--yes")) // back by a higher number
	f.runs(f.all, first, 2*time.Minute)

	f.promote("9.1.0")
	begun := 0
	f.trials(f.all, func(*member) {
		if begun++; begun == len(f.all) {
			f.gateway.Stop()
		}
	})
	time.Sleep(wire.TrialStable + 3*time.Second) // a machine that began early may have shown all by now
	var open []*member
	for _, m := range f.all {
		if m.last().Phase == wire.UpdateTrial {
			open = append(open, m)
		}
	}
	if len(open) == 0 {
		t.Error("every machine was faster than the end of the gateway")
	}
	time.Sleep(wire.TrialTime) // of the trial: it is over by then
	for _, m := range open {
		if last := m.last(); last.Phase != wire.UpdateTrial {
			t.Errorf("%s: without a gateway the machine says %+v", m.what, last)
		}
	}
	f.gateway.Open()
	f.runs(f.all, "9.1.0", 2*time.Minute)
	for _, i := range []int{0, 3, 5} {
		tries[i].work.Unharmed()
	}
}

// TestLapses: a release that has proven itself and later ends at each start is left for the one before, and operators see why.
func TestLapses(t *testing.T) {
	t.Parallel()
	l := lab.New(t)
	f := &fleet{T: t, lab: l, gateway: l.Gateway()}
	tries := f.machines(&member{what: "systemd", root: lab.Systemd(), user: "root"},
		&member{what: "supervisor of a user", root: lab.Plain(), user: "alice", boot: "cron"})
	for _, y := range tries {
		y.from = y.installed("good")
	}
	path := l.Failing(lab.Lapsing, "9.3.0")
	f.push(path, "9.3.0")
	f.promote("9.3.0")
	f.runs(f.all, "9.3.0", 2*time.Minute)
	for _, y := range tries {
		y.set("ends at its start, after its commit", path, wire.UpdateCrashed)
		l.Until("the version before is kept", func() bool { return y.installed("before") == y.from })
		y.box.Sh("touch " + lab.Lapse)
		y.began = time.Now()
		y.end()
	}
	f.goneBack(tries)
	var said string
	l.Until("both have said so", func() bool {
		said = f.gateway.Muster("release", "status", "--channel", wire.DefaultChannel)
		return strings.Count(said, "panic: a wrong turn") == len(tries)
	})
	f.Log(said)
	if events := f.gateway.Muster("events", "--kind", "release.rolled_back"); strings.Count(events, wire.UpdateCrashed) < len(tries) {
		t.Errorf("events: %s", events)
	}
}
