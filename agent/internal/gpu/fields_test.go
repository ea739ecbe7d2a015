package gpu_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/wire"
)

const helpSeed = `List of valid properties to query for the switch "--query-gpu=":

"timestamp"
When the query was made.

"name" or "gpu_name"
The official name.

"clocks_event_reasons.active" or "clocks_throttle_reasons.active"
A bitmask.
  "indented" or not
"half
"bad name"
"tail" is followed by prose
"dangling" or

Section about memory properties
"memory.total"
`

func TestParseHelp(t *testing.T) {
	want := "[{timestamp []} {name [gpu_name]} {clocks_event_reasons.active [clocks_throttle_reasons.active]} {indented []} " +
		"{tail []} {dangling []} {memory.total []}]"
	for _, text := range []string{helpSeed, strings.ReplaceAll(helpSeed, "\n", "\r\n")} {
		if got := fmt.Sprint(gpu.ParseHelp([]byte(text))); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := gpu.ParseHelp([]byte("NVIDIA-SMI has failed\n")); len(got) != 0 {
		t.Errorf("prose: got %v, want nothing", got)
	}
	if got := len(gpu.ParseHelp([]byte(strings.Repeat("\"a\"\n", 10_000)))); got != 4096 {
		t.Errorf("endless: got %d fields, want 4096", got)
	}
}

// lastQuery is the field list that a machine was last asked for.
func lastQuery(m *machine) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, call := range slices.Backward(m.calls) {
		if query, ok := strings.CutPrefix(call, "--query-gpu="); ok {
			return query
		}
	}
	return ""
}

const allFields = "index,uuid,name,pci.bus_id,driver_version,mig.mode.current,memory.total,memory.used,utilization.gpu,temperature.gpu," +
	"power.draw,enforced.power.limit,ecc.errors.uncorrected.volatile.total,remapped_rows.pending,remapped_rows.failure,gpu_recovery_action"

const coreFields = "index,uuid,name,pci.bus_id,driver_version,memory.total,memory.used," +
	"utilization.gpu,temperature.gpu,power.draw,power.limit"

func without(names ...string) []string {
	return slices.DeleteFunc(fields(), func(name string) bool { return slices.Contains(names, name) })
}

func TestFieldsAreResolvedOnce(t *testing.T) {
	tests := []struct {
		name  string
		known []string
		help  *gpu.Output
		want  string
	}{
		{"a new driver", append(fields(), "something.new"), nil, allFields},
		{"an old one", without("gpu_recovery_action", "remapped_rows.pending", "enforced.power.limit"), nil,
			"index,uuid,name,pci.bus_id,driver_version,mig.mode.current,memory.total,memory.used,utilization.gpu,temperature.gpu," +
				"power.draw,power.limit,ecc.errors.uncorrected.volatile.total,remapped_rows.failure"},
		{"older names", append(without("uuid"), "gpu_uuid"), nil, strings.Replace(allFields, "uuid", "gpu_uuid", 1)},
		{"help fails", fields(), &gpu.Output{Code: 9, Stdout: []byte(helpText(fields()))}, coreFields},
		{"help is something else", fields(), &gpu.Output{Stdout: []byte("<html>\n\"index\"\n")}, coreFields},
		{"help cannot be started", fields(), &gpu.Output{Err: context.Canceled}, coreFields},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(with(h100(0), "gpu_uuid", "GPU-a"))
			m.known = test.known
			m.help = test.help
			p, _ := prober(t, m)
			for range 3 {
				if got := p.Probe(t.Context()); got.Probe.State != wire.ProbeOK || len(got.GPUs) != 1 || got.GPUs[0].UUID == "" ||
					show(got.GPUs[0].PowerLimitWatts) != "700" {
					t.Fatalf("got %+v, %+v", got.Probe, got.GPUs)
				}
			}
			if got := lastQuery(m); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if got := m.count("--help"); got != 1 {
				t.Errorf("the help was read %d times, want once", got)
			}
		})
	}
}

func TestFieldsAreResolvedAgain(t *testing.T) {
	t.Run("a field goes", func(t *testing.T) {
		m := newMachine(h100(0))
		p, _ := prober(t, m)
		p.Probe(t.Context())
		m.change(func(m *machine) { m.known = without("enforced.power.limit") })
		got := p.Probe(t.Context())
		if got.Probe.State != wire.ProbeOK || m.count("--help") != 2 || m.count("--query-gpu") != 3 ||
			lastQuery(m) != strings.Replace(allFields, "enforced.power.limit", "power.limit", 1) {
			t.Errorf("got %+v after %v", got.Probe, m.calls)
		}
	})
	t.Run("the driver changes", func(t *testing.T) {
		m := newMachine(h100(0))
		m.known = without("gpu_recovery_action")
		p, _ := prober(t, m)
		p.Probe(t.Context())
		m.change(func(m *machine) {
			m.known = fields()
			m.gpus[0]["driver_version"] = "610.1"
			m.gpus[0]["gpu_recovery_action"] = "GPU Reset"
		})
		p.Probe(t.Context())
		got := p.Probe(t.Context())
		if m.count("--help") != 2 || lastQuery(m) != allFields || fmt.Sprint(got.GPUs[0].Health) != "[recovery_action:gpu_reset]" {
			t.Errorf("got %v after %v", got.GPUs[0].Health, m.calls)
		}
	})
	t.Run("the help could not be read", func(t *testing.T) {
		m := newMachine(h100(0))
		m.help = &gpu.Output{Code: 9}
		p, c := prober(t, m)
		p.Probe(t.Context())
		m.change(func(m *machine) { m.help = nil })
		c.advance(11 * time.Minute)
		p.Probe(t.Context())
		if got := lastQuery(m); got != allFields {
			t.Errorf("got %s, want all fields", got)
		}
	})
}

