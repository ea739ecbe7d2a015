package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// result is what came of one operation.
type result struct {
	Operation string         `json:"operation"`
	Count     int            `json:"count"`
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
	l := p.tally.latency
	slices.Sort(l)
	return result{
		Operation: p.name, Count: len(l), Seconds: p.elapsed.Seconds(), PerSecond: float64(len(l)) / max(p.elapsed.Seconds(), 1e-9),
		P50: millis(l.quantile(0.50)), P90: millis(l.quantile(0.90)), P99: millis(l.quantile(0.99)), Max: millis(l.quantile(1)),
		Refused: p.tally.refused, Own: float64(p.spent.Microseconds()) / float64(max(len(l), 1)),
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// summary is the report.
type summary struct {
	Nodes      int      `json:"nodes"`
	Operations []result `json:"operations"`
}

// report prints what came of phases.
func (s *swarm) report(out io.Writer, phases []*phase) {
	all := summary{Nodes: len(s.nodes), Operations: make([]result, 0, len(phases))}
	for _, p := range phases {
		all.Operations = append(all.Operations, p.result())
	}
	_ = json.NewEncoder(out).Encode(all) // who reads it has gone
}

// unexpected says what went wrong, empty when nothing did.
func (s *swarm) unexpected() string {
	for _, p := range s.phases {
		for code, n := range p.tally.refused {
			return fmt.Sprintf("%s: %d times %s (%s)", p.name, n, code, p.tally.example)
		}
	}
	return ""
}
