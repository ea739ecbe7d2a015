package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"muster/gateway/api"
	"muster/gateway/internal/cli/live"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/tty"
	"muster/gateway/internal/kit"
)

func some[T any](v T) *T { return &v }

func noon() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

func gpus(n int, name string, util func(int) *float64) []api.GPU {
	var all []api.GPU
	for i := range n {
		all = append(all, api.GPU{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Name: name, UtilizationPercent: util(i),
			MemoryUsedMiB: some(int64(9000 * (i + 1))), MemoryMiB: some(int64(81559)), TemperatureCelsius: some(40 + 5*float64(i)),
			PowerWatts: some(100 + 70*float64(i)), PowerLimitWatts: some(700.0)})
	}
	return all
}

// someFleet has nodes of each kind that a frame shows in its own way.
func someFleet() []api.NodeRow {
	ramp := func(i int) *float64 { return some(float64(i) * 14.2) }
	ago := func(d time.Duration) *time.Time { return some(noon().Add(-d)) }
	well := api.NodeRow{ID: "1", Name: "vast-h100-39467543", Tenant: "platform", Provider: "vast_ai", State: "active", Status: "online",
		LastSeen: ago(4 * time.Second), Fresh: true, ReadAt: ago(5 * time.Second), Probe: "ok", GPUs: gpus(8, "NVIDIA H100 80GB HBM3", ramp),
		GPUsExpected: some(8), PricePerHour: some(17.6), AgentVersion: "1.2.3", CPUs: some(128), Load1: some(12.34),
		MemoryUsedMiB: some(int64(120_000)), MemoryMiB: some(int64(2_000_000)), DiskUsedMiB: some(int64(400_000)), DiskMiB: some(int64(900_000)),
		Labels: map[string]string{"tier": "sovereign", "price_per_hour": "17.6"}}
	ill := api.NodeRow{ID: "2", Name: "gpu-ill", Tenant: "research", Provider: "maas", State: "unavailable",
		StateReasons: []string{"gpu_count_dropped"}, Status: "online", LastSeen: ago(12 * time.Second), Fresh: true, Probe: "ok",
		GPUs: gpus(3, "NVIDIA A100-SXM4-80GB", ramp), GPUsExpected: some(4), Findings: []api.Finding{
			{Rule: "gpu_fault", Severity: api.SeveritySevere, Since: noon().Add(-3 * time.Hour), Text: "GPU 1 has left the bus.",
				Next: "Restart the machine.", Topic: "gpus"},
			{Rule: "disk_full", Severity: api.SeverityWarn, Since: noon().Add(-time.Hour), Text: "The disk is 96 % full.", Next: "Make room."},
			{Rule: "gpu_hot", Severity: api.SeverityWarn, GPU: "GPU-0", Since: noon().Add(-time.Hour), Text: "GPU 0 is at 93 °C.",
				Next: "Look at its fans."}}}
	ill.GPUs[1].Health = []string{"fallen_off_bus"}
	ill.GPUs[2].UtilizationPercent = nil
	stale := api.NodeRow{ID: "3", Name: "desk", Tenant: "platform", State: "active", Status: "stale", LastSeen: ago(5 * time.Hour),
		ReadAt: ago(5 * time.Hour), Probe: "ok", GPUs: gpus(1, "NVIDIA GB10", ramp), GPUsExpected: some(1)}
	stale.GPUs[0].MemorySource = "unified"
	idle := api.NodeRow{ID: "4", Name: "resting", Tenant: "platform", Provider: "vast_ai", State: "drained", Status: "online",
		LastSeen: ago(time.Second), Fresh: true, Probe: "ok", GPUs: gpus(2, "NVIDIA L40S", func(int) *float64 { return some(0.0) }),
		IdleSince: ago(2 * time.Hour), PricePerHour: some(1.25)}
	for i := range idle.GPUs {
		idle.GPUs[i].IdleSince = ago(2 * time.Hour)
		idle.GPUs[i].Use = api.UseIdle
	}
	joining := api.NodeRow{ID: "5", Name: "yet-to-come", Tenant: "platform", State: "ready", Status: "pending"}
	unread := api.NodeRow{ID: "6", Name: "unread", Tenant: "research", State: "unavailable", StateReasons: []string{"probe_hung"},
		Status: "online", LastSeen: ago(time.Second), Probe: "hung", GPUsExpected: some(8)}
	return []api.NodeRow{well, ill, stale, idle, joining, unread}
}

// viewOf is a view that has heard of nodes.
func viewOf(nodes []api.NodeRow) *view {
	v := &view{clock: noon, order: api.SortName, look: look{utf8: true}}
	v.Take(live.News{Fleet: &api.FleetView{At: noon(), Nodes: nodes}})
	return v
}

func golden(t *testing.T, name string, lines []string) {
	t.Helper()
	kit.Golden(t, name+".golden", strings.Join(lines, "\n")+"\n")
}

