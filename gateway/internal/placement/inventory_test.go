package placement

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory"
	"muster/store"
	"muster/store/engine"
)

// owned has a node that is the operator's own, and no container.
func owned(t *testing.T, id string) (*world, wire.Evidence) {
	t.Helper()
	w := newWorld(t, id)
	w.set(id, func(r *api.NodeRow) { r.Provider = "" })
	e := machine(id, 8)
	e.Facts.Contained = false
	e.Facts.Vendor, e.Facts.Product = "Dell Inc.", "PowerEdge XE9680"
	return w, e
}

// assign gives a node a profile, and tells whether that was refused.
func (w *world) assign(id, profile string) api.AssignedNode {
	w.t.Helper()
	out, err := w.Assign(w.t.Context(), operator, api.AssignRequest{Nodes: []string{id}, Profile: profile})
	w.must(err)
	return out.Nodes[0]
}

// TestProfiles: a node has one profile at most, a change makes new evidence necessary, and a host never goes from one of the two to the
// other one in one step.
func TestProfiles(t *testing.T) {
	t.Parallel()
	w, e := owned(t, "n-1")
	w.show("n-1", e)
	if row, _ := w.row("n-1"); row.Placement.Profile != "" || row.Placement.Capacity != api.CapacityNone {
		t.Errorf("a machine of one's own has %+v", row.Placement)
	}
	if got := w.assign("n-1", api.ProfileSliceVM); got.Refused != "" || got.Before != "" || got.Profile != api.ProfileSliceVM {
		t.Errorf("assigned: %+v", got)
	}
	if got := w.assign("n-1", api.ProfileBareMetal); !strings.Contains(got.Refused, "never has both") || got.Profile != api.ProfileSliceVM {
		t.Errorf("the other one: %+v", got)
	}
	w.set("n-1", func(r *api.NodeRow) { r.State = wire.StateReady })
	if got := w.assign("n-1", api.ProfileBareMetal); got.Refused != "" || got.Profile != api.ProfileBareMetal {
		t.Errorf("nothing is installed: %+v", got)
	}
	if got := w.assign("n-1", api.ProfileSliceVM); got.Refused != "" {
		t.Errorf("and back: %+v", got)
	}
	w.set("n-1", func(r *api.NodeRow) { r.State = wire.StateActive })
	w.Round(t.Context())
	if checks := w.sent(wire.TaskNodeCheck); len(checks) == 0 || checks[len(checks)-1].Params.(wire.NodeCheck).Profile != api.ProfileSliceVM {
		t.Errorf("checks: %+v", checks)
	}
	e.Checks = slices.DeleteFunc(e.Checks, func(c wire.Check) bool { return c.Name == wire.CheckKVM })
	w.show("n-1", e)
	got, err := w.Evidence(t.Context(), "", "n-1")
	w.must(err)
	if len(got.Missing) != 1 || !strings.HasPrefix(got.Missing[0], wire.CheckKVM) || !got.Current {
		t.Errorf("what was not looked at is missing: %+v", got)
	}
	if w.assign("n-1", "").Refused != "" || w.assign("n-1", api.ProfileBareMetal).Refused != "" {
		t.Error("by way of none it is refused too")
	}
	_, err = w.Assign(t.Context(), operator, api.AssignRequest{Nodes: []string{"n-1"}, Profile: "none-such"})
	w.refused("a profile that is not there", wire.CodeNotFound, err)
	_, err = w.Assign(t.Context(), operator, api.AssignRequest{Nodes: []string{"n-9"}, Profile: api.ProfileContainer})
	w.refused("a node that is not there", wire.CodeNotFound, err)
	_, err = w.Assign(t.Context(), operator, api.AssignRequest{Profile: api.ProfileContainer})
	w.refused("no node", wire.CodeBadRequest, err)
	if w.events("profile.assigned") != 5 {
		t.Errorf("%d events", w.events("profile.assigned"))
	}
}

// TestAssignHeld: what is allocated keeps the profile.
func TestAssignHeld(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1", "n-2")
	w.have(ada, 1)
	out, err := w.Assign(t.Context(), operator, api.AssignRequest{Selector: "provider=vast_ai"})
	w.must(err)
	refused := 0
	for _, n := range out.Nodes {
		if n.Refused != "" {
			refused++
		}
	}
	if len(out.Nodes) != 2 || refused != 1 {
		t.Errorf("%+v", out)
	}
}

