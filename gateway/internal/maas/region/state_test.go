package region_test

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/api/machines"
	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/region"
)

// Test07Transitions: what MAAS takes in each status. What the client says of commissioning is so.
func Test07Transitions(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	taken := map[string][]int{"commission": {0, 2, 4, 8}, "deploy": {4, 10}, "abort": {1, 9, 14, 21}, "mark_fixed": {8},
		"release": {4, 5, 6, 8, 9, 10, 11, 12, 13, 15}}
	for status := range 23 {
		for name, in := range taken {
			id := l.Add(maassim.Machine{Status: 4, Owner: "muster", Passed: true, Power: "on"})
			l.Change(id, func(m *maassim.Machine) { m.Status = status })
			_, err := l.client.Ask(t.Context(), "machines/"+id+"/", name, nil, url.Values{"user_data": {"IyEK"}})
			if want := slices.Contains(in, status); (err == nil) != want {
				t.Errorf("%s of a machine that is %s: %v, want %v", name, region.StatusOf(status).Name, err, want)
			}
			l.Remove(id)
		}
		if s := region.StatusOf(status); s.Commissions != slices.Contains(taken["commission"], status) {
			t.Errorf("%d is %+v", status, s)
		}
	}
	// Into rescue lead the transitions of some statuses alone.
	for status := range 23 {
		id := l.Add(maassim.Machine{Status: status, Power: "on"})
		_, err := l.client.Ask(t.Context(), "machines/"+id+"/", "rescue_mode", nil, url.Values{})
		if want := slices.Contains([]int{0, 2, 3, 4, 5, 6, 7, 8, 10, 11, 15, 17, 18, 22}, status); want != (err == nil) {
			t.Errorf("rescue_mode of a machine that is %s: %v, want %v", region.StatusOf(status).Name, err, want)
		} else if !want {
			e := refused(t, err, region.Conflict, 409, "")
			if !strings.HasPrefix(e.Text, "Invalid transition: ") || !strings.HasSuffix(e.Text, " -> Entering rescue mode.") {
				t.Error(e.Text)
			}
		}
		l.Remove(id)
	}
}

// TestStatusOf: what the table has is known, and what it has not is unknown. A state is as the name says, but for these.
func TestStatusOf(t *testing.T) {
	t.Parallel()
	others := map[string]string{"missing": machines.StateBroken, "retired": machines.StateBroken, "reserved": machines.StateAllocated,
		"deployed": machines.StateInstalled, "disk_erasing": machines.StateReleasing}
	for status := range 23 {
		s := region.StatusOf(status)
		want := cmp.Or(others[s.Name], s.Name)
		switch {
		case strings.HasPrefix(s.Name, "failed_"):
			want = machines.StateFailed
		case strings.Contains(s.Name, "rescue_mode"):
			want = machines.StateRescue
		}
		if s.Name == "" || s.State != want || s.State == machines.StateUnknown {
			t.Errorf("%d is %+v", status, s)
		}
	}
	for _, status := range []int{-1, 23, 1000} {
		if s := region.StatusOf(status); s != (region.Status{State: machines.StateUnknown}) {
			t.Errorf("%d is %+v", status, s)
		}
	}
}

// Test08Words: refusals have the words of MAAS: those of a state as text, those of a form as JSON.
func Test08Words(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id, ctx := l.deployed(), t.Context()
	_, err := l.client.Deploy(ctx, id, script)
	refused(t, err, region.Conflict, 409, "Can't deploy a machine that is in the 'Deployed' state")
	_, err = l.client.Commission(ctx, id)
	refused(t, err, region.Refused, 400, "Commission is not available because of the current state of the node.")
	_, err = l.client.MarkFixed(ctx, id, "")
	refused(t, err, region.Conflict, 409, "Can't mark a non-broken node as 'Ready'.")
	refused(t, l.client.Abort(ctx, id, ""), region.Conflict, 409,
		fmt.Sprintf("Cannot abort in current state: node %s is in state Deployed.", id))
	_, err = l.client.Acquire(ctx, id, "muster-2", "")
	refused(t, err, region.NoMachine, 409, fmt.Sprintf("No machine with system ID %s available.", id))
	fresh := l.Add(maassim.Machine{})
	_, err = l.client.Release(ctx, fresh, false, "")
	refused(t, err, region.Conflict, 409, "Machine cannot be released in its current state ('New').")
	_, err = l.client.Ask(ctx, "machines/"+fresh+"/", "power_on", nil, url.Values{})
	refused(t, err, region.Conflict, 409, "Can't start node: it hasn't been allocated.")
	_, err = l.client.Ask(ctx, "machines/", "allocate", nil, url.Values{"name": {"h"}})
	refused(t, err, region.NoMachine, 409, `No available machine matches constraints: [('name', ['h'])] (resolved to "name=h")`)
	_, err = l.client.Ask(ctx, "machines/", "allocate", nil, url.Values{})
	refused(t, err, region.NoMachine, 409, "No machine available.")
	_, err = l.client.Commission(ctx, l.Add(maassim.Machine{PowerType: "none"}))
	refused(t, err, region.Unclear, 500, "No power type")
}

