package view_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/view"
	"muster/store"
)

// TestUnheard: a node that was not heard since the gateway's start counts as online within the grace, and the view says what that rests on.
func TestUnheard(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "a", Tenant: "x"}, nil)
	h.node(store.Node{Name: "never", Tenant: "x"}, nil)
	h.beat("a", h.reading(gpu(0, 1)))
	ref := store.StatusRef{Start: h.now.Add(10 * time.Second), AliveAt: h.now, Grace: true}
	h.picture.Ref = func() store.StatusRef {
		ref.Now = h.clock()
		return ref
	}
	h.now = h.now.Add(5 * time.Minute)
	h.reload()
	if g := h.row("a"); g.Status != wire.StatusOnline || !g.Unheard || g.StatusText() != "online?" || g.Fresh || h.row("never").Unheard {
		t.Errorf("just after the start: %+v", g)
	}
	if _, totals := h.picture.Rows(view.Query{}); fmt.Sprint(totals.StatusTexts()) != "map[online?:1 pending:1]" ||
		totals.Statuses["online"] != 1 ||
		totals.GPUsSeen != 0 || totals.GPUsUnknown != 2 {
		t.Errorf("just after the start: %+v", totals)
	}
	was := h.row("a")
	h.beat("a", h.reading(gpu(0, 1)))
	if g := h.row("a"); g.Unheard || g.StatusText() != "online" || !g.Fresh || !g.Reshaped(was) {
		t.Errorf("heard again: %+v", g)
	}
	if _, totals := h.picture.Rows(view.Query{}); totals.Unheard != 0 || totals.GPUsSeen != 1 ||
		totals.GPUsQuiet != 1 || totals.GPUsBusy != 0 {
		t.Errorf("heard again: %+v", totals)
	}
	h.now = h.now.Add(5 * time.Minute)
	ref.Grace = false
	h.reload()
	if g := h.row("a"); g.Status != wire.StatusStale || g.Unheard {
		t.Errorf("after the grace: %+v", g)
	}
}

// TestSignOfLifeAlone: where the database has a newer sign of life than the view, and an older reading, the view keeps its reading.
func TestSignOfLifeAlone(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "a", Tenant: "x"}, nil)
	h.beat("a", h.reading(gpu(0, 1)))
	h.reload()
	h.now = h.now.Add(time.Minute)
	sample := view.Sample{NodeID: "id-a", At: h.now, RunID: "r", Interval: 30 * time.Second}
	h.must(json.Unmarshal([]byte(h.reading(gpu(0, 77))), &sample.Hardware))
	alive := store.Beat{NodeID: "id-a", At: h.now, RunID: "r", Alive: true}
	h.must(h.store.SaveBeats(t.Context(), []store.Beat{alive}, h.now))
	h.picture.Take(t.Context(), []view.Sample{sample})
	h.now = h.now.Add(time.Second)
	alive.At = h.now
	h.must(h.store.SaveBeats(t.Context(), []store.Beat{alive}, h.now))
	h.reload()
	if g := h.row("a"); !g.LastSeen.Equal(h.now) || *g.GPUs[0].UtilizationPercent != 77 || !g.ReadAt.Equal(sample.At) {
		t.Errorf("seen %v, reading %+v of %v", g.LastSeen, g.GPUs[0], g.ReadAt)
	}
}

// TestPastReading: a view that begins shows no figures of the machine from an earlier heartbeat: they do not say how old they are.
func TestPastReading(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "a", Tenant: "x"}, nil)
	text := strings.Replace(h.reading(gpu(0, 1)), `"cpus"`, `"load1":3,"cpus"`, 1)
	beat := store.Beat{NodeID: "id-a", At: h.now, RunID: "r", Interval: 30 * time.Second, Hardware: text}
	h.must(h.store.SaveBeats(t.Context(), []store.Beat{beat}, h.now))
	for _, past := range []bool{false, true} {
		if past {
			alive := store.Beat{NodeID: "id-a", At: h.now.Add(time.Second), RunID: "r", Alive: true}
			h.must(h.store.SaveBeats(t.Context(), []store.Beat{alive}, h.now))
		}
		h.picture = view.Open(h.picture.Config)
		h.picture.Load(t.Context())
		if g := h.row("a"); (g.Load1 == nil) != past || len(g.GPUs) != 1 || *g.CPUs != 64 {
			t.Errorf("past %v: load %v, %d GPUs, %v CPUs", past, g.Load1, len(g.GPUs), g.CPUs)
		}
	}
}
