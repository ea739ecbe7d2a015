package maas_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/account"
	surface "muster/gateway/internal/adminapi/maas"
	"muster/gateway/internal/adminapi/row"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/recovery"
	"muster/store/engine"
)

// command is one that a person gives, in what the plan says.
var command = regexp.MustCompile(`muster (maas|node|profile) ([a-z]+) ([^;:,()]*[^;:,() ])`)

// post gives an act to the route of the admin API.
func (w *world) post(q machines.Act) (out machines.Acted, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return out, err
	}
	for _, r := range surface.Table() {
		if r.Reads {
			answer, err := r.Serve(surface.Call{Service: w.Service, Call: &row.Call{Request: httptest.NewRequest("POST", "/"+api.PathMachines, nil),
				Caller: account.Caller{Actor: ann}, Body: func() ([]byte, error) { return body, nil }}})
			if err != nil {
				return out, err
			}
			return answer.(machines.Acted), nil
		}
	}
	return out, errors.New("there is no route")
}

// follow does what a plan says. It gives how many commands of muster maas that were.
func (w *world) follow(step machines.Step) (given int) {
	w.t.Helper()
	if strings.Contains(step.Next, "SYSTEM") || strings.Contains(step.Next, "NODE") {
		w.t.Errorf("%s: no name stands in %q", step.Finding, step.Next)
	}
	if strings.Contains(step.Next, "(muster alloc ls)") {
		w.sql("UPDATE holds SET freed_at = 1 WHERE node_id = (SELECT node_id FROM maas_machines WHERE system_id = ?)", step.SystemID)
	}
	for _, c := range command.FindAllStringSubmatch(step.Next, -1) {
		words := strings.Fields(c[3])
		switch c[1] + " " + c[2] {
		case "maas show", "node show":
		case "node drain":
			w.move(words[0], fleet.Drain)
		case "profile assign":
			w.profile(w.machine(words[1]).NodeID, api.ProfileSliceVM)
		default:
			given++
			got, err := w.post(machines.Act{Act: c[2], Machines: words[:1], Force: slices.Contains(words, "--force")})
			if err != nil || len(got.Refused) > 0 {
				m := w.machine(step.SystemID)
				w.t.Errorf("%s, %s in MAAS, of %q, its node %s: %q is refused: %v, %v", step.Finding, m.StatusRaw, m.Owner, m.NodeState, c[0],
					got.Refused, err)
			}
		}
	}
	return given
}

// TestAdvice brings machines into each status, in all hands, with nodes in all states. What the plan says to do about the gravest that is
// wrong is taken by the API, and then that is wrong no more, or the machine is elsewhere.
func TestAdvice(t *testing.T) {
	t.Parallel()
	for _, node := range []string{"", wire.StateCommissioned, wire.StateReady, wire.StateActive, "silent", wire.StateDrained, "held",
		wire.StateUnavailable, wire.StateRetired} {
		t.Run(node, func(t *testing.T) {
			t.Parallel()
			adviceFor(t, node)
		})
	}
}

