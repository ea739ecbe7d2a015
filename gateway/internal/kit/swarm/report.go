package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result is one line of the report.
type result struct {
	Operation string         `json:"operation"`
	Count     uint64         `json:"count"`
	Seconds   float64        `json:"seconds"`
	PerSecond float64        `json:"per_second"`
	P50       float64        `json:"p50_ms"`
	P90       float64        `json:"p90_ms"`
	P99       float64        `json:"p99_ms"`
	Max       float64        `json:"max_ms"`
	Own       float64        `json:"own_us"` // processor time that this program took for one
	Refused   map[string]int `json:"refused,omitempty"`
}

func (p *phase) result() result {
	h := &p.tally.latency
	return result{
		Operation: p.name, Count: h.total, Seconds: p.elapsed.Seconds(), PerSecond: p.perSecond(),
		P50: millis(h.quantile(0.50)), P90: millis(h.quantile(0.90)), P99: millis(h.quantile(0.99)), Max: millis(h.max),
		Refused: p.tally.refused, Own: float64(p.spent.Microseconds()) / float64(max(h.total, 1)),
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// summary is the report in JSON.
type summary struct {
	Nodes      int      `json:"nodes"`
	Operations []result `json:"operations"`
}

func results(phases []*phase) []result {
	list := make([]result, 0, len(phases))
	for _, p := range phases {
		list = append(list, p.result())
	}
	return list
}

// report prints what came of every phase.
func (s *swarm) report(out io.Writer) {
	if s.json {
		_ = json.NewEncoder(out).Encode(summary{len(s.nodes), results(s.phases)})
		return
	}
	fmt.Fprintf(out, "%d nodes, transport %s, %d in flight at most\n", len(s.nodes), s.transport, s.conns)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "operation\tcount\tseconds\tper second\tp50 ms\tp90 ms\tp99 ms\tmax ms\town us\trefused\t")
	for _, r := range results(s.phases) {
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%s\t\n",
			r.Operation, r.Count, r.Seconds, r.PerSecond, r.P50, r.P90, r.P99, r.Max, r.Own, codes(r.Refused))
	}
	_ = t.Flush()
}

// codes lists refusals by their code.
func codes(refused map[string]int) string {
	if len(refused) == 0 {
		return "0"
	}
	var list []string
	for _, code := range slices.Sorted(maps.Keys(refused)) {
		list = append(list, fmt.Sprintf("%s: %d", code, refused[code]))
	}
	return strings.Join(list, ", ")
}

// unexpected says what went wrong that -expect does not name, empty when nothing did.
func (s *swarm) unexpected() string {
	for _, p := range s.phases {
		for code, n := range p.tally.refused {
			if !slices.Contains(s.expect, code) {
				return fmt.Sprintf("%s: %d times %s (%s)", p.name, n, code, p.tally.example)
			}
		}
	}
	return ""
}
