package store_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"muster/store"
)

func TestNodeLookup(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	must(t, s.CreateToken(ctx, token("mse_many", 100)))
	retire := func(id string) {
		must(t, s.MoveNode(ctx, store.Move{NodeID: id, From: "enrolled", To: "retired", At: after(time.Hour)}))
	}
	for i, id := range []string{"old", "older-twin", "live"} { // three nodes named n, one after the other
		e := enrolment("mse_many", id)
		e.Node.Name = "n"
		e.At = after(time.Duration(i) * time.Second)
		e.Provider = "vast_ai"
		e.InstanceID = "7"
		must(t, s.Enrol(ctx, e))
		if id != "live" {
			retire("id-" + id)
		}
	}
	gone := enrolment("mse_many", "gone")
	must(t, s.Enrol(ctx, gone))
	retire("id-gone")
	confusing := enrolment("mse_many", "confusing")
	confusing.Node.Name = "id-old" // a live name wins over an id
	must(t, s.Enrol(ctx, confusing))
	for _, c := range []struct {
		tenant, what, want string
	}{
		{"", "n", "id-live"},
		{"default", "n", "id-live"},
		{"other", "n", ""},
		{"", "id-live", "id-live"},
		{"", "id-older-twin", "id-older-twin"},
		{"", "gone", "id-gone"},
		{"", "id-gone", "id-gone"},
		{"", "id-old", "id-confusing"},
		{"", "nobody", ""},
		{"", "", ""},
	} {
		n, err := s.Node(ctx, c.tenant, c.what)
		if c.want == "" {
			wantError(t, err, store.ErrNotFound)
			continue
		}
		if err != nil || n.ID != c.want {
			t.Errorf("%q: got %q, %v; want %q", c.what, n.ID, err, c.want)
		}
	}
	retire("id-live")
	if n := node(t, s, "n"); n.ID != "id-live" {
		t.Errorf("of three retired nodes got %q, want the newest", n.ID)
	}
}

func ids(nodes []store.Node) []string {
	out := []string{}
	for _, n := range nodes {
		out = append(out, n.ID)
	}
	return out
}

