package health_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"muster/store"
	"muster/store/health"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, nodes ...string) (health.Records, *store.Store) {
	t.Helper()
	s := storetest.Open(t, func() time.Time { return start })
	for _, id := range nodes {
		must(t, s.CreateNode(t.Context(), store.Node{ID: id, Name: id, Tenant: "platform", CreatedAt: start}, nil))
	}
	return health.New(s.Records()), s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func finding(node, rule, gpu string) health.Finding {
	return health.Finding{Place: health.Place{NodeID: node, Rule: rule, GPU: gpu}, Since: start, Text: rule + " on " + node}
}

// TestFindings: what is found stays until it is cured, with its events, and only for nodes that live.
func TestFindings(t *testing.T) {
	r, s := open(t, "n-1", "n-2")
	hot, full := finding("n-1", "gpu_hot", "GPU-1"), finding("n-2", "disk_full", "")
	event := store.Event{At: start, Kind: "health.found", NodeID: "n-1", Outcome: store.OutcomeOK}
	must(t, r.Write(t.Context(), []health.Change{{Finding: hot}, {Finding: full}, {Finding: finding("n-none", "gpu_hot", "")}}, event))
	got, err := r.Findings(t.Context())
	if err != nil || len(got) != 2 || got[0] != hot || got[1] != full {
		t.Fatalf("%+v, error %v", got, err)
	}
	if events, err := s.Events(t.Context(), store.EventQuery{Kind: "health.found"}); err != nil || len(events) != 1 {
		t.Errorf("events %v, error %v", events, err)
	}
	hot.Text = "hotter"
	must(t, r.Write(t.Context(), []health.Change{{Finding: full, Cured: true}, {Finding: hot}}))
	if got, err = r.Findings(t.Context()); err != nil || len(got) != 1 || got[0].Text != "hotter" {
		t.Errorf("%+v, error %v", got, err)
	}
	must(t, s.MoveNode(t.Context(), store.Move{NodeID: "n-1", From: store.StateReady, To: store.StateRetired, At: start}))
	must(t, r.Forget(t.Context()))
	must(t, r.Write(t.Context(), []health.Change{{Finding: hot}}))
	if got, err = r.Findings(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("of a retired node: %+v, error %v", got, err)
	}
}

// TestSettings: one for each rule and selector, and not without bound.
func TestSettings(t *testing.T) {
	r, _ := open(t)
	limit := 92.5
	set := health.Setting{Rule: "gpu_hot", Selector: "tier=lab", Limit: &limit, SetAt: start, SetBy: "account:ops"}
	must(t, r.Set(t.Context(), health.Setting{Rule: "gpu_hot", Selector: "tier=lab", Off: true, SetAt: start, SetBy: "account:ops"}))
	must(t, r.Set(t.Context(), set))
	got, err := r.Settings(t.Context())
	if err != nil || len(got) != 1 || got[0].Off || got[0].Limit == nil || *got[0].Limit != limit || got[0].SetBy != set.SetBy {
		t.Fatalf("%+v, error %v", got, err)
	}
	for i := range health.MostSettings - 1 {
		must(t, r.Set(t.Context(), health.Setting{Rule: "gpu_hot", Selector: fmt.Sprintf("n=%d", i), SetAt: start}))
	}
	if err := r.Set(t.Context(), health.Setting{Rule: "gpu_hot", SetAt: start}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("one too many: %v", err)
	}
	must(t, r.Set(t.Context(), set))
	must(t, r.Unset(t.Context(), "gpu_hot", "tier=lab"))
	if err := r.Unset(t.Context(), "gpu_hot", "tier=lab"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second time: %v", err)
	}
}

// TestNotices: those of the last heartbeat.
func TestNotices(t *testing.T) {
	r, s := open(t, "n-1")
	must(t, s.SaveBeats(t.Context(), []store.Beat{{NodeID: "n-1", At: start, Notices: []string{"disk is full"}}}, start))
	if got, err := r.Notices(t.Context(), "n-1"); err != nil || len(got) != 1 || got[0] != "disk is full" {
		t.Errorf("%v, error %v", got, err)
	}
	if _, err := r.Notices(t.Context(), "n-none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of no node: %v", err)
	}
}

// TestDamage: a limit that is no number is said, and not taken for none.
func TestDamage(t *testing.T) {
	r, s := open(t)
	_, err := s.Records().Batch(t.Context(), health.DamagedSetting())
	must(t, err)
	if _, err := r.Settings(t.Context()); err == nil {
		t.Error("read without an error")
	}
}
