package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
)

func (f *world) statuses(names ...string) string {
	f.t.Helper()
	var out []string
	for _, name := range names {
		out = append(out, f.seen(name).Status)
	}
	return strings.Join(out, " ")
}

func TestStatus(t *testing.T) {
	f := newFleet(t)
	f.enrolled("never")
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{0, "online"}, {3 * pace, "online"}, {3*pace + time.Millisecond, "stale"}, {time.Hour, "stale"}} {
		f.clock.Forward(start.Add(c.after).Sub(f.clock.Now()))
		if got := f.statuses("box", "never"); got != c.want+" pending" {
			t.Errorf("%v after the heartbeat: got %s, want %s pending", c.after, got, c.want)
		}
	}
	f.beat(ad, 2, func(b *wire.HeartbeatRequest) { b.IntervalSeconds = 300 })
	f.clock.Forward(15 * time.Minute)
	if got := f.statuses("box"); got != "online" {
		t.Errorf("a slower pace: got %s, want online", got)
	}
}

// TestRestart: a restarted gateway shows its nodes as they were.
func TestRestart(t *testing.T) {
	f := newFleet(t)
	f.enrolled("never")
	stale := f.enrolled("stale")
	f.beat(stale, 1, nil)
	f.clock.Forward(5 * time.Minute)
	quiet := f.enrolled("quiet")
	alive := f.enrolled("alive")
	f.beat(quiet, 1, nil)
	f.beat(alive, 1, nil)
	f.flush()

	f.clock.Forward(7 * 24 * time.Hour) // the gateway was away for a week
	f.restart()
	want := func(when, wanted string) {
		t.Helper()
		if got := f.statuses("never", "stale", "quiet", "alive"); got != wanted {
			t.Errorf("%s: got %s, want %s", when, got, wanted)
		}
	}
	want("at the start", "pending stale online online")
	f.beat(alive, 1, func(b *wire.HeartbeatRequest) { b.RunID = "run00002" })
	f.clock.Forward(3*pace + time.Millisecond)
	want("a node that was heard since and fell silent", "pending stale online stale")
	f.clock.Forward(6*time.Minute - 3*pace - 2*time.Millisecond)
	want("just before the grace ends", "pending stale online stale")
	f.clock.Forward(time.Millisecond)
	want("when the grace ends", "pending stale stale stale")
}

// TestRestartTwice: a second restart within the grace of the first makes no node stale either.
func TestRestartTwice(t *testing.T) {
	f := newFleet(t)
	f.beat(f.enrolled("quiet"), 1, nil)
	f.flush()
	f.clock.Forward(time.Hour)
	f.restart()
	f.clock.Forward(time.Minute)
	f.flush()
	f.restart()
	if got := f.statuses("quiet"); got != "online" {
		t.Errorf("got %s, want online", got)
	}
	f.clock.Forward(6 * time.Minute)
	if got := f.statuses("quiet"); got != "stale" {
		t.Errorf("after the grace: got %s, want stale", got)
	}
	f.flush() // from here on the gateway's own time counts again
	f.restart()
	if got := f.statuses("quiet"); got != "stale" {
		t.Errorf("after another restart: got %s, want stale", got)
	}
}

func TestFirstStart(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	f.clock.Forward(3*pace + time.Millisecond)
	if got := f.statuses("box"); got != "stale" {
		t.Errorf("within six minutes of the very first start: got %s, want stale", got)
	}
}

func TestNodes(t *testing.T) {
	f := newFleet(t)
	for _, name := range []string{"c", "a", "b"} {
		f.enrolled(name)
	}
	f.apply("c", fleet.Retire)
	for _, c := range []struct {
		q    store.NodeQuery
		want []string
	}{
		{store.NodeQuery{}, []string{"a", "b"}},
		{store.NodeQuery{Retired: true}, []string{"a", "b", "c"}},
		{store.NodeQuery{Tenant: "platform"}, []string{"a", "b"}},
		{store.NodeQuery{Tenant: "rival"}, nil},
	} {
		page, err := f.Nodes(t.Context(), c.q)
		var got []string
		for _, n := range page.Nodes {
			got = append(got, n.Name)
		}
		if err != nil || !slices.Equal(got, c.want) || page.Total != len(c.want) || page.Next != "" {
			t.Errorf("%+v: got %v of %d, %v, want %v", c.q, got, page.Total, err, c.want)
		}
	}
}