// TestPushProfile: a profile of one's own says what a host must show; the same again changes nothing; one that nodes have stays.
func TestPushProfile(t *testing.T) {
	t.Parallel()
	w, e := owned(t, "n-1")
	body := []byte(`{"name":"lab","about":"hosts of the lab","checks":["gpus"],"slots":{"shapes":["gpu"]}}`)
	p, changed, err := w.PushProfile(t.Context(), body, operator.By)
	w.must(err)
	if !changed || p.Name != "lab" || p.UpdatedBy != "operator:socket" {
		t.Errorf("pushed: %+v, %v", p, changed)
	}
	if _, changed, err = w.PushProfile(t.Context(), body, operator.By); err != nil || changed {
		t.Errorf("again: %v, %v", changed, err)
	}
	w.assign("n-1", "lab")
	w.show("n-1", e)
	w.approve()
	stricter := []byte(`{"name":"lab","about":"hosts of the lab","checks":["gpus","kvm"],"slots":{"shapes":["gpu"]}}`)
	if _, changed, err = w.PushProfile(t.Context(), stricter, operator.By); err != nil || !changed {
		t.Errorf("changed: %v, %v", changed, err)
	}
	w.Tell()
	if row, _ := w.row("n-1"); row.Placement.Capacity != api.CapacityUnproven {
		t.Errorf("after the change: %+v", row.Placement)
	}
	w.refused("removed", wire.CodeIllegalMove, w.RemoveProfile(t.Context(), "lab", operator.By))
	w.refused("a built-in one removed", wire.CodeBadRequest, w.RemoveProfile(t.Context(), api.ProfileContainer, operator.By))
	w.refused("none removed", wire.CodeNotFound, w.RemoveProfile(t.Context(), "none", operator.By))
	w.assign("n-1", "")
	w.must(w.RemoveProfile(t.Context(), "lab", operator.By))
	if all, err := w.Profiles(t.Context()); err != nil || len(all) != 3 {
		t.Errorf("profiles: %+v, %v", all, err)
	}
	if _, _, err := w.PushProfile(t.Context(), []byte("{"), operator.By); err == nil {
		t.Error("half a profile was taken")
	}
}

// TestAccept: an acceptance judges by what was promised, and not by what the node says of itself; figures stand beside those of its kind.
func TestAccept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "n-1", "n-2", "n-3")
	eight := 8
	for i, id := range []string{"n-1", "n-2", "n-3"} {
		w.set(id, func(r *api.NodeRow) { r.GPUsExpected = &eight })
		e := machine(id, 8)
		e.Checks = append(e.Checks, wire.Check{Name: wire.CheckDiskSpeed, State: wire.CheckOK})
		e.Figures = []wire.Figure{{Name: "disk_write", Value: float64(1000 * (i + 1)), Unit: "MB/s"}}
		w.show(id, e)
	}
	w.restart()
	got, err := w.Evidence(t.Context(), "", "n-1")
	w.must(err)
	if paid := paidOf(got); paid.State != wire.CheckOK || paid.Saw != "8 x h100-sxm of 79 GiB" {
		t.Errorf("as paid: %+v", paid)
	}
	if f := got.Figures; len(f) != 1 || f[0].Of != 2 || *f[0].Median != 2500 || f[0].Value != 1000 {
		t.Errorf("figures: %+v", f)
	}
	for name, c := range map[string]struct {
		labels map[string]string
		gpus   int
		state  string
	}{
		"as promised":       {map[string]string{"gpu_model": "h100", "gpu_memory_gib": "80"}, 8, wire.CheckOK},
		"another model":     {map[string]string{"gpu_model": "h200"}, 8, wire.CheckFailed},
		"less memory":       {map[string]string{"gpu_memory_gib": "141"}, 8, wire.CheckFailed},
		"more than is paid": {nil, 9, wire.CheckFailed},
	} {
		w.must(w.store.SetLabels(t.Context(), "n-1", c.labels, nil))
		e := machine("n-1", c.gpus)
		e.Checks = append(e.Checks, wire.Check{Name: wire.CheckDiskSpeed, State: wire.CheckOK})
		w.show("n-1", e)
		got, err := w.Evidence(t.Context(), "", "n-1")
		w.must(err)
		if paid := paidOf(got); paid.State != c.state {
			t.Errorf("%s: %+v", name, paid)
		}
		var drop []string
		for key := range c.labels {
			drop = append(drop, key)
		}
		w.must(w.store.SetLabels(t.Context(), "n-1", nil, drop))
	}
}

