package releases_test

import (
	"testing"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/releases"
)

// TestPrune: what is old and of no use goes, at most so many rows at once, and what a channel, a pin or a node needs stays.
func TestPrune(t *testing.T) {
	r, s := open(t)
	ctx := t.Context()
	must(t, s.AddPSK(ctx, store.PSK{ID: "psk-1", Key: []byte("k"), CreatedAt: start}))
	for _, name := range []string{"here", "left", "parted"} {
		must(t, s.Enrol(ctx, store.Enrolment{ID: "e-" + name, Credential: "psk-1", KeyHash: "k-" + name, At: start, NewNode: true,
			Node: store.Node{ID: name, Name: name, Tenant: "default", State: "enrolled"}, Certificate: store.Certificate{Fingerprint: name}}))
	}
	must(t, s.MoveNode(ctx, store.Move{NodeID: "left", From: "enrolled", To: store.StateRetired, At: start}))
	must(t, s.MoveNode(ctx, store.Move{NodeID: "parted", From: "enrolled", To: store.StateRetired, At: start.Add(time.Hour)}))
	for _, node := range []string{"here", "left", "parted", "unknown"} {
		must(t, r.Note(ctx, releases.Update{NodeID: node, Phase: "trial", At: start}, nil))
	}
	must(t, r.AddRelease(ctx, release("a")))
	for seq := range int64(4) {
		must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", seq+1), Last: seq, Rollout: rollout("stable", "a", seq+1)}))
		must(t, r.Note(ctx, releases.Update{NodeID: "here", Phase: "trial", At: start},
			&releases.Node{Rollout: seq + 1, NodeID: "here", State: "begun", AdmittedAt: start, ChangedAt: start}))
	}
	pinned := pointer("stable", "a", 5)
	must(t, r.Pin(ctx, []releases.Pin{{NodeID: "here", Digest: "a", Channel: "stable", Sequence: 5, At: start, By: "me"}}, &pinned, 4))
	young := pointer("stable", "a", 6)
	young.SignedAt = start.Add(time.Hour)
	must(t, r.Point(ctx, releases.Step{Pointer: young, Last: 5}))
	left := func(query string) int {
		rows, err := s.Records().Query(ctx, engine.Do(query))
		must(t, err)
		return len(rows)
	}
	counts := func() [3]int {
		return [3]int{left("SELECT 1 FROM node_updates"), left("SELECT 1 FROM pointers"), left("SELECT 1 FROM rollout_nodes")}
	}
	for _, step := range []struct {
		before time.Time
		limit  int
		want   [3]int
	}{
		{start, 10, [3]int{3, 6, 4}}, // only who is gone altogether
		{start.Add(time.Minute), 1, [3]int{2, 5, 3}},
		{start.Add(time.Minute), 10, [3]int{2, 2, 1}},
		{start.Add(2 * time.Hour), 10, [3]int{1, 2, 1}},
	} {
		must(t, r.Prune(ctx, step.before, step.limit))
		if got := counts(); got != step.want {
			t.Errorf("before %s, %d at once: %v are left, want %v", step.before.Format(time.TimeOnly), step.limit, got, step.want)
		}
	}
	if live, err := r.Pointers(ctx); err != nil || len(live) != 2 || live[0].Sequence != 5 || live[1].Sequence != 6 {
		t.Errorf("got %+v, %v", live, err)
	}
	if _, err := r.Update(ctx, "here"); err != nil {
		t.Error(err)
	}
}

// TestRetired: a pin goes with its node, at once, and so it holds no release. What earlier versions left goes too, and so do the rows of
// nodes that are gone in the newest rollout.
func TestRetired(t *testing.T) {
	r, s := open(t)
	ctx := t.Context()
	must(t, s.AddPSK(ctx, store.PSK{ID: "psk-1", Key: []byte("k"), CreatedAt: start}))
	must(t, r.AddRelease(ctx, release("a")))
	must(t, r.AddRelease(ctx, release("b")))
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 1), Rollout: rollout("stable", "a", 1)}))
	var pins []releases.Pin
	for _, name := range []string{"here", "left", "banned", "parted"} {
		must(t, s.Enrol(ctx, store.Enrolment{ID: "e-" + name, Credential: "psk-1", KeyHash: "k-" + name, At: start, NewNode: true,
			Node: store.Node{ID: name, Name: name, Tenant: "default", State: "enrolled"}, Certificate: store.Certificate{Fingerprint: name}}))
		must(t, r.Note(ctx, releases.Update{NodeID: name, Phase: "trial", At: start},
			&releases.Node{Rollout: 1, NodeID: name, State: "committed", AdmittedAt: start, ChangedAt: start}))
		if name != "here" {
			pins = append(pins, releases.Pin{NodeID: name, Digest: "b", Channel: "stable", Sequence: 2, At: start, By: "me"})
		}
	}
	p := pointer("stable", "b", 2)
	must(t, r.Pin(ctx, pins, &p, 1))
	retire := store.Move{NodeID: "left", From: "enrolled", To: store.StateRetired, At: start}
	must(t, s.MoveNode(ctx, retire))
	retire.NodeID = "banned"
	retire.Ban = true
	must(t, s.MoveNode(ctx, retire))
	wantError(t, r.DropRelease(ctx, "b"), store.ErrConflict) // parted has a pin still
	retire = store.Move{NodeID: "parted", From: "enrolled", To: store.StateRetired, At: start.Add(time.Hour)}
	must(t, s.MoveNode(ctx, retire))
	must(t, r.DropRelease(ctx, "b"))
	must(t, r.Pin(ctx, pins[:1], nil, 0)) // as an earlier version left it
	bring(t, r, releases.Done)
	rows := func() int {
		nodes, err := r.RolloutNodes(ctx, 1)
		must(t, err)
		return len(nodes)
	}
	must(t, r.Prune(ctx, start.Add(time.Minute), 10))
	if left, err := r.Pins(ctx); err != nil || len(left) != 0 || rows() != 2 {
		t.Errorf("%v, %v, and %d rows are left", left, err, rows())
	}
	must(t, r.Prune(ctx, start.Add(2*time.Hour), 10))
	if rows() != 1 {
		t.Errorf("%d rows are left", rows())
	}
}