// adviceFor is TestAdvice for nodes in one state.
func adviceFor(t *testing.T, node string) {
	w := newWorld(t)
	var ids []string
	owners := []string{"", "muster", "other", "bob"}
	w.sim.Define(api.ProfileBareMetal, "")
	for range 23 * len(owners) {
		ids = append(ids, w.sim.Add(maassim.Machine{Status: 4, Passed: true, Tags: []string{api.ProfileBareMetal}}))
	}
	w.pass(30 * time.Second)
	all := w.all()
	var rows []engine.Statement
	for i, id := range ids {
		rows = append(rows, w.brought(all[id], i/len(owners), node, owners[i%len(owners)])...)
	}
	if err := w.store.Records().Change(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	plan, err := w.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	was, seen, followed := w.all(), map[string]bool{}, map[string]machines.Step{}
	for _, step := range plan.Steps {
		if seen[step.SystemID] || step.Severity == "" {
			continue
		}
		seen[step.SystemID] = true
		if w.follow(step) > 0 {
			followed[step.SystemID] = step
		}
	}
	if len(followed) < 10 {
		t.Errorf("%d commands", len(followed))
	}
	for range 12 {
		w.clock.Forward(4 * time.Minute)
		w.sim.Tick()
		if err := w.Round(t.Context()); err != nil {
			t.Log(err)
		}
	}
	all = w.all()
	for id, step := range followed {
		m := all[id]
		if m.Finding == step.Finding && m.State == was[id].State && m.NodeState == was[id].NodeState {
			t.Errorf("%s stays, although %q was done: %s, %s: %+v", step.Finding, step.Next, m.StatusRaw, m.NodeState, m.Ended)
		}
	}
}

// bring brings a machine, its owner and its node into a state.
func (w *world) bring(id string, status int, state, owner string) {
	w.t.Helper()
	if err := w.store.Records().Change(w.t.Context(), w.brought(w.machine(id), status, state, owner)); err != nil {
		w.t.Fatal(err)
	}
}

// brought brings a machine and its owner into a state. It gives what brings the records there.
func (w *world) brought(was machines.Machine, status int, state, owner string) (rows []engine.Statement) {
	id, node, now := was.SystemID, was.NodeID, w.clock.Now()
	do := func(text string, args ...any) { rows = append(rows, engine.Do(text, args...)) }
	w.sim.Change(id, func(m *maassim.Machine) {
		m.Status, m.Owner, m.AgentName = status, owner, "muster-x"
		if owner == "other" {
			m.Owner, m.AgentName = "muster", "other"
		}
	})
	if owner == "muster" {
		do("UPDATE maas_machines SET acquired = 'muster-x' WHERE system_id = ?", id)
	}
	heard := now.Add(-time.Second)
	switch state {
	case "":
		do("UPDATE nodes SET state = 'retired', retired_at = 1 WHERE id = ?", node)
		do("UPDATE maas_machines SET node_id = '', kept_out = 1 WHERE system_id = ?", id)
		return rows
	case "silent":
		state, heard = wire.StateActive, now.Add(-time.Hour)
	case "held":
		state = wire.StateActive
		do("INSERT INTO holds(allocation, node_id, unit, uuid, slot_id, tenant, state) VALUES (?, ?, 'u', '', 's', 't', 'held')", id, node)
	case wire.StateRetired:
		do("UPDATE nodes SET retired_at = 1 WHERE id = ?", node)
	}
	do("UPDATE nodes SET state = ?, profile = ? WHERE id = ?", state, api.ProfileBareMetal, node)
	if state != wire.StateCommissioned && state != wire.StateReady {
		do("UPDATE nodes SET enrolled_at = ? WHERE id = ?", engine.Millis(now.Add(-2*time.Hour)), node)
		do("UPDATE liveness SET last_seen = ?, interval_ms = 30000 WHERE node_id = ?", engine.Millis(heard), node)
	}
	return rows
}

// TestAdviceOfEachRow brings about each row that a person must do something about. What the row says is done, and then it is over.
func TestAdviceOfEachRow(t *testing.T) {
	t.Parallel()
	status := func(s int) func(*world, string) {
		return func(w *world, id string) { w.bring(id, s, wire.StateCommissioned, "") }
	}
	change := func(c func(m *maassim.Machine)) func(*world, string) {
		return func(w *world, id string) { w.sim.Change(id, c) }
	}
	nothing := func(*world, string) {}
	begin := func(w *world, id string) { w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}}) }
	cases := map[string]struct {
		from   func(w *world) string // a machine: ready or deployed
		breaks func(w *world, id string)
		byHand func(w *world, id string) // in MAAS
	}{
		"reports_but_ready":  {deployedID, func(w *world, id string) { w.bring(id, 4, wire.StateActive, "") }, nil},
		"installed_no_more":  {deployedID, func(w *world, id string) { w.bring(id, 4, "silent", "") }, nil},
		"gone":               {deployedID, func(w *world, id string) { w.sim.Remove(id) }, nil},
		"never_reports":      {readyID, func(w *world, id string) { w.bring(id, 6, wire.StateDeploying, "muster") }, nil},
		"node_silent":        {deployedID, func(w *world, _ string) { w.sql("UPDATE liveness SET last_seen = 1") }, nothing},
		"acquired_elsewhere": {readyID, func(w *world, id string) { w.bring(id, 6, wire.StateCommissioned, "other") }, nil},
		"left_installed":     {deployedID, func(w *world, id string) { w.move(w.machine(id).Node, fleet.Retire) }, nil},
		"system_id_changed": {readyID, func(w *world, id string) {
			w.sim.Change(id, func(m *maassim.Machine) { m.UUID = "u-1" })
			w.pass(30 * time.Second)
			w.sim.Remove(id)
			w.sim.Add(maassim.Machine{Status: 4, UUID: "u-1", Hostname: "again"})
		}, nil},
		"deploy_failed_elsewhere": {readyID, func(w *world, id string) { w.bring(id, 11, wire.StateCommissioned, "muster") }, nil},
		"release_failed":          {readyID, func(w *world, id string) { w.bring(id, 15, wire.StateCommissioned, "muster") }, nil},
		"release_hangs": {readyID, func(w *world, id string) {
			w.sim.Change(id, func(m *maassim.Machine) { m.Power, m.Seen = "on", "on" })
			w.bring(id, 12, wire.StateCommissioned, "muster")
			w.pass(30 * time.Second)
			w.sim.Change(id, func(m *maassim.Machine) { m.Since = m.Since.Add(16 * time.Minute) })
			w.clock.Forward(16 * time.Minute)
		}, change(func(m *maassim.Machine) { m.Status, m.Owner = 4, "" })},
		"erase_hangs": {readyID, func(w *world, id string) {
			w.bring(id, 14, wire.StateCommissioned, "muster")
			w.pass(30 * time.Second)
			w.clock.Forward(25 * time.Hour)
		}, change(func(m *maassim.Machine) { m.Status = 15 })},
		"not_commissioned":     {readyID, status(0), nil},
		"commissioning_failed": {readyID, status(2), nil},
		"tests_failed":         {readyID, status(22), change(func(m *maassim.Machine) { m.Status = 4 })},
		"rescue_failed":        {readyID, status(18), change(func(m *maassim.Machine) { m.Status = 4 })},
		"last_work_failed": {readyID, func(w *world, id string) {
			w.silence(id, true)
			begin(w, id)
			w.pass(80 * time.Minute)
		}, nil},
		"foreign_owner": {readyID, func(w *world, id string) { w.bring(id, 10, wire.StateCommissioned, "bob") }, nil},
		"locked": {readyID, func(w *world, id string) {
			begin(w, id)
			w.sim.Change(id, func(m *maassim.Machine) { m.Locked = true })
		}, change(func(m *maassim.Machine) { m.Locked = false })},
		"broken":     {deployedID, func(w *world, id string) { w.bring(id, 8, wire.StateDrained, "muster") }, nil},
		"out_of_use": {deployedID, func(w *world, id string) { w.bring(id, 3, wire.StateDrained, "") }, nil},
		"power_error": {readyID, change(func(m *maassim.Machine) { m.Seen, m.BMCAway = "error", true }),
			change(func(m *maassim.Machine) { m.Seen, m.BMCAway = "off", false })},
		"tag_conflict": {readyID, change(func(m *maassim.Machine) { m.Tags = []string{api.ProfileSliceVM} }), nothing},
		"no_profile": {readyID, func(w *world, id string) {
			w.bring(id, 4, wire.StateCommissioned, "")
			w.profile(w.machine(id).NodeID, "")
		}, nothing},
		"tag_defined": {readyID, func(w *world, _ string) { w.sim.Define(api.ProfileBareMetal, "//node") },
			func(w *world, _ string) { w.sim.Define(api.ProfileBareMetal, "") }},
	}
	for _, row := range recovery.Table() {
		c, known := cases[row.Name]
		if row.Next == "" && row.Acts == nil || row.Name == "unknown_state" { // MAAS has no such status today
			continue
		}
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			if !known {
				t.Fatal("no case brings it about")
			}
			w := newWorld(t)
			id := c.from(w)
			c.breaks(w, id)
			if err := w.Round(t.Context()); err != nil {
				t.Fatal(err)
			}
			step := w.planned(id, row.Name)
			if step.Finding == "" {
				t.Fatalf("it is not in the plan: %+v", w.machine(id))
			}
			given := w.follow(step)
			if c.byHand != nil {
				c.byHand(w, id)
			} else if given == 0 {
				t.Errorf("there is no command in %q", step.Next)
			}
			w.pass(30 * time.Minute)
			if step := w.planned(id, row.Name); step.Finding != "" {
				t.Errorf("it is in the plan still: %+v\n%+v", step, w.machine(id))
			}
		})
	}
}

func readyID(w *world) string    { id, _ := w.ready(); return id }
func deployedID(w *world) string { id, _ := w.deployed(); return id }

// planned is what the plan has of a machine, by the name of the row; the zero Step if it has not.
func (w *world) planned(id, finding string) machines.Step {
	w.t.Helper()
	plan, err := w.Plan(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, step := range plan.Steps {
		if step.SystemID == id && step.Finding == finding {
			return step
		}
	}
	return machines.Step{}
}
