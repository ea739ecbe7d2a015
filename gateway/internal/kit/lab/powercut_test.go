//go:build real

package lab_test

import (
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/kit/lab"
)

// started joins machines with a program, all at once as far as that goes.
func (f *fleet) started(program string, whats ...string) {
	f.Helper()
	for _, what := range whats {
		m := &member{what: what, root: lab.Systemd(), user: "root", box: f.lab.Box(lab.Systemd())}
		m.box.Install(program, carried)
		m.box.Start()
		f.all = append(f.all, m)
	}
	pin := f.roots()[0]
	for _, m := range f.all {
		m.box.Await()
		f.enrol(m, pin)
	}
}

// cut takes the power from each of these machines when its agent has come to its step, and starts the machine again.
func (f *fleet) cut(orders map[*member]string) {
	f.Helper()
	f.lab.Within(90*time.Second, "every machine has come to its step", func() bool {
		for m, order := range orders {
			if order != "" && m.box.Stopped() {
				m.box.PowerCut()
				f.Logf("%s: off at %q; current is %.12s, good is %.12s", m.what, order, m.link("current"), m.link("good"))
				m.box.GoOn()
				m.box.Start()
				orders[m] = ""
			}
		}
		for _, order := range orders {
			if order != "" {
				return false
			}
		}
		return true
	})
	for m := range orders {
		m.box.Await()
	}
}

// link is the build that a link names on a machine that may be off.
func (m *member) link(name string) string {
	state, _ := m.home()
	to, _ := m.box.Link(state + "/" + name)
	return strings.TrimPrefix(to, "versions/")
}

// TestPowerCuts takes the power from machines with systemd at each step of an update, and of the way back. Each of them is online with a
// good version after that. One loses it in the trial of a bad version.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	began := time.Now()
	l := lab.New(t)
	f := &fleet{T: t, lab: l, gateway: l.Gateway()}
	first := l.Stopping("9.1.0")
	f.push(first, "9.1.0")
	f.promote("9.1.0")
	f.started(first, "in the download", "before the record", "before the link", "after the link", "at the first start", "in the trial",
		"before good", "in a bad trial")
	trial := f.all[7]
	f.Logf("-- %s: all have joined", time.Since(began).Round(time.Second))

	orders := map[*member]string{}
	for i, order := range []string{
		"9.1.0 run 20 write the layer", "9.1.0 run 1 rename back", "9.1.0 run 1 rename current", "9.1.0 run 1 sync current",
		"9.1.0 settle 1 rename update.json", "9.2.0 run 1 sync the folder of update.json", "9.2.0 run 1 rename good",
	} {
		orders[f.all[i]] = order
		f.all[i].box.StopAt(order)
	}
	f.push(l.Stopping("9.2.0"), "9.2.0")
	f.promote("9.2.0")
	f.cut(orders)
	f.Logf("-- %s: all were cut", time.Since(began).Round(time.Second))
	f.runs(f.all, "9.2.0", 2*time.Minute)

	f.Logf("-- %s: the way back", time.Since(began).Round(time.Second))
	f.push(l.Failing(lab.Crashing, "9.3.0"), "9.3.0")
	orders = map[*member]string{f.all[0]: "9.2.0 settle 1 rename back", f.all[1]: "9.2.0 settle 1 sync back"}
	for m, order := range orders {
		m.box.StopAt(order)
	}
	f.Log(f.gateway.Muster("release", "promote", "9.3.0", "--canary", "0", "--max-failed", "7", "--yes"))
	f.trials([]*member{trial}, func(m *member) { m.box.PowerCut() })
	trial.box.Start()
	f.cut(orders)
	trial.box.Await()
	for _, m := range f.all {
		l.Within(time.Minute, m.what+" has gone back", func() bool { return m.last().Phase == wire.UpdateRolledBack })
	}
	f.runs(f.all, "9.2.0", time.Minute)
	f.Logf("-- %s: done", time.Since(began).Round(time.Second))
}
