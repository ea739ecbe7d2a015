package maas_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/maas"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantConflict(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("%s: got %v, want a conflict", what, err)
	}
}

func open(t testing.TB) (maas.Records, *store.Store) {
	t.Helper()
	s := storetest.Open(t, func() time.Time { return start })
	for _, id := range []string{"n-1", "n-2"} {
		must(t, s.CreateNode(t.Context(), store.Node{ID: id, Name: id, Tenant: "platform", CreatedAt: start}, nil))
	}
	return maas.New(s.Records()), s
}

func see(t testing.TB, r maas.Records, at time.Time, gone []string, seen ...maas.Seen) {
	t.Helper()
	must(t, r.See(t.Context(), at, seen, gone))
}

func machines(t testing.TB, r maas.Records) string {
	t.Helper()
	all, err := r.Machines(t.Context())
	must(t, err)
	text := ""
	for _, m := range all {
		text += fmt.Sprintf("%s %d since %s", m.SystemID, m.Status, m.Since.Sub(start))
		if m.GoneAt != nil {
			text += fmt.Sprintf(" gone %s", m.GoneAt.Sub(start))
		}
		text += fmt.Sprintf(" %s%t;", m.NodeID, m.KeptOut)
	}
	return text
}

// TestSee: a status keeps the time when it was first seen, what a view lacks stays with the time of its end, and what comes back is there.
func TestSee(t *testing.T) {
	t.Parallel()
	r, _ := open(t)
	if at, err := r.Synced(t.Context()); at != nil || err != nil {
		t.Errorf("%v, %v before any view", at, err)
	}
	many := make([]maas.Seen, store.Piece+1)
	for i := range many {
		many[i] = maas.Seen{SystemID: fmt.Sprintf("m-%05d", i), Status: 4, Body: "{}"}
	}
	see(t, r, start, nil, many...)
	all, err := r.Machines(t.Context())
	if err != nil || len(all) != len(many) {
		t.Fatalf("%d machines, %v", len(all), err)
	}
	gone := make([]string, 0, len(many))
	for _, m := range many[2:] {
		gone = append(gone, m.SystemID)
	}
	later := start.Add(time.Minute)
	see(t, r, later, gone, maas.Seen{SystemID: "m-00000", Status: 6, Body: "{}"}, maas.Seen{SystemID: "m-00001", Status: 4, Body: `{"a":1}`})
	see(t, r, later.Add(time.Minute), gone)
	must(t, r.Forget(t.Context(), later))
	must(t, r.Link(t.Context(), "m-00002", "n-1"))
	must(t, r.Forget(t.Context(), later.Add(time.Second)))
	want := "m-00000 6 since 1m0s false;m-00001 4 since 0s false;m-00002 4 since 0s gone 1m0s n-1false;"
	if got := machines(t, r); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	see(t, r, later.Add(2*time.Minute), nil, maas.Seen{SystemID: "m-00002", Status: 4, Body: "{}"})
	if got := machines(t, r); got != "m-00000 6 since 1m0s false;m-00001 4 since 0s false;m-00002 4 since 0s n-1false;" {
		t.Errorf("after it came back: %s", got)
	}
	if at, err := r.Synced(t.Context()); err != nil || !at.Equal(later.Add(2*time.Minute)) {
		t.Errorf("%v, %v", at, err)
	}
}

// TestAcquired: the agent name stays until nobody has the machine.
func TestAcquired(t *testing.T) {
	t.Parallel()
	r, _ := open(t)
	see(t, r, start, nil, maas.Seen{SystemID: "a", Status: 10, Body: `{"Owner":"muster"}`})
	must(t, r.Acquired(t.Context(), "a", "muster-w1"))
	for _, c := range []struct{ body, want string }{{`{"Owner":"muster","a":1}`, "muster-w1"}, {`{"Owner":""}`, ""}} {
		see(t, r, start, nil, maas.Seen{SystemID: "a", Status: 6, Body: c.body})
		if m, err := r.Machine(t.Context(), "a"); err != nil || m.Acquired != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.body, m.Acquired, err, c.want)
		}
	}
}