// TestFrames: what a person sees, in golden files.
func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		size tty.Size
		view func(*view)
	}{
		"list-80x24":   {tty.Size{Columns: 80, Rows: 24}, func(*view) {}},
		"list-60x12":   {tty.Size{Columns: 60, Rows: 12}, func(v *view) { v.message = "a term needs a value" }},
		"list-160x50":  {tty.Size{Columns: 160, Rows: 20}, func(v *view) { v.order = "-" + api.SortUtilization }},
		"list-240x16":  {tty.Size{Columns: 240, Rows: 16}, func(v *view) { v.selector = "tier=sovereign" }},
		"list-ascii":   {tty.Size{Columns: 100, Rows: 16}, func(v *view) { v.look = look{} }},
		"list-color":   {tty.Size{Columns: 80, Rows: 16}, func(v *view) { v.look = look{color: true, shade: true, utf8: true} }},
		"list-once":    {tty.Size{Columns: 160}, func(*view) {}},
		"list-filter":  {tty.Size{Columns: 80, Rows: 16}, func(v *view) { v.prompt = some("tier=so") }},
		"list-idle":    {tty.Size{Columns: 80, Rows: 16}, func(v *view) { v.idle = true }},
		"detail-80x24": {tty.Size{Columns: 80, Rows: 24}, func(v *view) { v.detail = "1" }},
		"detail-ill":   {tty.Size{Columns: 160, Rows: 20}, func(v *view) { v.detail = "2" }},
		"detail-stale": {tty.Size{Columns: 80, Rows: 12}, func(v *view) { v.detail = "3" }},
		"detail-hung":  {tty.Size{Columns: 80, Rows: 12}, func(v *view) { v.detail = "6" }},
		"detail-ready": {tty.Size{Columns: 80, Rows: 12}, func(v *view) { v.detail = "5" }},
		"help":         {tty.Size{Columns: 80, Rows: 30}, func(v *view) { v.help = true }},
		"lost": {tty.Size{Columns: 100, Rows: 10}, func(v *view) {
			v.Take(live.News{Lost: fmt.Errorf("no gateway answers")})
			v.clock = func() time.Time { return noon().Add(90 * time.Second) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(someFleet())
			c.view(v)
			lines := v.Frame(c.size)
			golden(t, name, lines)
			fits(t, lines, c.size)
		})
	}
}

// bare is a line without codes.
func bare(line string) string {
	var out strings.Builder
	for line != "" {
		if at := strings.Index(line, "\x1b["); at >= 0 {
			out.WriteString(line[:at])
			_, line, _ = strings.Cut(line[at:], "m")
			continue
		}
		out.WriteString(line)
		break
	}
	return out.String()
}

// fits fails if a frame is larger than its terminal, or holds what only a terminal may be told.
func fits(t *testing.T, lines []string, size tty.Size) {
	t.Helper()
	if size.Rows > 0 && len(lines) != size.Rows {
		t.Errorf("%d lines on %d rows", len(lines), size.Rows)
	}
	for _, line := range lines {
		if w := screen.Width(bare(line)); w > size.Columns {
			t.Errorf("%d columns on %d: %s", w, size.Columns, line)
		}
		for _, r := range bare(line) {
			if unicode.IsControl(r) {
				t.Errorf("%q holds %q", line, r)
			}
		}
	}
}

// TestEverySize: no size, however small, makes a frame that does not fit, and none panics.
func TestEverySize(t *testing.T) {
	for columns := 1; columns < 260; columns += 7 {
		for rows := 1; rows < 40; rows += 3 {
			for _, change := range []func(*view){
				func(*view) {}, func(v *view) { v.detail = "1" }, func(v *view) { v.detail = "2" }, func(v *view) { v.help = true },
				func(v *view) { v.look = look{} }, func(v *view) { v.board = live.Board{} },
				func(v *view) { v.prompt = some(strings.Repeat("é", 90)) },
				func(v *view) { v.look = look{}; v.detail = "5" },
			} {
				v := viewOf(someFleet())
				change(v)
				fits(t, v.Frame(tty.Size{Columns: columns, Rows: rows}), tty.Size{Columns: columns, Rows: rows})
			}
		}
	}
}

// TestForeignText: what nodes say can not reach the terminal as anything but text, and wide characters keep the columns.
func TestForeignText(t *testing.T) {
	hostile := "\x1b[2J\x1b]0;taken\x07\u202e漢字é\u0301\r\n"
	for _, seen := range []look{{utf8: true}, {}} {
		nodes := someFleet()
		g := &nodes[0]
		for _, text := range []*string{&g.Name, &g.Tenant, &g.Provider, &g.State, &g.Status, &g.AgentVersion, &g.Probe, &g.GPUs[0].Name} {
			*text = hostile
		}
		g.Labels = map[string]string{hostile: hostile}
		g.StateReasons = []string{hostile}
		g.GPUs[1].Health = []string{hostile}
		g.Findings = []api.Finding{{Rule: hostile, Severity: hostile, Text: hostile, Next: hostile}}
		for _, detail := range []string{"", "1"} {
			v := viewOf(nodes)
			v.look = seen
			v.detail = detail
			v.selector = hostile
			v.message = hostile
			for _, columns := range []int{60, 80, 240} {
				size := tty.Size{Columns: columns, Rows: 30}
				lines := v.Frame(size)
				fits(t, lines, size)
				if all := strings.Join(lines, "\n"); strings.ContainsAny(all, "\x1b\x07\r\u202e") {
					t.Errorf("%d columns: %q", columns, all)
				}
			}
		}
	}
}

// BenchmarkFrame is a frame of 10,000 nodes with eight GPUs each.
func BenchmarkFrame(b *testing.B) {
	var nodes []api.NodeRow
	for i := range 10_000 {
		g := someFleet()[0]
		g.ID = fmt.Sprintf("id-%05d", i)
		g.Name = fmt.Sprintf("node-%05d", i)
		nodes = append(nodes, g)
	}
	v := viewOf(nodes)
	v.order = api.SortUtilization
	for b.Loop() {
		v.board.Version++ // the gateway has told something
		v.Frame(tty.Size{Columns: 160, Rows: 50})
	}
}
