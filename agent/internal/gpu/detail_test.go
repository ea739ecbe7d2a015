package gpu_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/wire"
)

// rich is an H100 whose driver knows everything that is asked for, by the names of the driver 590.
func rich() map[string]string {
	return with(h100(0), "compute_cap", "9.0", "persistence_mode", "Enabled", "pstate", "P2", "memory.free", "41706", "memory.reserved", "620",
		"utilization.memory", "71", "utilization.encoder", "0", "utilization.decoder", "2", "temperature.memory", "70", "fan.speed", "[N/A]",
		"power.max_limit", "710.00", "clocks.current.sm", "1755", "clocks.current.memory", "2619", "clocks_event_reasons.active",
		"0x000000000000000C",
		"pcie.link.gen.current", "4", "pcie.link.gen.max", "5", "pcie.link.width.current", "8", "pcie.link.width.max", "16",
		"ecc.mode.current", "Enabled", "ecc.errors.corrected.volatile.total", "3", "ecc.errors.corrected.aggregate.total", "12",
		"ecc.errors.uncorrected.aggregate.total", "2", "remapped_rows.correctable", "1", "remapped_rows.uncorrectable", "0",
		"retired_pages.pending", "[N/A]", "reset_status.reset_required", "No", "reset_status.drain_and_reset_recommended", "No",
		"fabric.state", "Completed", "fabric.status", "Success")
}

func probed(t *testing.T, values map[string]string) wire.GPU {
	t.Helper()
	m := newMachine(values)
	m.known = slices.Sorted(maps.Keys(values))
	p, _ := prober(t, m)
	got := p.Probe(t.Context())
	if len(got.GPUs) != 1 || m.count("--query-gpu") != 1 {
		t.Fatalf("%d rows by %d calls: %+v", len(got.GPUs), m.count("--query-gpu"), got.Probe)
	}
	return got.GPUs[0]
}

// extra is a row without the values that TestDevices checks.
func extra(t *testing.T, g wire.GPU) string {
	t.Helper()
	raw, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch name {
		case "index", "uuid", "name", "bus_id", "memory_total_mib", "memory_used_mib", "memory_source", "utilization_percent",
			"temperature_celsius", "power_watts", "power_limit_watts", "mig", "health", "processes", "mig_instances":
			continue
		}
		if string(all[name]) != "null" {
			parts = append(parts, name+"="+strings.ReplaceAll(string(all[name]), `"`, ""))
		}
	}
	return strings.Join(parts, " ")
}