// TestLink: one machine is one node.
func TestLink(t *testing.T) {
	t.Parallel()
	r, s := open(t)
	see(t, r, start, nil, maas.Seen{SystemID: "a", Status: 4, Body: "{}"}, maas.Seen{SystemID: "b", Status: 4, Body: "{}"})
	must(t, r.Link(t.Context(), "a", "n-1"))
	must(t, r.Link(t.Context(), "a", "n-1"))
	wantConflict(t, "another node", r.Link(t.Context(), "a", "n-2"))
	wantConflict(t, "no such machine", r.Link(t.Context(), "c", "n-2"))
	wantConflict(t, "no such node", r.Link(t.Context(), "b", "n-3"))
	if err := r.Link(t.Context(), "b", "n-1"); err == nil {
		t.Error("one node became two machines")
	}
	must(t, s.MoveNode(t.Context(), store.Move{NodeID: "n-2", From: store.StateReady, To: store.StateRetired, At: start}))
	wantConflict(t, "a retired node", r.Link(t.Context(), "b", "n-2"))
	nodes, err := r.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || nodes[0].ID != "n-1" || nodes[0].State != store.StateReady || nodes[0].Held ||
		nodes[0].LastSeen != nil {
		t.Errorf("%+v, %v", nodes, err)
	}
	wantConflict(t, "of another node", r.Unlink(t.Context(), "a", "n-2", true))
	must(t, r.Unlink(t.Context(), "a", "n-1", true))
	if got := machines(t, r); got != "a 4 since 0s true;b 4 since 0s false;" {
		t.Error(got)
	}
	must(t, r.Link(t.Context(), "a", "n-1"))
	if got := machines(t, r); got != "a 4 since 0s n-1false;b 4 since 0s false;" {
		t.Error(got)
	}
	if _, err := r.Node(t.Context(), "n-9"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// TestOrphan: a node that was made for a machine is found again, and one that an agent made is not.
func TestOrphan(t *testing.T) {
	t.Parallel()
	r, s := open(t)
	see(t, r, start, nil, maas.Seen{SystemID: "a", Status: 4, Body: "{}"})
	n := store.Node{ID: "n-3", Name: "n-3", Tenant: "t", State: "commissioned", Provider: "maas", InstanceID: "a", CreatedAt: start}
	must(t, s.CreateNode(t.Context(), n, nil))
	n.ID, n.Name, n.State = "n-4", "n-4", store.StateReady
	must(t, s.CreateNode(t.Context(), n, nil))
	orphan := func(want string) {
		t.Helper()
		if id, err := r.Orphan(t.Context(), "maas", "a"); err != nil || id != want {
			t.Errorf("got %q, %v, want %q", id, err, want)
		}
	}
	orphan("n-3")
	must(t, r.Link(t.Context(), "a", "n-3"))
	orphan("")
}

// TestWork: one work for a machine, which one writer at a time carries on.
func TestWork(t *testing.T) {
	t.Parallel()
	r, s := open(t)
	see(t, r, start, nil, maas.Seen{SystemID: "a", Status: 4, Body: "{}"}, maas.Seen{SystemID: "b", Status: 4, Body: "{}"})
	must(t, r.Link(t.Context(), "a", "n-1"))
	w := maas.Work{SystemID: "a", ID: "w1", Act: "deploy", Begun: start, Deadline: start.Add(time.Hour), By: "ann"}
	event := store.Event{At: start, Kind: "maas.deploy", Outcome: store.OutcomeOK}
	wantConflict(t, "another state", r.Begin(t.Context(), []maas.Start{{Work: w, NodeID: "n-1", State: "drained"}}, event))
	wantConflict(t, "another node", r.Begin(t.Context(), []maas.Start{{Work: w, NodeID: "n-2", State: "ready"}}, event))
	wantConflict(t, "no node", r.Begin(t.Context(), []maas.Start{{Work: w}}, event))
	hold(t, s, "n-1")
	wantConflict(t, "it is held", r.Begin(t.Context(), []maas.Start{{Work: w, NodeID: "n-1", State: "ready"}}, event))
	free := maas.Start{Work: maas.Work{SystemID: "b", ID: "w0", Act: "deploy"}}
	wantConflict(t, "one of two is held", r.Begin(t.Context(), []maas.Start{free, {Work: w, NodeID: "n-1", State: "ready"}}, event))
	w.Force = true
	must(t, r.Begin(t.Context(), []maas.Start{{Work: w, NodeID: "n-1", State: "ready"}}, event))
	other := w
	other.ID = "w2"
	if err := r.Begin(t.Context(), []maas.Start{{Work: other, NodeID: "n-1", State: "ready"}}, event); err == nil {
		t.Error("two works of one machine")
	}
	other.SystemID = "b"
	must(t, r.Begin(t.Context(), []maas.Start{{Work: other}}))
	works, err := r.Works(t.Context())
	if err != nil || len(works) != 2 || works[0].ID != "w1" || works[0].Version != 1 || !works[0].Begun.Equal(start) || works[0].By != "ann" {
		t.Fatalf("%+v, %v", works, err)
	}
	read := works[0]
	read.Step = "acquire"
	written, err := r.Step(t.Context(), read)
	if err != nil || written.Version != 2 {
		t.Fatalf("%+v, %v", written, err)
	}
	_, err = r.Step(t.Context(), read)
	wantConflict(t, "an old version", err)
	wantConflict(t, "an old version", r.End(t.Context(), read, maas.Ended{Act: "deploy", At: start}))
	must(t, r.End(t.Context(), written, maas.Ended{Act: "deploy", At: start, Why: "it hangs"}, event))
	wantConflict(t, "it has ended", r.End(t.Context(), written, maas.Ended{}))
	all, err := r.Machines(t.Context())
	must(t, err)
	if e := maas.ReadEnded(all[0].Ended); e.Act == "" || e.Why != "it hangs" || !e.At.Equal(start) {
		t.Errorf("%+v", e)
	}
	if e := maas.ReadEnded(all[1].Ended); e != (maas.Ended{}) {
		t.Error("b has ended nothing")
	}
	must(t, s.NoteRestore(t.Context(), store.Restoration{At: start, BackupAt: start, AdoptUntil: start}))
	if works, err := r.Works(t.Context()); err != nil || len(works) != 0 {
		t.Errorf("after a restore: %v, %v", works, err)
	}
	events, err := s.Events(t.Context(), store.EventQuery{Kind: "maas.deploy"})
	if err != nil || len(events) != 2 {
		t.Errorf("%d events, %v", len(events), err)
	}
}

func hold(t testing.TB, s *store.Store, nodeID string) {
	t.Helper()
	must(t, s.Records().Change(t.Context(), []engine.Statement{engine.Do(
		`INSERT INTO holds(allocation, node_id, unit, uuid, slot_id, tenant, state)
		VALUES ('al', ?, 'u', '', 's', 't', 'held')`, nodeID)}))
}
