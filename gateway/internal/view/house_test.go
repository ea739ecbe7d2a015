package view_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/view"
	"muster/store"
)

// house is a store with a picture of it.
type house struct {
	t       testing.TB
	now     time.Time
	store   *store.Store
	picture *view.Fleet
	setting sync.Mutex // held while now changes beside the view's goroutines
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t, now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	h.store = kit.Store(t, h.clock)
	h.picture = view.Open(view.Config{Store: h.store, Ref: h.ref})
	return h
}

// clock is the time for the view's own goroutines.
func (h *house) clock() time.Time {
	h.setting.Lock()
	defer h.setting.Unlock()
	return h.now
}

// later lets time pass beside the view's goroutines.
func (h *house) later(d time.Duration) {
	h.setting.Lock()
	defer h.setting.Unlock()
	h.now = h.now.Add(d)
}

func (h *house) ref() store.StatusRef { return store.StatusRef{Now: h.clock()} }

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// node makes an active node.
func (h *house) node(n store.Node, labels map[string]string) {
	h.t.Helper()
	n.ID = "id-" + n.Name
	n.CreatedAt = h.now
	h.must(h.store.CreateNode(h.t.Context(), n, labels))
	h.move(n.Name, "ready", "active")
}

func (h *house) move(name, from, to string) {
	h.t.Helper()
	h.must(h.store.MoveNode(h.t.Context(), store.Move{NodeID: "id-" + name, From: from, To: to, At: h.now}))
}

// reading is a reading of this moment.
func (h *house) reading(gpus string) string {
	return fmt.Sprintf(`{"probe":{"state":"ok","since":null,"took_ms":80,"sampled_at":%q},"cpus":64,"memory_total_mib":515000,"gpus":[%s]}`,
		h.now.Format(time.RFC3339), gpus)
}

func gpu(index, utilization int) string {
	return fmt.Sprintf(`{"index":%d,"uuid":"GPU-%d","name":"NVIDIA H100 80GB HBM3","memory_total_mib":81559,"memory_used_mib":500,
		"utilization_percent":%d,"power_watts":70,"power_limit_watts":700,"memory_source":"device"}`, index, index, utilization)
}

// beat has a node report, as the gateway hears and feeds it.
func (h *house) beat(name, hardware string) {
	h.t.Helper()
	beat := store.Beat{NodeID: "id-" + name, At: h.now, RunID: "r", Interval: 30 * time.Second, Agent: `{"version":"1.2.3"}`,
		Hardware: hardware}
	h.must(h.store.SaveBeats(h.t.Context(), []store.Beat{beat}, h.now))
	sample := view.Sample{NodeID: beat.NodeID, At: beat.At, RunID: beat.RunID, Interval: beat.Interval,
		Agent: &wire.AgentInfo{Version: "1.2.3"}}
	if hardware != "" {
		h.must(json.Unmarshal([]byte(hardware), &sample.Hardware))
	}
	h.picture.Take(h.t.Context(), []view.Sample{sample})
}

func (h *house) row(name string) *api.NodeRow {
	h.t.Helper()
	g, ok := h.picture.Row("id-" + name)
	if !ok {
		h.t.Fatalf("the view has no %s", name)
	}
	return g
}

func names(rows []*api.NodeRow) string {
	var out []string
	for _, g := range rows {
		out = append(out, g.Name)
	}
	return fmt.Sprint(out)
}