func TestTelemetry(t *testing.T) {
	const ecc = "ecc={enabled:true,corrected_volatile:3,uncorrected_volatile:0,corrected_aggregate:12,uncorrected_aggregate:2}"
	want := "clocks={sm_mhz:1755,memory_mhz:2619,reasons:[sw_power_cap,hw_slowdown]} compute_capability=9.0 " +
		"decoder_utilization_percent=2 " + ecc +
		" encoder_utilization_percent=0 fabric={state:completed,status:success} memory_free_mib=41706 memory_reserved_mib=620 " +
		"memory_temperature_celsius=70 memory_utilization_percent=71 pcie={generation:4,generation_max:5,width:8,width_max:16} " +
		"performance_state=2 persistence_mode=true power_max_limit_watts=710 recovery_action=none " +
		"remapped_rows={correctable:1,uncorrectable:0,pending:false,failure:false} vendor=nvidia"
	if got := extra(t, probed(t, rich())); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, test := range []struct {
		name, field, value, want string // part of the extra values or of the health
	}{
		{"idle clocks", "clocks_event_reasons.active", "0x1", "reasons:[gpu_idle]"},
		{"nothing sets the clocks", "clocks_event_reasons.active", "0x0000000000000000", "reasons:[]"},
		{"a bit of a later driver", "clocks_event_reasons.active", "0x8000000000000100", "reasons:[display_clock_setting,0x8000000000000000]"},
		{"no mask", "clocks_event_reasons.active", "12", "reasons:null"},
		{"no mask at all", "clocks_event_reasons.active", "0x", "reasons:null"},
		{"fan above its rated speed", "fan.speed", "104 %", "fan_percent=104"},
		{"no ECC", "ecc.mode.current", "[N/A]", "ecc={enabled:null,"},
		{"no state", "pstate", "P99", ""},
		{"no generation", "pcie.link.gen.current", "0", "pcie={generation:null"},
		{"pages", "retired_pages.pending", "Yes", "retired_pages_pending=true"},
		{"an odd flag", "persistence_mode", "Perhaps", ""},
		{"free beyond the total", "memory.free", "99999", ""},
	} {
		if got := extra(t, probed(t, with(rich(), test.field, test.value))); !strings.Contains(got, test.want) || test.want == "" &&
			strings.Contains(got, "="+test.value) {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	quiet := with(rich(), "fabric.state", "[Unknown Error]", "clocks.current.sm", "ERR!", "temperature.memory", "hot", "pstate",
		"[Insufficient Permissions]")
	if got := probed(t, quiet); len(got.Health) != 0 || got.Clocks.SMMHz != nil || got.MemoryTemperatureCelsius != nil {
		t.Errorf("what says nothing of health: got %v", got.Health)
	}
	if got := probed(t, with(rich(), "clocks.current.sm", "[GPU is lost]")); strings.Join(got.Health, " ") != "gpu_is_lost" {
		t.Errorf("a lost GPU: got %v", got.Health)
	}
	parent := probed(t, with(rich(), "mig.mode.current", "Enabled"))
	if parent.MemoryUtilizationPercent != nil || parent.EncoderUtilizationPercent != nil || parent.DecoderUtilizationPercent != nil {
		t.Error("a parent's figures say nothing of its instances")
	}
	if unified := probed(t, with(rich(), "name", "NVIDIA GB10")); unified.MemoryFreeMiB != nil || unified.MemoryReservedMiB != nil {
		t.Error("a device without memory of its own has free memory")
	}
	nothing := map[string]string{"index": "0", "uuid": "GPU-a", "name": "NVIDIA GeForce", "memory.total": "1000"}
	if got := extra(t, probed(t, nothing)); got != "vendor=nvidia" {
		t.Errorf("a driver that knows nothing more: got %s", got)
	}
}

func TestOlderNamesAndOlderDrivers(t *testing.T) {
	old := rich()
	for _, pair := range [][2]string{{"clocks.current.sm", "clocks.sm"}, {"clocks.current.memory", "clocks.mem"},
		{"clocks_event_reasons.active", "clocks_throttle_reasons.active"}} {
		old[pair[1]] = old[pair[0]]
		delete(old, pair[0])
	}
	delete(old, "gpu_recovery_action")
	for _, test := range []struct{ reset, drain, want, health string }{
		{"No", "No", "none", ""}, {"Yes", "No", "reset", "recovery_action:reset"},
		{"No", "Yes", "drain_and_reset", "recovery_action:drain_and_reset"},
		{"[N/A]", "[N/A]", "null", ""}, {"[N/A]", "No", "none", ""},
	} {
		got := probed(t, with(old, "reset_status.reset_required", test.reset, "reset_status.drain_and_reset_recommended", test.drain))
		if show(got.RecoveryAction) != test.want || strings.Join(got.Health, " ") != test.health || show(got.Clocks.SMMHz) != "1755" ||
			len(got.Clocks.Reasons) != 2 {
			t.Errorf("%+v: %s, %v, %+v", test, show(got.RecoveryAction), got.Health, got.Clocks)
		}
	}
	m := newMachine(rich())
	m.known = slices.Sorted(maps.Keys(rich()))
	p, _ := prober(t, m)
	if p.Probe(t.Context()); strings.Contains(lastQuery(m), "reset_status") {
		t.Error("a driver that knows the recovery action was asked for the older flags")
	}
}

// A driver that was slow or hung is asked for less for some minutes, and not for processes. Each time that it is slow again it is left
// alone for twice as long, an hour at most; after an hour of quick answers the times are short again.
func TestSlowDriverIsAskedForLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(rich())
		m.known = slices.Sorted(maps.Keys(rich()))
		p, _ := prober(t, m)
		p.Now = nil
		slow := 6 * time.Second
		p.Exec = func(ctx context.Context, call gpu.Call) gpu.Output {
			if strings.HasPrefix(call.Args[0], "--query") {
				time.Sleep(slow)
			}
			return m.exec(ctx, call)
		}
		if got := p.Probe(t.Context()); got.Probe.State != wire.ProbeSlow || got.GPUs[0].Clocks == nil {
			t.Errorf("the first look: %+v", got.Probe)
		}
		slow = time.Second
		if got := p.Probe(t.Context()); got.Probe.State != wire.ProbeOK || lastQuery(m) != allFields || got.GPUs[0].Clocks != nil ||
			m.count("--query-compute") != 0 {
			t.Errorf("the second look: %+v by %s", got.Probe, lastQuery(m))
		}
		if until := p.LessUntil(); time.Until(until) != 5*time.Minute-slow {
			t.Errorf("it is asked for less until %v", until)
		}
		time.Sleep(5 * time.Minute)
		if got := p.Probe(t.Context()); got.GPUs[0].Clocks == nil || m.count("--query-compute") != 1 || !p.LessUntil().IsZero() {
			t.Errorf("some minutes later: %s", lastQuery(m))
		}
		for _, want := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
			slow = 6 * time.Second
			p.Probe(t.Context())
			if got := time.Until(p.LessUntil()); got != want {
				t.Errorf("it is asked for less for %v, want %v", got, want)
			}
			time.Sleep(want)
		}
		slow = time.Second
		p.Probe(t.Context())
		time.Sleep(time.Hour + time.Second)
		slow = 6 * time.Second
		p.Probe(t.Context())
		if got := time.Until(p.LessUntil()); got != 5*time.Minute {
			t.Errorf("after a quiet hour it is asked for less for %v", got)
		}
	})
}

// A help that could not be read is read again after seconds, and then after longer and longer waits.
func TestHelpIsRepeatedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(h100(0))
		m.help = &gpu.Output{Code: 255}
		p, _ := prober(t, m)
		p.Now = nil
		go p.Run(t.Context(), 30*time.Second, nil)
		time.Sleep(15 * time.Second)
		if got := m.count("--help"); got != 4 { // at 0, 2, 6 and 14 s
			t.Errorf("asked %d times in 15 s, want 4", got)
		}
		time.Sleep(time.Hour)
		if got := m.count("--help"); got < 12 || got > 20 {
			t.Errorf("asked %d times in an hour", got)
		}
		m.change(func(m *machine) { m.help = nil })
		time.Sleep(11 * time.Minute)
		if got := lastQuery(m); got != allFields {
			t.Errorf("got %s, want all fields", got)
		}
	})
}
