package gpu_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
)

// summary is what a test says of a row: numbers in the order of the wire, then flags.
func summary(g wire.GPU) string {
	return fmt.Sprintf("mem %s/%s %s util %s temp %s power %s/%s mig %s health [%s]", show(g.MemoryUsedMiB), show(g.MemoryTotalMiB),
		g.MemorySource, show(g.UtilizationPercent), show(g.TemperatureCelsius), show(g.PowerWatts), show(g.PowerLimitWatts),
		show(g.MIG), strings.Join(g.Health, " "))
}

func TestDevices(t *testing.T) {
	const healthy = "mem 39233/81559 device util 99 temp 61 power 612.48/700 mig false health []"
	gb10 := map[string]string{"index": "0", "uuid": "GPU-a", "name": "NVIDIA GB10", "driver_version": "580.1",
		"utilization.gpu": "3", "temperature.gpu": "44", "power.draw": "11.20"}
	tests := []struct {
		name   string
		values map[string]string
		want   string
	}{
		{"healthy", h100(0), healthy},
		{"units in spite of nounits", with(h100(0), "memory.total", "81559 MiB", "memory.used", "39233 MiB",
			"utilization.gpu", "99 %", "power.draw", "612.48 W", "enforced.power.limit", "700.00 W", "temperature.gpu", "61 C"), healthy},
		{"GeForce", map[string]string{"index": "0", "name": "NVIDIA GeForce RTX 4090", "memory.total": "24564", "memory.used": "512",
			"utilization.gpu": "0", "temperature.gpu": "31", "power.draw": "12.5", "enforced.power.limit": "450"},
			"mem 512/24564 device util 0 temp 31 power 12.5/450 mig null health []"},
		{"MIG parent", with(h100(0), "mig.mode.current", "Enabled", "utilization.gpu", "[N/A]", "remapped_rows.pending", "[N/A]"),
			"mem 39233/81559 device util null temp 61 power 612.48/700 mig true health []"},
		{"MIG parent with a figure", with(h100(0), "mig.mode.current", "Enabled", "utilization.gpu", "0"),
			"mem 39233/81559 device util null temp 61 power 612.48/700 mig true health []"},
		{"GB10", gb10, "mem 7300/122500 unified util 3 temp 44 power 11.2/null mig null health []"},
		{"GB10 that names a figure", with(gb10, "memory.total", "8128", "memory.used", "0"),
			"mem 7300/122500 unified util 3 temp 44 power 11.2/null mig null health []"},
		{"N1X", with(gb10, "name", "NVIDIA N1X", "memory.total", "8128"),
			"mem 7300/122500 unified util 3 temp 44 power 11.2/null mig null health []"},
		{"Orin", map[string]string{"index": "0", "name": "Orin (nvgpu)"},
			"mem 7300/122500 unified util null temp null power null/null mig null health []"},
		{"GB100 has its own memory", with(gb10, "name", "NVIDIA GB100"),
			"mem null/null device util 3 temp 44 power 11.2/null mig null health []"},
		{"GH200 has its own memory", with(h100(0), "name", "NVIDIA GH200 480GB"), healthy},
		{"requires reset", with(h100(0), "uuid", "[GPU requires reset]", "memory.used", "[GPU requires reset]", "power.draw",
			"[GPU requires reset]"), "mem null/81559 device util 99 temp 61 power null/700 mig false health [gpu_requires_reset]"},
		{"lost", with(h100(0), "temperature.gpu", "[GPU is lost]", "utilization.gpu", "[GPU is lost]"),
			"mem 39233/81559 device util null temp null power 612.48/700 mig false health [gpu_is_lost]"},
		{"values failed", with(h100(0), "power.draw", "[Unknown Error]", "temperature.gpu", "ERR!", "utilization.gpu",
			"[Insufficient Permissions]", "mig.mode.current", "[Odd News!]"),
			"mem 39233/81559 device util null temp null power null/700 mig null health [odd_news:mig.mode.current " +
				"insufficient_permissions:utilization.gpu err:temperature.gpu unknown_error:power.draw]"},
		{"faults", with(h100(0), "ecc.errors.uncorrected.volatile.total", "12", "remapped_rows.pending", "Yes",
			"remapped_rows.failure", "1", "gpu_recovery_action", "Drain P2P"),
			"mem 39233/81559 device util 99 temp 61 power 612.48/700 mig false " +
				"health [ecc_uncorrected:12 row_remap_pending row_remap_failure recovery_action:drain_p2p]"},
		{"no numbers", with(h100(0), "memory.used", "-1", "utilization.gpu", "NaN", "temperature.gpu", "Inf", "power.draw", "1e3",
			"enforced.power.limit", "0x10"),
			"mem null/81559 device util null temp null power null/null mig false health [unreadable:memory.used " +
				"unreadable:utilization.gpu unreadable:temperature.gpu unreadable:power.draw unreadable:enforced.power.limit]"},
		{"absurd numbers", with(h100(0), "memory.used", "99999", "utilization.gpu", "101", "temperature.gpu", "65535",
			"power.draw", strings.Repeat("9", 400)),
			"mem null/81559 device util null temp null power null/700 mig false health " +
				"[unreadable:utilization.gpu unreadable:temperature.gpu unreadable:power.draw]"},
		{"the most memory", with(h100(0), "memory.total", "16777216"),
			"mem 39233/16777216 device util 99 temp 61 power 612.48/700 mig false health []"},
		{"more than that", with(h100(0), "memory.total", "16777217"),
			"mem 39233/null device util 99 temp 61 power 612.48/700 mig false health [unreadable:memory.total]"},
		{"no memory at all is no reading", with(h100(0), "memory.total", "0", "memory.used", "0"),
			"mem null/null device util 99 temp 61 power 612.48/700 mig false health []"},
		{"other units", with(h100(0), "memory.total", "80 GiB", "memory.used", "2048 KiB", "power.draw", "1500 mW"),
			"mem 2/81920 device util 99 temp 61 power 1.5/700 mig false health []"},
		{"wrong unit", with(h100(0), "power.draw", "61 C", "temperature.gpu", "61 W"),
			"mem 39233/81559 device util 99 temp null power null/700 mig false " +
				"health [unreadable:temperature.gpu unreadable:power.draw]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, _ := prober(t, newMachine(test.values))
			reading := p.Probe(t.Context())
			if len(reading.GPUs) != 1 || reading.Probe.State != wire.ProbeOK {
				t.Fatalf("got %d GPUs in state %s (%s), want 1 ok", len(reading.GPUs), reading.Probe.State, reading.Probe.Error)
			}
			if got := summary(reading.GPUs[0]); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestAbsentValues(t *testing.T) {
	for _, word := range []string{"[N/A]", "N/A", "[Not Supported]", "Not Supported", "", "[Function Not Found]",
		"[Requested functionality has been deprecated]"} {
		values := h100(0)
		for _, field := range slices.Sorted(maps.Keys(values)) {
			if field != "index" && field != "name" {
				values[field] = word
			}
		}
		p, _ := prober(t, newMachine(values))
		reading := p.Probe(t.Context())
		if len(reading.GPUs) != 1 {
			t.Fatalf("%q: got %d GPUs (%s), want 1", word, len(reading.GPUs), reading.Probe.Error)
		}
		want := "mem null/null device util null temp null power null/null mig null health []"
		if got := summary(reading.GPUs[0]); got != want || reading.DriverVersion != nil {
			t.Errorf("%q: got %s, driver %s\nwant %s, driver null", word, got, show(reading.DriverVersion), want)
		}
	}
}

func TestIdentity(t *testing.T) {
	p, _ := prober(t, newMachine(with(h100(3), "name", "NVIDIA\x1b[31m H100\xff")))
	reading := p.Probe(t.Context())
	g := reading.GPUs[0]
	got := fmt.Sprint(g.Index, g.UUID, g.Name, g.BusID, show(reading.DriverVersion))
	want := fmt.Sprint(3, "GPU-00000003-1111-2222-3333-444444444444", "NVIDIA[31m H100", "00000000:1B:00.0", "590.10.01")
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
