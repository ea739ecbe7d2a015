package region_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/region"
)

// Test14Power: the power is a state of its own. Switching takes time, what MAAS shows is up to five minutes old, and the power control may
// not answer.
func Test14Power(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id := l.held()
	power := func(want string) {
		t.Helper()
		if m := l.is(id, 9); m.Power != want {
			t.Errorf("MAAS shows %q, want %q", m.Power, want)
		}
	}
	l.good(l.client.Deploy(t.Context(), id, script))
	power("off")
	l.pass(10 * time.Second)
	power("on")
	l.Change(id, func(m *maassim.Machine) { m.Power = "off" }) // somebody pulls the plug
	l.pass(4 * time.Minute)
	power("on") // before MAAS looks
	l.pass(time.Minute)
	power("off")
	l.Change(id, func(m *maassim.Machine) { m.BMCAway = true })
	l.pass(5 * time.Minute)
	power("error")

	// A power control that is away fails a deployment later, and other operations after they have made their change.
	other := l.held()
	l.Change(other, func(m *maassim.Machine) { m.BMCAway = true })
	l.good(l.client.Deploy(t.Context(), other, script))
	l.pass(10 * time.Second)
	l.is(other, 11)
	for op, after := range map[string]int{"commission": 1, "power_off": 4} {
		m := l.ready()
		l.Change(m, func(m *maassim.Machine) { m.BMCAway = true })
		_, err := l.client.Ask(t.Context(), "machines/"+m+"/", op, nil, url.Values{})
		refused(t, err, region.Unclear, 503, "")
		l.is(m, after)
	}
	manual := "machines/" + l.Add(maassim.Machine{Status: 4, PowerType: "manual"}) + "/"
	if got, err := l.client.Ask(t.Context(), manual, "power_off", nil, url.Values{}); got != "null" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := l.client.Ask(t.Context(), manual, "query_power_state", nil, nil); got != `{"state":"unknown"}` || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Test15Release: a machine that runs releases until it is off. One that is off is free at once. Releasing again does nothing.
func Test15Release(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id, ctx := l.deployed(), t.Context()
	for range 2 {
		if m := l.good(l.client.Release(ctx, id, false, "done")); m.Status != 12 || m.Owner != "muster" {
			t.Errorf("%+v", m)
		}
	}
	l.pass(9 * time.Second)
	l.is(id, 12)
	l.pass(time.Second)
	l.is(id, 4)
	l.good(l.client.Release(ctx, id, false, ""))
	l.is(id, 4)
	if m := l.good(l.client.Release(ctx, l.held(), false, "")); m.Status != 4 {
		t.Errorf("a machine that is off has status %d after its release", m.Status)
	}
	// What counts is what MAAS saw last: a machine that somebody has switched on since is free, and runs.
	held := l.held()
	l.Change(held, func(m *maassim.Machine) { m.Power = "on" })
	if m := l.good(l.client.Release(ctx, held, false, "")); m.Status != 4 {
		t.Errorf("a machine that MAAS believes to be off has status %d after its release", m.Status)
	}
}

// Test16Erase: each way to ask for erasing erases, and ends over 12 in 4. Muster asks for the disks' own way. Erasing may fail, or hang
// without a time-out.
func Test16Erase(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	ask := func(id string, flags ...string) {
		form := url.Values{}
		for _, flag := range flags {
			form.Set(flag, "true")
		}
		if _, err := l.client.Ask(t.Context(), "machines/"+id+"/", "release", nil, form); err != nil {
			t.Error(err)
		}
	}
	for i, c := range []struct {
		release func(id string)
		erased  string
	}{
		{func(id string) { l.good(l.client.Release(t.Context(), id, true, "")) }, "secure"},
		{func(id string) { ask(id, "erase") }, "full"},
		{func(id string) { ask(id, "quick_erase") }, "quick"},
		{func(id string) { ask(id, "secure_erase") }, "secure"},
		{func(id string) { ask(id, "erase", "quick_erase", "secure_erase") }, "secure-or-quick"},
	} {
		id := l.deployed()
		c.release(id)
		l.is(id, 14)
		l.pass(2 * time.Minute)
		l.is(id, 14)
		l.pass(10 * time.Second)
		l.is(id, 12)
		l.pass(10 * time.Second)
		l.is(id, 4)
		if m, _ := l.Machine(id); m.Erased != c.erased {
			t.Errorf("%d: it was erased %q, want %q", i, m.Erased, c.erased)
		}
	}
	fails, hangs := l.deployed(), l.deployed()
	l.Change(fails, func(m *maassim.Machine) { m.Fails = true })
	l.Change(hangs, func(m *maassim.Machine) { m.Hangs = true })
	l.good(l.client.Release(t.Context(), fails, true, ""))
	l.good(l.client.Release(t.Context(), hangs, true, ""))
	l.pass(3 * time.Minute)
	l.is(fails, 15)
	l.pass(48 * time.Hour)
	l.is(hangs, 14)
	all := newLab(t, maassim.Config{EraseAll: true})
	if m := all.good(all.client.Release(t.Context(), all.deployed(), false, "")); m.Status != 14 {
		t.Errorf("a setting that erases all leaves status %d", m.Status)
	}
}

// Test17Ready: a release ends in Ready if the last commissioning passed, and in New otherwise.
func Test17Ready(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	for _, passed := range []bool{true, false} {
		id := l.deployed()
		l.Change(id, func(m *maassim.Machine) { m.Passed = passed })
		l.good(l.client.Release(t.Context(), id, false, ""))
		l.pass(10 * time.Second)
		l.is(id, map[bool]int{true: 4, false: 0}[passed])
	}
}

// Test18Forgets: a release takes the owner, owner_data, the agent name and the system with it.
func Test18Forgets(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id, ctx := l.deployed(), t.Context()
	set := func() (string, error) {
		return l.client.Ask(ctx, "machines/"+id+"/", "set_owner_data", nil, url.Values{"allocation": {"a1"}})
	}
	if got, err := set(); err != nil || !strings.Contains(got, `"allocation":"a1"`) {
		t.Errorf("%s, %v", got, err)
	}
	l.good(l.client.Release(ctx, id, false, ""))
	l.pass(10 * time.Second)
	m := l.is(id, 4)
	is, _ := l.Machine(id)
	if m.Owner != "" || m.Series != "" || is.OSystem != "" || is.AgentName != "" || len(is.OwnerData) != 0 || is.UserData != "" {
		t.Errorf("%+v\n%+v", m, is)
	}
	_, err := set()
	refused(t, err, region.Conflict, 409, "Cannot set workload annotation: it hasn't been acquired.")
}

// Test19Abort: the answer shows the status before, so the client gives none. A deployment that is aborted keeps its owner.
func Test19Abort(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	ctx := t.Context()
	id := l.held()
	l.good(l.client.Deploy(ctx, id, script))
	got, err := l.client.Ask(ctx, "machines/"+id+"/", "abort", nil, url.Values{})
	if err != nil || !strings.Contains(got, `"status":9,`) {
		t.Errorf("%v in %s", err, got)
	}
	if m := l.is(id, 10); m.Owner != "muster" {
		t.Errorf("it is %q's", m.Owner)
	}
	commissions, erases, tests := l.ready(), l.deployed(), l.ready()
	l.good(l.client.Commission(ctx, commissions))
	l.good(l.client.Release(ctx, erases, true, ""))
	l.Change(tests, func(m *maassim.Machine) { m.Status = 21 })
	for id, after := range map[string]int{commissions: 0, erases: 15, tests: 4} {
		if err := l.client.Abort(ctx, id, ""); err != nil {
			t.Error(err)
		}
		l.is(id, after)
	}
}

// Test20Broken: only the owner, and no other admin, marks a machine broken. That powers it off, and it stays the owner's.
func Test20Broken(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	ctx := t.Context()
	mark := func(c *region.Client, id string) error {
		_, err := c.Ask(ctx, "machines/"+id+"/", "mark_broken", nil, url.Values{"comment": {"ECC errors"}})
		return err
	}
	id, held := l.deployed(), l.held()
	refused(t, mark(l.as(l.AddUser("root", true)), id), region.Forbidden, 403, "")
	refused(t, mark(l.client, l.ready()), region.Forbidden, 403, "")
	for _, id := range []string{id, held} {
		if err := mark(l.client, id); err != nil {
			t.Fatal(err)
		}
		if m := l.is(id, 8); m.Error != "ECC errors" || m.Owner != "muster" {
			t.Errorf("%+v", m)
		}
	}
	l.pass(10 * time.Second)
	if m := l.is(id, 8); m.Power != "off" {
		t.Errorf("%+v", m)
	}
	for id, after := range map[string]int{id: 6, held: 4} {
		if m := l.good(l.client.MarkFixed(ctx, id, "")); m.Status != after || m.Error != "" {
			t.Errorf("%+v, want status %d", m, after)
		}
	}
}

// Test21Commission: while it lasts the machine is the caller's, and nobody's afterwards. It may fail.
func Test21Commission(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	for fails, after := range map[bool]int{false: 4, true: 2} {
		id := l.Add(maassim.Machine{Fails: fails})
		if m := l.good(l.client.Commission(t.Context(), id)); m.Owner != "muster" || m.Status != 1 {
			t.Errorf("%+v", m)
		}
		l.pass(5 * time.Minute)
		l.is(id, 1)
		l.pass(10 * time.Second)
		if m := l.is(id, after); m.Owner != "" {
			t.Errorf("%+v", m)
		}
		if m, _ := l.Machine(id); m.Passed == fails {
			t.Errorf("%+v", m)
		}
		l.pass(10 * time.Second)
		if m := l.is(id, after); m.Power != "off" {
			t.Errorf("%+v", m)
		}
	}
}