func TestNodesPages(t *testing.T) {
	f := newFleet(t)
	f.enrolled("a")
	f.enrolled("b")
	first, err := f.Nodes(t.Context(), store.NodeQuery{Limit: 1})
	if err != nil || len(first.Nodes) != 1 || first.Total != 2 || first.Next == "" {
		t.Fatalf("got %+v, %v", first, err)
	}
	second, err := f.Nodes(t.Context(), store.NodeQuery{Limit: 1, Cursor: first.Next})
	if err != nil || len(second.Nodes) != 1 || second.Nodes[0].Name != "b" || second.Next != "" {
		t.Errorf("got %+v, %v", second, err)
	}
}

func TestNodesRefuses(t *testing.T) {
	f := newFleet(t)
	for _, c := range []struct {
		q    store.NodeQuery
		want string
	}{
		{store.NodeQuery{Cursor: "!"}, wire.CodeBadRequest},
	} {
		if _, err := f.Nodes(t.Context(), c.q); code(err) != c.want || hint(err) == "" {
			t.Errorf("%+v: got %v, want %s with a hint", c.q, err, c.want)
		}
	}
	if _, err := f.Node(t.Context(), "", "nobody"); code(err) != wire.CodeNotFound {
		t.Errorf("got %v, want not_found", err)
	}
	f.enrolled("box")
	if _, err := f.Node(t.Context(), "rival", "box"); code(err) != wire.CodeNotFound {
		t.Errorf("another tenant's: got %v, want not_found", err)
	}
	if _, err := f.Apply(t.Context(), "rival", "box", fleet.Retire, operator); code(err) != wire.CodeNotFound {
		t.Errorf("another tenant's: got %v, want not_found", err)
	}
	if _, err := f.SetLabels(t.Context(), "rival", "box", map[string]string{"a": "b"}, nil, operator); code(err) != wire.CodeNotFound {
		t.Errorf("another tenant's: got %v, want not_found", err)
	}
}

func TestApply(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	if _, err := f.Apply(t.Context(), "", "box", fleet.Drain, operator); code(err) != wire.CodeIllegalMove {
		t.Errorf("draining a node that was never heard: got %v, want illegal_move", err)
	}
	f.beat(ad, 1, nil)
	for _, c := range []struct {
		verb fleet.Verb
		kind string
		want string
	}{
		{fleet.Drain, "node.drained", "drained"},
		{fleet.Resume, "node.resumed", "active"},
		{fleet.Suspend, "node.suspended", "unavailable"},
		{fleet.Resume, "node.resumed", "active"},
		{fleet.Retire, "node.retired", "retired"},
		{fleet.Ban, "node.banned", "retired"},
	} {
		before := len(f.events(c.kind))
		for range 2 { // the second one leads nowhere and is no second event
			if n := f.apply(ad.Node.ID, c.verb); n.State != c.want || c.verb == fleet.Ban && !n.Banned {
				t.Errorf("%s: got %s, want %s", c.verb, n.State, c.want)
			}
		}
		events := f.events(c.kind)
		if len(events) != before+1 || events[0].Actor != operator.Name || events[0].Address != operator.Address ||
			events[0].NodeName != "box" ||
			events[0].Tenant != "platform" || events[0].Detail["to"] != c.want {
			t.Errorf("%s: got events %+v, want one more that says who and where to", c.verb, events)
		}
	}
}

func TestSetLabels(t *testing.T) {
	f := newFleet(t)
	f.enrolled("box")
	n, err := f.SetLabels(t.Context(), "", "box", map[string]string{"tier": "sovereign"}, []string{"spot"}, operator)
	if err != nil || n.Labels["tier"] != "sovereign" {
		t.Errorf("got %v, %v", n.Labels, err)
	}
	if e := f.events("node.labelled"); len(e) != 1 || e[0].Detail["set.tier"] != "sovereign" || e[0].Detail["removed"] != "spot" ||
		e[0].Actor != operator.Name {
		t.Errorf("got events %+v", e)
	}
	for _, c := range []struct {
		set    map[string]string
		remove []string
		want   string
	}{
		{map[string]string{"status": "online"}, nil, wire.CodeReservedKey},
		{map[string]string{"a": "b,c"}, nil, wire.CodeBadLabel},
		{map[string]string{"price_per_hour": "-1"}, nil, wire.CodeBadLabel},
		{nil, []string{"no label"}, wire.CodeBadLabel},
		{nil, []string{"tenant"}, wire.CodeReservedKey},
	} {
		if _, err := f.SetLabels(t.Context(), "", "box", c.set, c.remove, operator); code(err) != c.want {
			t.Errorf("%v %v: got %v, want %s", c.set, c.remove, err, c.want)
		}
	}
}

func TestOpenWithoutADatabase(t *testing.T) {
	f := newFleet(t)
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.Open(t.Context(), fleet.Config{Store: f.store}); err == nil {
		t.Error("got no error from a closed store")
	}
}
