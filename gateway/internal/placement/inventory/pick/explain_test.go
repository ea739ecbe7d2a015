package pick_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/pick"
)

// some is a fleet in which each node is different.
func some() []pick.Node {
	drained := node("d-drained", 8, h100, plain)
	drained.Bars = []string{"drained", "stale"}
	waiting := node("c-waiting", 8, h100, plain)
	for i := range waiting.Slots {
		waiting.Slots[i].Why = "not approved"
	}
	waiting.Slots[0].Why = "disabled"
	bare := node("f-bare", 1, h100, plain) // what it gave once
	for i := range bare.Slots {
		bare.Slots[i].SKU = ""
	}
	gone := pick.Node{ID: "n-g", Name: "g-gone", Bars: []string{"no evidence"}}
	return []pick.Node{
		hold(node("b-used", 8, h100, plain), 0, 1), costing(node("a-free", 8, h100, plain), 3), waiting, drained,
		node("e-small", 4, h100, plain), bare, gone,
		node("h-slices", 8, h100, sliced, 1, 2), node("i-other", 2, "NVIDIA L40S", plain),
	}
}

func TestSKUs(t *testing.T) {
	t.Parallel()
	all := pick.SKUs(some())
	names := []string{}
	for _, s := range all {
		names = append(names, s.Name)
	}
	want := []string{"h100-sxm-baremetal-4g", "h100-sxm-baremetal-8g", "h100-sxm-gpu", "h100-sxm-slice", "h100-sxm-slice-2g",
		"l40s-baremetal-2g", "l40s-gpu"}
	if !slices.Equal(names, want) {
		t.Fatalf("the SKUs are %q", names)
	}
	got := all[2]
	if got.Nodes != 5 || got.Slots != 28 || got.Free != 18 || *got.PriceMin != 2 || *got.PriceMax != 3 || got.GPUs != 1 ||
		got.Shape != api.ShapeGPU || got.Model != "h100-sxm" {
		t.Errorf("single GPUs are %+v", got)
	}
	if none := pick.SKUs(nil); none == nil || len(none) != 0 {
		t.Errorf("no nodes give %#v", none)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	e := pick.Explain("h100-sxm-gpu", some())
	listed := pick.SKUs(some())[2]
	if !reflect.DeepEqual(e.SKU, listed) {
		t.Errorf("it is explained as %+v, and listed as %+v", e.SKU, listed)
	}
	lines := []string{}
	for _, v := range e.List {
		lines = append(lines, fmt.Sprintf("%s %d %d %s", v.Node, v.Slots, v.Free, strings.Join(v.Why, ", ")))
	}
	want := []string{
		"a-free 8 8 ", "b-used 8 6 2: taken", "e-small 4 4 ", "c-waiting 0 0 7: not approved, 1: disabled", "d-drained 8 0 drained, stale",
		"f-bare 0 0 no slots", "g-gone 0 0 no evidence", "h-slices 0 0 its profile gives no slots of shape gpu", "i-other 0 0 its GPUs are l40s",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the nodes:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	counts := fmt.Sprint(e.Counts)
	if counts != "[{drained 1} {its GPUs are l40s 1} {its profile gives no slots of shape gpu 1} {no evidence 1} {no slots 1} "+
		"{not approved 1}]" {
		t.Errorf("the counts are %s", counts)
	}
	if len(e.Nearest) != 0 || len(e.Rules) < 3 {
		t.Errorf("nearest %q, rules %q", e.Nearest, e.Rules)
	}
}

func TestExplainWhatIsNotThere(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		nearest string
		why     string // of the node e-small
	}{
		"h100-sxm-baremetal-2g":     {"h100-sxm-baremetal-4g", "its slots of shape node have 4 GPUs"},
		"h100-sxm-mig-1g-10gb":      {"h100-sxm-gpu", "its GPUs are whole, or divided in another way"},
		"h100-sxm-baremetal-4g-mig": {"h100-sxm-baremetal-4g", "its GPUs are whole, or divided in another way"},
		"h200-sxm-gpu":              {"h100-sxm-gpu", "its GPUs are h100-sxm"},
		"h100":                      {"l40s-gpu", "its GPUs are h100-sxm"},
	} {
		e := pick.Explain(name, some())
		i := slices.IndexFunc(e.List, func(v api.SKUVerdict) bool { return v.Node == "e-small" })
		if len(e.List) != 9 || e.List[i].Why[0] != want.why || e.Nodes != 0 || e.Slots != 0 {
			t.Errorf("%s: %+v, want %q", name, e, want.why)
		}
		if name != "h100" && (len(e.Nearest) != 3 || e.Nearest[0] != want.nearest) {
			t.Errorf("%s: nearest %q", name, e.Nearest)
		}
	}
	if e := pick.Explain("x", nil); e.Nearest == nil || e.List == nil || e.Counts == nil {
		t.Errorf("no nodes give %#v", e)
	}
}

func TestExplainIsBounded(t *testing.T) {
	t.Parallel()
	var nodes []pick.Node
	for i := range 300 {
		nodes = append(nodes, node(fmt.Sprintf("node-%03d", i), 1, h100, plain))
	}
	nodes[299].Bars, nodes[0].Bars = []string{"drained"}, []string{"drained"}
	e := pick.Explain("h100-sxm-gpu", nodes)
	if len(e.List) != api.MostVerdicts || e.List[0].Node != "node-001" || e.Nodes != 300 || e.Counts[0].Nodes != 2 {
		t.Errorf("%d verdicts, counts %+v", len(e.List), e.Counts)
	}
}