// Test09Implicit: a deployment acquires a Ready machine. If it is refused, that is undone.
func Test09Implicit(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id, ctx := l.ready(), t.Context()
	wrong := script
	wrong.Series, wrong.AgentName = "warty", "muster-9"
	_, err := l.client.Deploy(ctx, id, wrong)
	e := refused(t, err, region.Refused, 400, "")
	if !strings.HasPrefix(e.Text, "distro_series: 'warty' is not a valid distro_series. It should be one of: ") {
		t.Error(e.Text)
	}
	if !region.NoImage(err) || region.NoImage(nil) {
		t.Error("that there is no image is not told")
	}
	if m := l.is(id, 4); m.Owner != "" {
		t.Errorf("it is %s's", m.Owner)
	}
	wrong.Series = "ubuntu/jammy"
	l.good(l.client.Deploy(ctx, id, wrong))
	if m := l.is(id, 9); m.Owner != "muster" || m.Series != "jammy" {
		t.Errorf("%+v", m)
	}
	if m, _ := l.Machine(id); m.AgentName != "muster-9" || m.OSystem != "ubuntu" {
		t.Errorf("the agent name is %q, and the system %q", m.AgentName, m.OSystem)
	}
	// A machine that somebody else has acquired is not safe from an admin.
	ann := l.as(l.AddUser("ann", false))
	theirs := l.ready()
	l.good(ann.Acquire(ctx, theirs, "ann-1", ""))
	l.good(l.client.Deploy(ctx, theirs, script))
	_, err = l.as(l.AddUser("bob", false)).Release(ctx, theirs, false, "")
	refused(t, err, region.Forbidden, 403, "")
}

// Test10Twice: the second deployment is refused.
func Test10Twice(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id := l.held()
	l.good(l.client.Deploy(t.Context(), id, script))
	_, err := l.client.Deploy(t.Context(), id, script)
	refused(t, err, region.Conflict, 409, "Can't deploy a machine that is in the 'Deploying' state")
}

// Test11UserData: each byte arrives. power_on without user data takes it away.
func Test11UserData(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	var all []byte
	for i := range 3000 {
		all = append(all, byte(i*i>>3), 0xfb, 0xff) // its base64 has + and /
	}
	id := l.held()
	l.good(l.client.Deploy(t.Context(), id, region.Deployment{UserData: all}))
	l.pass(10 * time.Second)
	if got, err := l.Fetch(id); err != nil || !bytes.Equal(got, all) {
		t.Errorf("%d bytes arrived, want %d; %v", len(got), len(all), err)
	}
	post := func(id, op string, form url.Values) {
		t.Helper()
		if _, err := l.client.Ask(t.Context(), "machines/"+id+"/", op, nil, form); err != nil {
			t.Fatal(err)
		}
	}
	post(id, "power_on", url.Values{})
	l.pass(10 * time.Second)
	if got, err := l.Fetch(id); err != nil || len(got) != 0 {
		t.Errorf("%d bytes are left, %v", len(got), err)
	}
	if m, _ := l.Machine(id); m.Resets != 1 {
		t.Errorf("power_on has reset a machine that runs %d times, want 1", m.Resets)
	}
	// An acquired machine is deployed by power_on, and one that runs in memory is deployed again.
	held, inMemory := l.held(), l.held()
	post(inMemory, "deploy", url.Values{"user_data": {"IyEK"}, "ephemeral_deploy": {"true"}, "enable_hw_sync": {"true"}})
	l.pass(10 * time.Second)
	if _, err := l.Fetch(inMemory); err != nil {
		t.Error(err)
	}
	if m, _ := l.Machine(inMemory); m.Status != 6 || !m.Ephemeral || !m.HWSync {
		t.Errorf("%+v", m)
	}
	for _, id := range []string{held, inMemory} {
		post(id, "power_on", url.Values{"user_data": {"IyEK"}})
		l.is(id, 9)
	}
}

