package pick_test

import (
	"fmt"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/pick"
)

// large is so many nodes of eight GPUs, of which some are in use.
func large(count int) (nodes []pick.Node) {
	for i := range count {
		n := node(fmt.Sprintf("node-%05d", i), 8, []string{h100, "NVIDIA H200"}[i%2], plain)
		for at := range n.Units {
			n.Units[at].Held = (i+at)%3 == 0 && i%5 != 0
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// BenchmarkPick chooses among 10,000 slots of single GPUs, and those of their whole nodes.
func BenchmarkPick(b *testing.B) {
	nodes := large(1_250)
	for name, wish := range map[string]api.Wish{
		"one":     {GPU: "h100"},
		"four":    {GPU: "h100", Count: 4},
		"node":    {SKU: "h200-sxm-baremetal-8g"},
		"spread":  {GPU: "h100", Count: 100, Spread: true},
		"refused": {GPU: "h100", Count: 9},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if got := pick.Pick(nodes, wish); (len(got.Slots) == 0) != (name == "refused") {
					b.Fatal(got.Why)
				}
			}
		})
	}
}

// BenchmarkExplain explains a SKU at 10,000 nodes of eight GPUs: the budget is 50 ms.
func BenchmarkExplain(b *testing.B) {
	nodes := large(10_000)
	for _, name := range []string{"h100-sxm-gpu", "h100-sxm-slice-2g"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if got := pick.Explain(name, nodes); len(got.List) != api.MostVerdicts {
					b.Fatal(got)
				}
			}
		})
	}
}

// BenchmarkSKUs lists the SKUs of 10,000 nodes of eight GPUs.
func BenchmarkSKUs(b *testing.B) {
	nodes := large(10_000)
	for b.Loop() {
		if got := pick.SKUs(nodes); len(got) != 4 {
			b.Fatal(got)
		}
	}
}