// A help may list a field that a query refuses.
func TestRefusedFields(t *testing.T) {
	tests := []struct {
		name   string
		hidden []string
		want   string
		state  string
	}{
		{"two", []string{"enforced.power.limit", "gpu_recovery_action"}, strings.TrimSuffix(
			strings.Replace(allFields, "enforced.power.limit", "power.limit", 1), ",gpu_recovery_action"), wire.ProbeOK},
		{"many", []string{"mig.mode.current", "enforced.power.limit", "gpu_recovery_action", "remapped_rows.pending",
			"remapped_rows.failure", "ecc.errors.uncorrected.volatile.total"}, coreFields, wire.ProbeOK},
		{"one that must be", []string{"uuid"}, strings.Replace(coreFields, "uuid,", "", 1), wire.ProbeFailed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(h100(0))
			m.hidden = test.hidden
			p, _ := prober(t, m)
			got := p.Probe(t.Context())
			if got.Probe.State != test.state {
				t.Errorf("got %s (%s), want %s", got.Probe.State, got.Probe.Error, test.state)
			}
			if test.state == wire.ProbeFailed && !strings.Contains(got.Probe.Error, `Field "uuid" is not a valid field`) {
				t.Errorf("got %q", got.Probe.Error)
			}
			if test.state == wire.ProbeOK && lastQuery(m) != test.want {
				t.Errorf("got  %s\nwant %s", lastQuery(m), test.want)
			}
			queries := m.count("--query-gpu")
			p.Probe(t.Context())
			if again := m.count("--query-gpu") - queries; again != 1 || m.count("--help") > 3 {
				t.Errorf("the next look made %d queries and %d helps in all", again, m.count("--help"))
			}
		})
	}
}

func FuzzParseHelp(f *testing.F) {
	f.Add([]byte(helpSeed))
	f.Add([]byte("\"a\" or \"b\" or \"c\"\n"))
	f.Add([]byte("\"\"\n\" or \"\n\"a\"or\"b\"\n\xff\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, field := range gpu.ParseHelp(text) {
			for _, name := range append(field.Aliases, field.Name) {
				if name == "" || strings.ContainsAny(name, " ,\"\n=") || !strings.Contains(string(text), `"`+name+`"`) {
					t.Errorf("got field %q", name)
				}
			}
		}
	})
}

func FuzzParseCSV(f *testing.F) {
	f.Add([]byte("0, GPU-a, NVIDIA H100 80GB HBM3, 81559\n1, GPU-b, NVIDIA H100 80GB HBM3, 81559\n"), 4)
	f.Add([]byte("0, [GPU requires reset], [GPU requires reset], 0 MiB\r\n"), 4)
	f.Add([]byte("0, [N/A], NVIDIA GB10, [N/A]\n\n"), 4)
	f.Add([]byte("Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n0, a, b, c\n"), 4)
	f.Add([]byte("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n"), 16)
	f.Add([]byte("NVIDIA-SMI has failed, try again, later\n, , ,\n\xff,\x00,\n"), 3)
	f.Fuzz(func(t *testing.T, text []byte, width int) {
		table := gpu.ParseCSV(text, width)
		for _, cells := range table.Rows {
			if len(cells) != width {
				t.Errorf("got a row of %d cells, want %d", len(cells), width)
			}
		}
		if n := len(table.Rows) + len(table.Rejected) + len(table.Notes); n > wire.MaxGPUs+1 {
			t.Errorf("got %d lines", n)
		}
	})
}

// FuzzProbe gives any answer to a whole look: no figure is out of bounds, and no text is too long.
func FuzzProbe(f *testing.F) {
	names := strings.Split(allFields, ",")
	f.Add([]byte(row(names, h100(0))), []byte(""), 0)
	f.Add([]byte(row(names, with(h100(0), "power.draw", "NaN", "memory.total", "1e400"))), []byte(""), 0)
	f.Add([]byte(row(names, map[string]string{"index": "0", "name": "NVIDIA GB10"})), []byte("warning\n"), 0)
	f.Add([]byte("No devices were found\n"), []byte(""), 6)
	f.Add([]byte("Field \"uuid\" is not a valid field to query.\n"), []byte(""), 2)
	f.Fuzz(func(t *testing.T, stdout, stderr []byte, code int) {
		m := newMachine()
		m.answer = &gpu.Output{Stdout: stdout, Stderr: stderr, Code: code}
		p, _ := prober(t, m)
		got := p.Probe(t.Context())
		if got.Probe.State == "" || len(got.Probe.Error) > 300 || got.Probe.State == wire.ProbeOK && len(got.GPUs) == 0 {
			t.Errorf("got %+v with %d GPUs", got.Probe, len(got.GPUs))
		}
		for _, g := range got.GPUs {
			u := g.UtilizationPercent
			w := g.PowerWatts
			if u != nil && !(*u >= 0 && *u <= 100) || w != nil && !(*w >= 0 && *w <= 20_000) || g.MemoryTotalMiB != nil && *g.MemoryTotalMiB <= 0 ||
				len(g.Health) > 32 || len(g.Name) > 150 {
				t.Errorf("got %+v", g)
			}
		}
	})
}
