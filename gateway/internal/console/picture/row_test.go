package picture_test

import (
	"fmt"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
)

func some[T any](v T) *T { return &v }

// TestGauge: what is not known and what is missing are no empty bars, and a little is not nothing.
func TestGauge(t *testing.T) {
	g := picture.GaugeOf([]*float64{some(100.0), some(0.0), nil, some(0.1)}, 1, "Use")
	if strings.Count(g.Track, "z") != 3 || strings.Count(g.Fill, "z") != 2 || strings.Count(g.Unknown, "z") != 1 ||
		strings.Count(g.Missing, "l") != 2 || g.Says != "Use: 100 %, 0 %, –, 0 %, 1 missing" {
		t.Errorf("got %+v", g)
	}
	if g := picture.GaugeOf(nil, 0, "Use"); g.Text != "–" || g.Says != "" {
		t.Errorf("without a GPU: %+v", g)
	}
	if g := picture.GaugeOf(make([]*float64, 500), 0, "Use"); strings.Count(g.Unknown, "z") != 32 {
		t.Errorf("500 GPUs draw %d bars", strings.Count(g.Unknown, "z"))
	}
}

// TestRow: the words of a row, of nodes that differ.
func TestRow(t *testing.T) {
	gpus := func(names ...string) []api.GPU {
		all := []api.GPU{}
		for _, name := range names {
			all = append(all, api.GPU{Name: name})
		}
		return all
	}
	for want, n := range map[string]api.NodeRow{
		"–": {}, "– of 8": {GPUsExpected: some(8)}, "no GPU": {GPUs: gpus()}, "0 of 2": {GPUs: gpus(), GPUsExpected: some(2)},
		"2 × H200": {GPUs: gpus("NVIDIA H200", "NVIDIA H200")}, "1 of 2 × H200": {GPUs: gpus("NVIDIA H200"), GPUsExpected: some(2)},
		"1 × H200 + 1 × MI300X":         {GPUs: gpus("NVIDIA H200", "AMD MI300X")},
		"2 of 3: 1 × H200 + 1 × MI300X": {GPUs: gpus("NVIDIA H200", "AMD MI300X"), GPUsExpected: some(3)},
	} {
		if got := picture.RowOf(&n, "").GPUText; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	n := api.NodeRow{Name: "gpu-1", State: wire.StateUnavailable, StateReasons: []string{"probe_failed", "identity_conflict"}}
	if got := picture.RowOf(&n, "").Worst; got.Mark.Word != "identity conflict, probe failed" || got.Mark.Class != "bad" {
		t.Errorf("worst %+v", got)
	}
	n.Findings = []api.Finding{{Text: "7 of 8 GPUs answer.", Next: "If it is gone: muster node gpus NAME N."}}
	if got := picture.RowOf(&n, "").Worst.Title(&n); got != "7 of 8 GPUs answer. If it is gone: muster node gpus gpu-1 N." {
		t.Errorf("what to do: %s", got)
	}
}

// TestHeat: each step of a scale, and what is unknown, missing or faulty.
func TestHeat(t *testing.T) {
	n := api.NodeRow{Name: "a", Fresh: true, GPUsExpected: some(8)}
	for _, celsius := range []float64{39, 40, 55, 65, 75, 85} {
		n.GPUs = append(n.GPUs, api.GPU{TemperatureCelsius: &celsius})
	}
	n.GPUs = append(n.GPUs, api.GPU{Health: []string{"lost"}})
	h := picture.RowOf(&n, "temperature").Heat
	if len(h.Steps) != 6 || strings.Count(h.Unknown, "z") != 2 || strings.Count(h.Cross, "M") != 2 || h.Width != 8*14-2 ||
		h.Says != "a: 39 °C, 40 °C, 55 °C, 65 °C, 75 °C, 85 °C, –, 1 missing" {
		t.Errorf("got %+v", h)
	}
	n.Fresh = false
	if h := picture.RowOf(&n, "temperature").Heat; len(h.Steps) != 0 || strings.Count(h.Unknown, "z") != 8 {
		t.Errorf("old values: %+v", h)
	}
	full := api.NodeRow{Name: "b", Fresh: true, GPUs: []api.GPU{{MemoryUsedMiB: some(int64(90)), MemoryMiB: some(int64(100))}}}
	if h := picture.RowOf(&full, "memory").Heat; h.Says != "b: 90 %" || h.Steps[0].Step != 5 {
		t.Errorf("memory: %+v", h)
	}
	if h := picture.RowOf(&api.NodeRow{Name: "c"}, "").Heat; h.Says != "c: –" || h.Unknown == "" {
		t.Errorf("never read: %+v", h)
	}
	unread := picture.RowOf(&api.NodeRow{Name: "d", GPUsExpected: some(2)}, "")
	if h := unread.Heat; h.Says != "d: –, –" || strings.Count(h.Unknown, "z") != 2 || h.Cross != "" {
		t.Errorf("not read: %+v", h)
	}
	if g := unread.Utilization; strings.Count(g.Unknown, "z") != 2 || g.Missing != "" || g.Text != "–" {
		t.Errorf("not read: %+v", g)
	}
	none := picture.RowOf(&api.NodeRow{Name: "e", Fresh: true, GPUs: []api.GPU{}}, "").Heat
	if none.Says != "e: no GPU" || none.Unknown+none.Cross != "" {
		t.Errorf("without a GPU: %+v", none)
	}
}

// TestTiles: the figures of the fleet, in units that people read.
func TestTiles(t *testing.T) {
	power, price := 1.25e6, 1234.5
	tiles := picture.TilesOf(api.Totals{Nodes: 12345, Statuses: map[string]int{wire.StatusOnline: 12000, wire.StatusStale: 345}, Unheard: 1000,
		GPUsExpected: 80000, GPUsSeen: 79999, GPUsUnknown: 345, MemoryUsedMiB: 1 << 30, MemoryMiB: 3 << 30, PowerWatts: &power,
		Rent: api.Rent{PricePerHour: &price, Priced: 12}})
	got := ""
	for _, tile := range tiles {
		got += fmt.Sprintf("%s %s %s %v\n", tile.Name, tile.Big, tile.Text, tile.Bad)
	}
	const want = `nodes 12,345 nodes · 11,000 online · 1,000 online? · 345 stale true
gpus 79,999 of 80,000 GPUs seen; nodes without a reading: 345 true
utilization – mean utilisation false
memory 1,024.0 TiB of 3,072.0 TiB GPU memory false
power 1.3 MW power of the GPUs false
idle 0 idle GPUs false
price 1,234.50 per hour; nodes with a price: 12 false
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
	unread := picture.TilesOf(api.Totals{Nodes: 3, GPUsUnknown: 3, GPUsExpected: 8})
	for i, want := range map[int]string{1: "– of 8", 5: "–"} {
		if unread[i].Big != want {
			t.Errorf("where no node has a reading: %+v", unread[i])
		}
	}
}
