package gpu_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/internal/gpu"
)

// machine plays the nvidia-smi of a machine: which fields it knows, what its GPUs' values are, and how it fails.
type machine struct {
	mu     sync.Mutex
	known  []string            // fields in the help
	hidden []string            // fields in the help that a query is refused for all the same
	gpus   []map[string]string // values by field; what is missing is [N/A]
	help   *gpu.Output         // instead of the help
	answer *gpu.Output         // instead of the rows
	apps   gpu.Output          // the list of processes
	list   gpu.Output          // the list of devices
	links  gpu.Output          // the states of the links
	all    gpu.Output          // all of a GPU, in XML
	calls  []string            // the first argument of every call
}

func (m *machine) exec(_ context.Context, call gpu.Call) gpu.Output {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, call.Args[0])
	query, isQuery := strings.CutPrefix(call.Args[0], "--query-gpu=")
	switch {
	case call.Args[0] == "-L":
		return m.list
	case call.Args[0] == "-q":
		return m.all
	case call.Args[0] == "nvlink":
		return m.links
	case strings.HasPrefix(call.Args[0], "--query-compute-apps="):
		return m.apps
	case !isQuery && m.help != nil:
		return *m.help
	case !isQuery:
		return gpu.Output{Stdout: []byte(helpText(m.known))}
	case m.answer != nil:
		return *m.answer
	}
	var rows strings.Builder
	names := strings.Split(query, ",")
	for _, name := range names {
		if !slices.Contains(m.known, name) || slices.Contains(m.hidden, name) {
			return gpu.Output{Code: 2, Stdout: fmt.Appendf(nil, "Field %q is not a valid field to query.\n\n", name)}
		}
	}
	for _, values := range m.gpus {
		rows.WriteString(row(names, values) + "\n")
	}
	return gpu.Output{Stdout: []byte(rows.String())}
}

// change alters the machine between looks.
func (m *machine) change(how func(*machine)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	how(m)
}

func (m *machine) count(prefix string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, call := range m.calls {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

func helpText(known []string) string {
	var text strings.Builder
	text.WriteString("List of valid properties to query for the switch \"--query-gpu=\":\n\n")
	for _, name := range known {
		fmt.Fprintf(&text, "%q\nWhat %s is.\n\n", name, name)
	}
	return text.String()
}

func row(names []string, values map[string]string) string {
	cells := make([]string, len(names))
	for i, name := range names {
		value, ok := values[name]
		if !ok {
			value = "[N/A]"
		}
		cells[i] = value
	}
	return strings.Join(cells, ", ")
}

// with copies values and changes some of them.
func with(values map[string]string, pairs ...string) map[string]string {
	values = maps.Clone(values)
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	return values
}

// h100 is a data-centre GPU in good health.
func h100(index int) map[string]string {
	return map[string]string{
		"index": fmt.Sprint(index), "uuid": fmt.Sprintf("GPU-%08x-1111-2222-3333-444444444444", index),
		"name": "NVIDIA H100 80GB HBM3", "pci.bus_id": fmt.Sprintf("00000000:%02X:00.0", 0x18+index),
		"driver_version": "590.10.01", "mig.mode.current": "Disabled", "memory.total": "81559", "memory.used": "39233",
		"utilization.gpu": "99", "temperature.gpu": "61", "power.draw": "612.48", "enforced.power.limit": "700.00",
		"power.limit": "700.00", "ecc.errors.uncorrected.volatile.total": "0", "remapped_rows.pending": "No",
		"remapped_rows.failure": "0", "gpu_recovery_action": "None",
	}
}

func fields() []string { return slices.Sorted(maps.Keys(h100(0))) }

func newMachine(gpus ...map[string]string) *machine {
	return &machine{known: fields(), gpus: gpus}
}

// clock is a time that tests move.
type clock struct{ at time.Time }

func newClock() *clock                   { return &clock{time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)} }
func (c *clock) now() time.Time          { return c.at }
func (c *clock) advance(d time.Duration) { c.at = c.at.Add(d) }

// prober looks at a machine that is played, in place of a program that exists everywhere.
func prober(t testing.TB, m *machine) (*gpu.Prober, *clock) {
	t.Helper()
	c := newClock()
	total := int64(122_500)
	used := int64(7_300)
	return &gpu.Prober{
		Path: "/bin/sh", Exec: m.exec, Now: c.now,
		SystemMemory:   func() (*int64, *int64) { return &total, &used },
		HidesProcesses: func() bool { return false },
	}, c
}

// show prints a value behind a pointer, for messages and comparisons.
func show[T any](p *T) string {
	if p == nil {
		return "null"
	}
	return fmt.Sprint(*p)
}