// TestCheck: a check can be asked for; one that gives nothing is tried again later and later.
func TestCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "n-1")
	_, err := w.Check(t.Context(), operator, "n-1", api.CheckRequest{Image: "x"}, anything)
	w.refused("a container without an acceptance", wire.CodeBadRequest, err)
	_, err = w.Check(t.Context(), Caller{Tenant: "other"}, "n-1", api.CheckRequest{}, anything)
	w.refused("a node of another tenant", wire.CodeNotFound, err)
	started, err := w.Check(t.Context(), operator, "n-1", api.CheckRequest{Accept: true}, anything)
	w.must(err)
	order := w.sent(wire.TaskNodeCheck)[0]
	if p := order.Params.(wire.NodeCheck); order.ID != started.Task || !slices.Contains(p.Checks, wire.CheckDiskSpeed) ||
		slices.Contains(p.Checks, wire.CheckAsPaid) || slices.Contains(p.Checks, wire.CheckProgram) || p.Check() != nil {
		t.Errorf("the check is %+v", p)
	}
	if e, err := w.Evidence(t.Context(), "", "n-1"); err != nil || e.Pending != started.Task || e.Evidence != nil || e.Tags == nil ||
		e.Missing == nil {
		t.Errorf("meanwhile: %+v, %v", e, err)
	}
	w.Round(t.Context())
	if more := w.sent(wire.TaskNodeCheck); len(more) != 0 {
		t.Errorf("asked twice: %+v", more)
	}
	var pauses []time.Duration
	for range 3 {
		failed := store.Task{ID: started.Task, NodeID: "n-1", Type: wire.TaskNodeCheck, Status: "failed", CreatedBy: inventory.ByGateway,
			TaskEnd: store.TaskEnd{Code: wire.CodeTaskTypeUnknown}}
		w.must(w.TakeEvidence(t.Context(), failed))
		before := w.clock()
		for range 1000 {
			w.Round(t.Context())
			if len(w.sent(wire.TaskNodeCheck)) > 0 {
				break
			}
			w.pass(time.Minute)
		}
		pauses = append(pauses, w.clock().Sub(before))
	}
	if !slices.Equal(pauses, []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute}) {
		t.Errorf("tried again after %v", pauses)
	}
	w.must(w.TakeEvidence(t.Context(), store.Task{NodeID: "n-1", Type: wire.TaskNodeCheck, Status: "lost", CreatedBy: inventory.ByGateway}))
	w.pass(24 * time.Hour)
	w.Round(t.Context())
	if again := w.sent(wire.TaskNodeCheck); len(again) != 1 {
		t.Errorf("after a lost one: %+v", again)
	}
	w.pass(24 * time.Hour)
	w.Round(t.Context())
	w.pass(24 * time.Hour)
	w.Round(t.Context())
	if again := w.sent(wire.TaskNodeCheck); len(again) != 1 {
		t.Errorf("after one that nobody took: %+v", again)
	}
	w.refuse[wire.TaskNodeCheck] = errors.New("no")
	w.pass(24 * time.Hour)
	w.Round(t.Context())
	w.pass(24 * time.Hour)
	w.Round(t.Context())
	if e, err := w.Evidence(t.Context(), "", "n-1"); err != nil || e.Pending != "" {
		t.Errorf("a check that could not be sent: %+v, %v", e, err)
	}
}

// TestCheckEnded: a check that has ended while its node was away is not under way, also after the gateway's start: the node is asked again.
func TestCheckEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "n-1")
	_, err := w.store.Records().Batch(t.Context(), []engine.Statement{engine.Do("UPDATE nodes SET enrolment_id = 'e'")})
	w.must(err)
	asked := map[string]bool{}
	for _, again := range []struct {
		what string
		do   func()
	}{
		{"for the first time", func() {}},
		{"enrolled again", func() { w.Take(t.Context(), []store.Event{{Kind: "node.enrolled", NodeID: "n-1"}}) }},
		{"after the gateway's start", w.restart},
	} {
		again.do()
		var orders []inventory.Order
		for range 3 {
			w.Round(t.Context())
			orders = append(orders, w.sent(wire.TaskNodeCheck)...)
		}
		if len(orders) != 1 || asked[orders[0].ID] {
			t.Fatalf("%s: %+v", again.what, orders)
		}
		asked[orders[0].ID] = true
		if e, err := w.Evidence(t.Context(), "", "n-1"); err != nil || e.Pending != orders[0].ID {
			t.Errorf("%s: under way is %q, %v", again.what, e.Pending, err)
		}
		w.must(w.store.CreateTask(t.Context(), store.Task{ID: orders[0].ID, NodeID: "n-1", EnrolmentID: "e", Type: wire.TaskNodeCheck,
			CreatedBy: inventory.ByGateway, Payload: []byte("{}"), CreatedAt: w.clock(), ExpiresAt: w.clock().Add(time.Hour)}))
		w.must(w.cancel(t.Context(), orders[0].ID, operator.By))
	}
}

