package fleet_test

import (
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
	"muster/store/engine"
)

// TestProvide follows a machine of a provider from its commissioning to its release, and back.
func TestProvide(t *testing.T) {
	f := newFleet(t)
	by := store.Actor{Name: "maas"}
	n, err := f.Commission(t.Context(), "box", "platform", "maas", "abc123", by)
	if err != nil || n.State != wire.StateCommissioned || n.Provider != "maas" || n.InstanceID != "abc123" {
		t.Fatalf("%+v, %v", n, err)
	}
	if _, err := f.Commission(t.Context(), "box", "platform", "maas", "other", by); code(err) != wire.CodeNameInUse {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := f.Commission(t.Context(), "no name", "platform", "maas", "other", by); code(err) != wire.CodeBadName {
		t.Errorf("no name: %v", err)
	}
	provide := func(verb fleet.Verb, force bool, want string) {
		t.Helper()
		if err := f.Provide(t.Context(), n.ID, verb, force, by); code(err) != want {
			t.Fatalf("%s: got %v, want %s", verb, err, want)
		}
	}
	bound := func(id string) store.Token { return f.token(id, func(s *store.Token) { s.NodeID = n.ID }) }
	provide(fleet.Deploy, false, wire.CodeIllegalMove)
	provide(fleet.Accept, false, "ok")
	early := bound("msb_early")
	provide(fleet.Deploy, false, "ok")
	_, err = f.Enrol(t.Context(), f.applicant(early, "box", newKey(t)))
	f.wantRefusal(err, wire.CodeTokenRevoked)
	ad, err := f.Enrol(t.Context(), f.applicant(bound("msb_first"), "box", newKey(t)))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.seen("box"); got.Provider != "maas" || got.InstanceID != "abc123" {
		t.Errorf("the agent made it %s %s", got.Provider, got.InstanceID)
	}
	f.beat(ad, 1, nil)
	provide(fleet.Decommission, true, wire.CodeIllegalMove) // it works
	f.apply("box", fleet.Drain)
	hold := "INSERT INTO holds(allocation, node_id, unit, uuid, slot_id, tenant, state) VALUES ('al', ?, 'u', '', 's', 't', 'held')"
	if err := f.store.Records().Change(t.Context(), []engine.Statement{engine.Do(hold, n.ID)}); err != nil {
		t.Fatal(err)
	}
	provide(fleet.Redeploy, false, wire.CodeUnavailable)
	provide(fleet.Decommission, false, wire.CodeUnavailable)
	provide(fleet.Decommission, true, "ok")
	if err := f.may(ad.Certificate.Fingerprint, fleet.ForAnything); err == nil {
		t.Error("the old certificate is good still")
	}
	if events := f.events("node.decommissioned"); len(events) != 1 || events[0].Actor != "maas" || !events[0].Security {
		t.Errorf("events %+v", events)
	}
	provide(fleet.Accept, false, "ok")
	provide(fleet.Deploy, false, wire.CodeUnavailable)
	if err := f.store.Records().Change(t.Context(), []engine.Statement{engine.Do("UPDATE holds SET freed_at = 1")}); err != nil {
		t.Fatal(err)
	}
	provide(fleet.Deploy, false, "ok")
	if ad, err = f.Enrol(t.Context(), f.applicant(bound("msb_second"), "box", newKey(t))); err != nil || ad.Node.ID != n.ID {
		t.Fatalf("again: %+v, %v", ad, err)
	}
}