func TestCreateNode(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	n := store.Node{ID: "id-n", Name: "n", Tenant: "t", GPUsExpected: 2, CreatedAt: day()}
	must(t, s.CreateNode(ctx, n, map[string]string{"zone": "a"}, store.Event{At: day(), Kind: "node.created"}))
	want := n
	want.State = store.StateReady
	want.StateSince = day()
	want.Reasons = []store.Reason{}
	want.Labels = map[string]string{"zone": "a"}
	want.Notices = []string{}
	if got := node(t, s, "n"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	n.ID = "id-m"
	wantError(t, s.CreateNode(ctx, n, nil, store.Event{At: day(), Kind: "node.created"}), store.ErrConflict)
	if got := countEvents(t, s, store.EventQuery{}); got != 1 {
		t.Errorf("got %d events, want 1", got)
	}
}

func TestLabels(t *testing.T) {
	s := enrolled(t)
	ctx := t.Context()
	e := enrolment("mse_many", "n")
	e.CredentialLabels = map[string]string{"a": "credential", "b": "credential"}
	e.AgentLabels = map[string]string{"a": "agent", "c": "agent", "empty": ""}
	must(t, s.Enrol(ctx, e))
	for _, c := range []struct {
		set    map[string]string
		remove []string
		want   map[string]string
	}{
		{nil, nil, map[string]string{"a": "credential", "b": "credential", "c": "agent", "empty": ""}},
		{map[string]string{"c": "operator", "d": "x'48'"}, nil, map[string]string{"a": "credential", "b": "credential", "c": "operator",
			"d": "x'48'", "empty": ""}},
		{nil, []string{"a", "d", "none"}, map[string]string{"b": "credential", "c": "operator", "empty": ""}},
		{map[string]string{"a": "back"}, []string{"empty"}, map[string]string{"a": "back", "b": "credential", "c": "operator"}},
		{map[string]string{"a": "both"}, []string{"a"}, map[string]string{"b": "credential", "c": "operator"}},
	} {
		must(t, s.SetLabels(ctx, "id-n", c.set, c.remove))
		if got := node(t, s, "n").Labels; !maps.Equal(got, c.want) {
			t.Errorf("set %v, remove %v: got %v, want %v", c.set, c.remove, got, c.want)
		}
	}
	wantError(t, s.SetLabels(ctx, "id-none", map[string]string{"a": "1"}, nil), store.ErrConflict)
}

func TestBeats(t *testing.T) {
	s := enrolled(t, "n", "m")
	ctx := t.Context()
	_, err := s.Meta(ctx, store.MetaAliveAt)
	wantError(t, err, store.ErrNotFound)
	full := store.Beat{NodeID: "id-n", At: after(time.Hour), RunID: "r1", Counter: 1<<64 - 1, Interval: 1500 * time.Millisecond,
		SkewMillis: -250, Address: "192.0.2.9",
		Agent: `{"version":"2"}`, Cost: `{"rss_kib":6400}`, Notices: []string{"no GPU"}, Hardware: `{"n":1}`}
	later := full
	older := full
	later.At = after(2 * time.Hour)
	later.Hardware = ""
	later.Notices = nil
	later.RunID = "r2"
	later.Counter = 1
	older.At = after(30 * time.Minute)
	older.RunID = "old"
	older.Hardware = `{"n":0}`
	for _, c := range []struct {
		beat     store.Beat
		seen     time.Time
		run      string
		hardware string
		notices  []string
	}{
		{full, after(time.Hour), "r1", `{"n":1}`, []string{"no GPU"}},
		{older, after(time.Hour), "r1", `{"n":1}`, []string{"no GPU"}}, // never back
		{later, after(2 * time.Hour), "r2", `{"n":1}`, []string{}},     // keeps the last hardware
	} {
		must(t, s.SaveBeats(ctx, []store.Beat{{NodeID: "id-none", At: day()}, c.beat}, c.beat.At))
		got := node(t, s, "n")
		if got.LastSeen == nil || !got.LastSeen.Equal(c.seen) || got.RunID != c.run || got.Hardware != c.hardware ||
			!reflect.DeepEqual(got.Notices, c.notices) {
			t.Errorf("beat at %v: got %+v", c.beat.At, got)
		}
		if got.Interval != full.Interval || got.SkewMillis == nil || *got.SkewMillis != -250 || got.Address != full.Address ||
			got.Agent != full.Agent || got.Cost != full.Cost {
			t.Errorf("beat at %v: got %+v", c.beat.At, got)
		}
		if want := map[string]uint64{"r1": 1<<64 - 1, "r2": 1}[c.run]; got.Counter != want {
			t.Errorf("got counter %d, want %d", got.Counter, want)
		}
		alive, err := s.Meta(ctx, store.MetaAliveAt)
		if want := fmt.Sprint(c.beat.At.UnixMilli()); err != nil || alive != want {
			t.Errorf("alive_at is %q, %v; want %q", alive, err, want)
		}
	}
	if got := node(t, s, "m"); got.LastSeen != nil || got.SkewMillis != nil {
		t.Errorf("a node without a beat has %v, %v", got.LastSeen, got.SkewMillis)
	}
	must(t, s.SaveBeats(ctx, nil, after(3*time.Hour))) // alone, it is the gateway's own sign of life
}

func TestNodesByID(t *testing.T) {
	s := enrolled(t, "a", "b", "c")
	for want, named := range map[string][]string{"[id-a id-c]": {"id-a", "id-none", "id-c", "id-a", "b"}, "[]": nil} {
		nodes, err := s.NodesByID(t.Context(), named)
		got := ids(nodes)
		slices.Sort(got)
		if fmt.Sprint(got) != want || err != nil {
			t.Errorf("%q: got %s, %v; want %s", named, got, err, want)
		}
	}
}

func TestRenameNode(t *testing.T) {
	s := enrolled(t, "a", "b", "gone", "banned")
	ctx := t.Context()
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-gone", From: "enrolled", To: "retired", At: day()}))
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-banned", From: "enrolled", To: "retired", At: day(), Ban: true}))
	for _, c := range []struct {
		id, from, to string
		want         error
	}{
		{"id-a", "a", "b", store.ErrConflict},      // taken
		{"id-a", "a", "banned", store.ErrConflict}, // banned
		{"id-a", "x", "c", store.ErrConflict},      // it has another name
		{"id-gone", "gone", "c", store.ErrConflict},
		{"id-none", "", "c", store.ErrConflict},
		{"id-a", "a", "gone", nil}, // a retired node's name is free
		{"id-b", "b", "a", nil},
		{"id-b", "a", "a", nil},
	} {
		wantError(t, s.RenameNode(ctx, c.id, c.from, c.to, store.Event{At: day(), Kind: "renamed", NodeID: c.id}), c.want)
	}
	if n := node(t, s, "gone"); n.ID != "id-a" {
		t.Errorf("gone is %s, want the renamed node", n.ID)
	}
	if n := node(t, s, "a"); n.ID != "id-b" {
		t.Errorf("a is %s, want the renamed node", n.ID)
	}
	if got := countEvents(t, s, store.EventQuery{Kind: "renamed"}); got != 3 {
		t.Errorf("got %d events, want one for each rename and none for a refused one", got)
	}
}

// TestAlive: a sign of life changes the time, the run with its counter, and the skew alone, and tells that the rest is older.
func TestAlive(t *testing.T) {
	s := enrolled(t, "n", "m", "late")
	ctx := t.Context()
	full := store.Beat{NodeID: "id-n", At: after(time.Hour), RunID: "r1", Counter: 7, Interval: time.Minute, SkewMillis: -250,
		Address: "192.0.2.9", Agent: `{"version":"2"}`, Cost: `{"rss_kib":6400}`, Notices: []string{"no GPU"}, Hardware: `{"n":1}`}
	late := full
	late.NodeID = "id-late"
	must(t, s.SaveBeats(ctx, []store.Beat{full, late}, day()))
	want := node(t, s, "n")
	alive := func(id string, at time.Time) store.Beat {
		return store.Beat{NodeID: id, At: at, RunID: "r2", Counter: 1<<64 - 1, SkewMillis: 12, Alive: true, Address: "not written"}
	}
	must(t, s.SaveBeats(ctx, []store.Beat{alive("id-n", after(2*time.Hour)), alive("id-none", after(2*time.Hour)),
		alive("id-m", after(2*time.Hour)), alive("id-late", after(30*time.Minute))}, day()))
	skew := int64(12)
	seen := after(2 * time.Hour)
	want.LastSeen, want.ReportedAt, want.RunID, want.Counter, want.SkewMillis = &seen, want.LastSeen, "r2", 1<<64-1, &skew
	if got := node(t, s, "n"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := node(t, s, "m"); got.LastSeen == nil || !got.LastSeen.Equal(seen) || got.RunID != "r2" || got.ReportedAt != nil {
		t.Errorf("a node that was never heard before: %+v", got)
	}
	if got := node(t, s, "late"); !got.LastSeen.Equal(full.At) || got.RunID != "r1" || got.Counter != 7 || got.ReportedAt != nil {
		t.Errorf("an older sign of life: %+v", got)
	}
	full.At = after(3 * time.Hour)
	must(t, s.SaveBeats(ctx, []store.Beat{full}, day()))
	if got := node(t, s, "n"); got.ReportedAt != nil || got.RunID != "r1" {
		t.Errorf("a whole heartbeat after it: %+v", got)
	}
}