// Test12Fetch: a machine is Deployed when its system fetches the user data, and not before. With OnBoot it does so by itself.
func Test12Fetch(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id := l.held()
	if _, err := l.Fetch(id); err == nil {
		t.Error("a machine without a system has fetched its user data")
	}
	l.good(l.client.Deploy(t.Context(), id, script))
	l.pass(30 * time.Minute)
	l.is(id, 9)
	if got, err := l.Fetch(id); err != nil || !bytes.Equal(got, script.UserData) {
		t.Errorf("%q, %v", got, err)
	}
	l.is(id, 6)

	var mu []string
	boots := newLab(t, maassim.Config{OnBoot: func(m maassim.Machine, data []byte) { mu = append(mu, m.ID+string(data)) }})
	one, hangs := boots.held(), boots.held()
	boots.Change(hangs, func(m *maassim.Machine) { m.Hangs = true })
	boots.good(boots.client.Deploy(t.Context(), one, script))
	boots.good(boots.client.Deploy(t.Context(), hangs, script))
	boots.pass(5 * time.Minute)
	boots.is(one, 9)
	boots.pass(10 * time.Second)
	boots.is(one, 6)
	boots.is(hangs, 9)
	if want := []string{one + string(script.UserData)}; !slices.Equal(mu, want) {
		t.Errorf("booted %q, want %q", mu, want)
	}
}

// Test12Polls: with the real clock, the machines live while somebody asks. OnBoot may ask the simulator, too.
func Test12Polls(t *testing.T) {
	t.Parallel()
	booted := make(chan maassim.Machine, 1)
	var sim *maassim.Sim
	sim = maassim.New(maassim.Config{Power: time.Millisecond, Install: time.Millisecond, OnBoot: func(m maassim.Machine, _ []byte) {
		is, _ := sim.Machine(m.ID)
		booted <- is
	}})
	server := httptest.NewServer(sim)
	defer server.Close()
	c, err := region.New(region.Config{URL: server.URL, Key: sim.Key()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id := sim.Add(maassim.Machine{Status: 4})
	if _, err := c.Deploy(t.Context(), id, script); err != nil {
		t.Fatal(err)
	}
	for status := 9; status == 9; {
		m, err := c.Machine(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		status = m.Status
	}
	if m := <-booted; m.ID != id || m.Status != 6 || m.Power != "on" {
		t.Errorf("%+v", m)
	}
}

// Test13Clock: a deployment ends after an hour, a release after five minutes and a commissioning after half an hour.
func Test13Clock(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	hung := func(id string) string {
		l.Change(id, func(m *maassim.Machine) { m.Hangs = true })
		return id
	}
	ctx := t.Context()
	deploys, commissions, releases := hung(l.held()), hung(l.ready()), l.deployed()
	l.good(l.client.Deploy(ctx, deploys, script))
	l.good(l.client.Commission(ctx, commissions))
	l.Change(releases, func(m *maassim.Machine) { m.BMCAway = true })
	_, err := l.client.Release(ctx, releases, false, "")
	refused(t, err, region.Unclear, 503, "Failed talking to node's BMC: no response")
	for _, step := range []struct {
		after                           time.Duration
		deploys, commissions, releasing int
	}{
		{4*time.Minute + 59*time.Second, 9, 1, 12}, {time.Second, 9, 1, 13}, {24*time.Minute + 59*time.Second, 9, 1, 13},
		{time.Second, 9, 2, 13}, {29*time.Minute + 59*time.Second, 9, 2, 13}, {time.Second, 11, 2, 13},
	} {
		l.pass(step.after)
		l.is(deploys, step.deploys)
		l.is(commissions, step.commissions)
		l.is(releases, step.releasing)
	}
	if m := l.is(deploys, 11); m.Error != "time-out during deployment" || m.Owner != "muster" {
		t.Errorf("%+v", m)
	}
	if m := l.is(commissions, 2); m.Owner != "" {
		t.Errorf("a commissioning that ended leaves it %s's", m.Owner)
	}
}