// TestDecide has what cannot be decided.
func TestDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "n-1")
	w.show("n-1", machine("n-1", 2))
	for name, c := range map[string]struct {
		q    api.SlotDecision
		code string
	}{
		"nothing":        {api.SlotDecision{}, wire.CodeBadRequest},
		"no such slot":   {api.SlotDecision{Slots: []string{"aaaaaaaaaaaaaaaa"}}, wire.CodeNotFound},
		"no such node":   {api.SlotDecision{Node: "n-9"}, wire.CodeNotFound},
		"a bad selector": {api.SlotDecision{Selector: "="}, wire.CodeBadSelector},
	} {
		_, err := w.Decide(t.Context(), operator, c.q)
		w.refused(name, c.code, err)
	}
	dry, err := w.Decide(t.Context(), operator, api.SlotDecision{Node: "n-1", Shape: api.ShapeGPU, DryRun: true})
	if err != nil || dry.Changed != 2 || len(dry.Slots) != 2 || dry.Slots[0].State != api.SlotProposed || dry.Slots[0].Next == "" {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	got, err := w.Decide(t.Context(), operator, api.SlotDecision{Node: "n-1", Shape: api.ShapeGPU})
	if err != nil || got.Changed != 2 || got.Slots[0].State != api.SlotApproved || got.Slots[0].DecidedBy != "operator:socket" {
		t.Errorf("approved: %+v, %v", got, err)
	}
	if got, err = w.Decide(t.Context(), operator, api.SlotDecision{Node: "n-1", Shape: api.ShapeGPU}); err != nil || got.Changed != 0 {
		t.Errorf("again: %+v, %v", got, err)
	}
	got, err = w.Decide(t.Context(), operator, api.SlotDecision{Slots: []string{got.Slots[0].ID}, Disable: true, Reason: "hot"})
	if err != nil || got.Slots[0].State != api.SlotDisabled || !strings.Contains(got.Slots[0].Reason, "hot") {
		t.Errorf("disabled: %+v, %v", got, err)
	}
	list, err := w.Slots(t.Context(), "", api.SlotFilter{State: api.SlotApproved, SKU: "h100-sxm-gpu", Limit: 1})
	if err != nil || len(list.Slots) != 1 || list.Total != 1 || list.Next != "" {
		t.Errorf("list: %+v, %v", list, err)
	}
	first, err := w.Slots(t.Context(), "", api.SlotFilter{Limit: 2})
	w.must(err)
	rest, err := w.Slots(t.Context(), "", api.SlotFilter{Limit: 2, Cursor: first.Next})
	if err != nil || len(first.Slots) != 2 || len(rest.Slots) != 1 || first.Total != 3 || rest.Next != "" {
		t.Errorf("pages: %+v, %+v, %v", first, rest, err)
	}
	if none, err := w.Slots(t.Context(), "other", api.SlotFilter{}); err != nil || none.Total != 0 {
		t.Errorf("another tenant sees %+v, %v", none, err)
	}
	_, err = w.Slots(t.Context(), "", api.SlotFilter{State: "odd"})
	w.refused("an odd state", wire.CodeBadRequest, err)
}

// TestRules has what no rule can be, and a rule that ends.
func TestRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "n-1")
	for name, c := range map[string]struct {
		name string
		q    api.SlotRuleRequest
		code string
	}{
		"no selector": {"a", api.SlotRuleRequest{}, wire.CodeBadRequest}, "a bad one": {"a", api.SlotRuleRequest{Selector: "="},
			wire.CodeBadSelector},
		"no name": {"a b", api.SlotRuleRequest{Selector: "x=y"}, wire.CodeBadRequest},
		"shape":   {"a", api.SlotRuleRequest{Selector: "x=y", Shape: "round"}, wire.CodeBadRequest},
	} {
		_, err := w.SetSlotRule(t.Context(), operator, c.name, c.q)
		w.refused(name, c.code, err)
	}
	_, err := w.SetSlotRule(t.Context(), operator, "whole", api.SlotRuleRequest{Selector: "tenant=platform", Shape: api.ShapeNode})
	w.must(err)
	w.restart()
	w.show("n-1", machine("n-1", 2))
	w.want("nodes", w.states(api.ShapeNode), map[string]int{api.SlotApproved: 1})
	w.want("GPUs", w.states(api.ShapeGPU), map[string]int{api.SlotProposed: 2})
	if list, err := w.SlotRules(t.Context()); err != nil || len(list.Rules) != 1 || list.Rules[0].Name != "whole" {
		t.Errorf("rules: %+v, %v", list, err)
	}
	w.must(w.RemoveSlotRule(t.Context(), operator, "whole"))
	w.refused("again", wire.CodeNotFound, w.RemoveSlotRule(t.Context(), operator, "whole"))
}

// paidOf is whether a machine is what is paid for.
func paidOf(e api.NodeEvidence) wire.Check {
	for _, c := range e.Evidence.Checks {
		if c.Name == wire.CheckAsPaid {
			return c
		}
	}
	return wire.Check{}
}
