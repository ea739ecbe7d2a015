package adminapi_test

import (
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/store/costs"
)

// TestCosts: the sums of the nodes and the days that are asked for, of the caller's tenant alone, with the prices of the days.
func TestCosts(t *testing.T) {
	h := newHouse(t)
	h.node("a", "platform", oneGPU)
	h.node("b", "research", oneGPU)
	h.node("none", "research", oneGPU)
	records := costs.New(h.store.Records())
	today := costs.DayOf(h.now)
	price := int64(1_500_000)
	for day := today - 2; day <= today; day++ {
		rows := []costs.Row{{NodeID: "id-a", Watched: 60}, {NodeID: "id-b", Watched: 3600, Idle: 7200, IdleCost: 500_000, Cost: 750_000}}
		if day == today {
			rows[1].Price = &price
		}
		if err := records.Save(t.Context(), day, rows); err != nil {
			t.Fatal(err)
		}
	}
	h.api.Overview.Load(t.Context())
	reader := h.account("r", "research", "nodes:read")
	status, body := h.ask("GET", "fleet/costs", reader, "")
	list := decode[api.CostList](t, body)
	if status != 200 || len(list.Costs) != 1 {
		t.Fatalf("got %d %s", status, body)
	}
	b := list.Costs[0]
	if b.NodeID != "id-b" || b.Name != "b" || b.Tenant != "research" || b.Days != 3 ||
		b.WatchedSeconds != 3*3600 || b.IdleGPUSeconds != 3*7200 ||
		*b.IdleCost != 1.5 || *b.Cost != 2.25 || len(b.Prices) != 2 || b.Prices[0].PricePerHour != nil || *b.Prices[1].PricePerHour != 1.5 ||
		!b.Prices[1].Since.Equal(today.Time()) {
		t.Errorf("got %+v", b)
	}
	c := h.dial()
	got, err := client.Get[api.CostList](t.Context(), c, api.PathCosts, api.CostFilter{Selector: "name=b", Tenant: "research",
		Since: h.now, Until: h.now})
	if err != nil || len(got.Costs) != 1 || got.Costs[0].Days != 1 {
		t.Errorf("of one day: %+v, %v", got, err)
	}
	if got, err = client.Get[api.CostList](t.Context(), c, api.PathCosts,
		api.CostFilter{Until: h.now.Add(-10 * 24 * time.Hour)}); err != nil || len(got.Costs) != 0 {
		t.Errorf("before the records: %+v, %v", got, err)
	}
	for query, want := range map[string]int{"?since=yesterday": 400, "?until=x": 400, "?selector=%3D": 400, "?tenant=platform": 403,
		"?colour=red": 400} {
		if status, body := h.ask("GET", "fleet/costs"+query, reader, ""); status != want {
			t.Errorf("%s: got %d %s", query, status, body)
		}
	}
}
