package pick_test

import (
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/pick"
)

const h100 = "NVIDIA H100 80GB HBM3"

func TestPick(t *testing.T) {
	t.Parallel()
	barred := func(n pick.Node) pick.Node {
		n.Bars = []string{"drained"}
		return n
	}
	free := func(n pick.Node) pick.Node {
		n.Slots[0].Price = nil
		return n
	}
	for name, test := range map[string]struct {
		nodes []pick.Node
		wish  api.Wish
		want  string // nodes and units
	}{
		"one": {[]pick.Node{node("a", 1, h100, plain)}, api.Wish{GPU: "h100"}, "a[0]"},
		"the fullest that fits": {[]pick.Node{hold(node("a", 8, h100, plain), 0), hold(node("b", 8, h100, plain), 0, 1, 2),
			hold(node("c", 8, h100, plain), 0, 1, 2, 3, 4, 5, 6)}, api.Wish{GPU: "h100", Count: 4}, "b[4 5 6 7]"},
		"an empty node is broken up last": {[]pick.Node{node("a", 2, h100, plain), node("b", 8, h100, plain), hold(node("c", 8, h100, plain), 7)},
			api.Wish{GPU: "h100"}, "c[6]"},
		"of empty ones the smallest": {[]pick.Node{node("a", 8, h100, plain), node("b", 4, h100, plain)}, api.Wish{GPU: "h100"}, "b[0]"},
		"a whole one is whole": {[]pick.Node{hold(node("a", 8, h100, plain), 0), node("b", 8, h100, plain)},
			api.Wish{GPU: "h100", Count: 8}, "b[0 1 2 3 4 5 6 7]"},
		"no larger one for that": {[]pick.Node{node("a", 16, h100, plain), node("b", 8, h100, plain)},
			api.Wish{GPU: "h100", Count: 8}, "b[0 1 2 3 4 5 6 7]"},
		"the cheapest among equals": {[]pick.Node{costing(node("a", 1, h100, plain), 3), costing(node("b", 1, h100, plain), 1)},
			api.Wish{GPU: "h100"}, "b[0]"},
		"a known price before none": {[]pick.Node{free(node("a", 1, h100, plain)), node("b", 1, h100, plain)}, api.Wish{GPU: "h100"}, "b[0]"},
		"the name among equals":     {[]pick.Node{node("b", 1, h100, plain), node("a", 1, h100, plain)}, api.Wish{GPU: "h100"}, "a[0]"},
		"behind one root port":      {[]pick.Node{hold(node("a", 8, h100, plain), 0, 2)}, api.Wish{GPU: "h100", Count: 2}, "a[4 5]"},
		"on one NUMA node":          {[]pick.Node{hold(node("a", 8, h100, plain), 0, 4)}, api.Wish{GPU: "h100", Count: 3}, "a[1 2 3]"},
		"ports stay whole":          {[]pick.Node{hold(node("a", 8, h100, plain), 3, 5)}, api.Wish{GPU: "h100"}, "a[2]"},
		"large groups first":        {[]pick.Node{hold(node("a", 8, h100, plain), 0, 1, 2)}, api.Wish{GPU: "h100", Count: 4}, "a[4 5 6 7]"},
		"across NUMA nodes":         {[]pick.Node{hold(node("a", 8, h100, plain), 0, 1)}, api.Wish{GPU: "h100", Count: 5}, "a[2 4 5 6 7]"},
		"either board":              {[]pick.Node{node("a", 1, "NVIDIA H100 PCIe", plain)}, api.Wish{GPU: "H100"}, "a[0]"},
		"another model":             {[]pick.Node{node("a", 1, "NVIDIA H200", plain)}, api.Wish{GPU: "h100"}, ""},
		"a slot of that size":       {[]pick.Node{node("a", 8, h100, sliced, 1, 2, 4)}, api.Wish{GPU: "h100", Count: 2}, "a[0 1]"},
		"single slots, where no larger is free": {[]pick.Node{hold(node("a", 4, h100, sliced, 1, 2), 0, 2)},
			api.Wish{GPU: "h100", Count: 2}, "a[1 3]"},
		"what breaks up least": {[]pick.Node{hold(node("a", 8, h100, sliced, 1, 2, 4), 4)}, api.Wish{GPU: "h100"}, "a[5]"},
		"the pair of what is broken up": {[]pick.Node{hold(node("a", 8, h100, sliced, 1, 2, 4), 5)}, api.Wish{SKU: "h100-sxm-slice-2g"},
			"a[6 7]"},
		"two slots of a SKU": {[]pick.Node{node("a", 8, h100, sliced, 1, 2, 4)}, api.Wish{SKU: "h100-sxm-slice-2g", Count: 2},
			"a[0 1 2 3]"},
		"no SKU of another size":          {[]pick.Node{node("a", 8, h100, sliced, 1, 2, 4)}, api.Wish{SKU: "h100-sxm-slice-8g"}, ""},
		"a whole node alone has no three": {[]pick.Node{node("a", 8, h100, whole)}, api.Wish{GPU: "h100", Count: 3}, ""},
		"all on one": {[]pick.Node{node("a", 2, h100, plain), node("b", 2, h100, plain)},
			api.Wish{GPU: "h100", Count: 3}, ""},
		"spread": {[]pick.Node{node("a", 2, h100, plain), node("b", 2, h100, plain)},
			api.Wish{GPU: "h100", Count: 3, Spread: true}, "a[0 1] b[0]"},
		"spread only where it must": {[]pick.Node{hold(node("a", 4, h100, plain), 0, 1), node("b", 4, h100, plain)},
			api.Wish{GPU: "h100", Count: 4, Spread: true}, "b[0 1 2 3]"},
		"spread over whole nodes": {[]pick.Node{node("a", 8, h100, whole), node("b", 6, h100, whole), node("c", 8, h100, whole)},
			api.Wish{GPU: "h100", Count: 16, Spread: true}, "a[0 1 2 3 4 5 6 7] c[0 1 2 3 4 5 6 7]"},
		"spread over SKUs": {[]pick.Node{node("a", 8, h100, whole), node("b", 8, h100, whole)},
			api.Wish{SKU: "h100-sxm-baremetal-8g", Count: 2, Spread: true}, "a[0 1 2 3 4 5 6 7] b[0 1 2 3 4 5 6 7]"},
		"spread over the cheapest": {[]pick.Node{costing(hold(node("a", 2, h100, plain), 0), 9), costing(node("b", 2, h100, plain), 2),
			costing(node("c", 2, h100, plain), 3)}, api.Wish{GPU: "h100", Count: 3, Spread: true, MaxPrice: new(7.0)}, "b[0 1] c[0]"},
		"within the price": {[]pick.Node{costing(node("a", 2, h100, plain), 2.1)}, api.Wish{GPU: "h100", Count: 2, MaxPrice: new(4.2)}, "a[0 1]"},
		"in cents": {[]pick.Node{costing(node("a", 3, h100, plain), 0.1)},
			api.Wish{GPU: "h100", Count: 3, MaxPrice: new(0.3)}, "a[0 1 2]"},
		"above the price": {[]pick.Node{costing(node("a", 2, h100, plain), 2.2)}, api.Wish{GPU: "h100", Count: 2, MaxPrice: new(4.2)}, ""},
		"the cheaper one, though it is emptier": {[]pick.Node{costing(hold(node("a", 8, h100, plain), 0, 1), 3),
			costing(node("b", 8, h100, plain), 1)},
			api.Wish{GPU: "h100", MaxPrice: new(2.0)}, "b[0]"},
		"no price is not free":        {[]pick.Node{free(node("a", 1, h100, plain[:1]))}, api.Wish{GPU: "h100", MaxPrice: new(100.0)}, ""},
		"no price, and none is asked": {[]pick.Node{free(node("a", 1, h100, plain[:1]))}, api.Wish{GPU: "h100"}, "a[0]"},
		"a barred node":               {[]pick.Node{barred(node("a", 1, h100, plain))}, api.Wish{GPU: "h100"}, ""},
		"a barred node, and another one": {[]pick.Node{barred(node("a", 1, h100, plain)), node("b", 8, h100, plain)},
			api.Wish{GPU: "h100"}, "b[0]"},
		"no nodes":      {nil, api.Wish{GPU: "h100"}, ""},
		"nothing asked": {[]pick.Node{node("a", 1, h100, plain)}, api.Wish{}, ""},
	} {
		got := pick.Pick(test.nodes, test.wish)
		if joined := strings.Join(text(got), " "); joined != test.want {
			t.Errorf("%s: %q, want %q", name, joined, test.want)
		}
		if (len(got.Slots) == 0) != (len(got.Why) > 0) {
			t.Errorf("%s: %d slots, and why not: %q", name, len(got.Slots), got.Why)
		}
	}
}

func TestPartsOfGPUs(t *testing.T) {
	t.Parallel()
	n := made("a", api.Profile{Slots: api.ProfileSlots{Shapes: plain}}, wire.Facts{Accelerators: []wire.AcceleratorID{
		{UUID: "GPU-a", Name: h100, MIG: []wire.MIGInstance{{Profile: "1g.10gb", UUID: "MIG-a"}, {Profile: "1g.10gb", UUID: "MIG-b"}}},
		{UUID: "GPU-b", Name: h100},
	}})
	if got := pick.Pick([]pick.Node{n}, api.Wish{SKU: "h100-sxm-mig-1g-10gb", Count: 2}); len(got.Slots) != 2 {
		t.Errorf("two parts: %+v", got)
	}
	if got := pick.Pick([]pick.Node{n}, api.Wish{GPU: "h100", Count: 2}); len(got.Slots) != 0 {
		t.Errorf("a part is taken for a GPU: %+v", got)
	}
	got := pick.Pick([]pick.Node{n}, api.Wish{GPU: "h100"})
	if len(got.Slots) != 1 || n.Units[got.Slots[0].Slot.Units[0]].Key != "GPU-b" || *got.PerHour != 2 {
		t.Errorf("one GPU: %+v", got)
	}
}

// TestOrderOfSlotsSaysNothing proves that the same is chosen in whatever order the slots are read.
func TestOrderOfSlotsSaysNothing(t *testing.T) {
	t.Parallel()
	for _, wish := range []api.Wish{
		{GPU: "h100"}, {GPU: "h100", Count: 3}, {SKU: "h100-sxm-slice-2g", Count: 2}, {GPU: "h100", Count: 5, Spread: true},
	} {
		shapes := []string{api.ShapeGPU, api.ShapeVM, api.ShapeNode}
		a := []pick.Node{hold(node("a", 8, h100, shapes, 1, 2), 2), hold(node("b", 4, h100, shapes, 1, 2), 0)}
		b := []pick.Node{hold(node("b", 4, h100, shapes, 1, 2), 0), hold(node("a", 8, h100, shapes, 1, 2), 2)}
		slices.Reverse(b[0].Slots)
		slices.Reverse(b[1].Slots)
		one, other := text(pick.Pick(a, wish)), text(pick.Pick(b, wish))
		if len(one) == 0 || !slices.Equal(one, other) {
			t.Errorf("%+v: %q, and in another order %q", wish, one, other)
		}
	}
}

func TestPerHour(t *testing.T) {
	t.Parallel()
	n := node("a", 2, h100, plain[:1])
	if got := pick.Pick([]pick.Node{n}, api.Wish{GPU: "h100", Count: 2}); got.PerHour == nil || *got.PerHour != 4 {
		t.Errorf("two cost %v", got.PerHour)
	}
	n.Slots[1].Price = nil
	if got := pick.Pick([]pick.Node{n}, api.Wish{GPU: "h100", Count: 2}); got.PerHour != nil || len(got.Slots) != 2 {
		t.Errorf("two cost %v, and the price of one is not known", got.PerHour)
	}
}

func TestWhy(t *testing.T) {
	t.Parallel()
	unapproved := node("d", 2, h100, plain)
	for i := range unapproved.Slots {
		unapproved.Slots[i].Why = "not approved"
	}
	drained := node("c", 4, h100, plain)
	drained.Bars = []string{"drained", "stale"}
	nodes := []pick.Node{hold(node("a", 4, h100, plain), 0, 1, 2), hold(node("b", 4, h100, plain), 0, 1, 3), drained, unapproved,
		node("e", 8, "NVIDIA A100-SXM4-80GB", whole)}
	for _, test := range []struct {
		wish api.Wish
		want []string
	}{
		{api.Wish{GPU: "h100", Count: 2}, []string{"2 x h100 asked for, 2 free, at most 1 on one node", "6: taken",
			"4: drained", "2: not approved"}},
		{api.Wish{GPU: "h100", Count: 3, Spread: true}, []string{"3 x h100 asked for, 2 free", "6: taken", "4: drained", "2: not approved"}},
		{api.Wish{SKU: "h100-sxm-baremetal-4g"},
			[]string{"1 x h100-sxm-baremetal-4g asked for, 0 free", "2: taken", "1: drained"}},
		{api.Wish{GPU: "a100", Count: 2}, []string{"2 x a100 asked for, 0 free", "8: in slots of more GPUs"}},
		{api.Wish{GPU: "h100", MaxPrice: new(0.5)}, []string{"1 x h100 asked for, 2 free, none for 0.50 an hour or less", "6: taken",
			"4: drained",
			"2: not approved"}},
		{api.Wish{GPU: "b200"}, []string{"no node has b200"}},
	} {
		if got := pick.Pick(nodes, test.wish); !slices.Equal(got.Why, test.want) {
			t.Errorf("%+v:\n%s\nwant:\n%s", test.wish, strings.Join(got.Why, "\n"), strings.Join(test.want, "\n"))
		}
	}
}

func TestCould(t *testing.T) {
	t.Parallel()
	off := hold(node("a", 4, h100, plain), 0, 1, 2, 3)
	off.Bars = []string{"drained"}
	for i := range off.Slots {
		off.Slots[i].Why = "not approved"
	}
	nodes := []pick.Node{off, node("b", 8, "NVIDIA A100-SXM4-80GB", whole)}
	for _, test := range []struct {
		wish    api.Wish
		want    string
		nearest []string
	}{
		{api.Wish{GPU: "h100", Count: 4}, "", nil},
		{api.Wish{GPU: "h100", Count: 8}, "8 x h100 asked for, 4 there", nil},
		{api.Wish{GPU: "a100", Count: 2}, "2 x a100 asked for, 0 there; 8: in slots of more GPUs", nil},
		{api.Wish{GPU: "h200"}, "no node has h200", []string{"h100-sxm", "a100-sxm-80g"}},
		{api.Wish{SKU: "h100-sxm-baremetal-8g"}, "no node has h100-sxm-baremetal-8g",
			[]string{"h100-sxm-baremetal-4g", "h100-sxm-gpu", "a100-sxm-80g-baremetal-8g"}},
		{api.Wish{GPU: "h100", Count: 4, MaxPrice: new(7.0)}, "4 x h100 asked for, 4 there, none for 7.00 an hour or less", nil},
		{api.Wish{SKU: "h100-sxm-gpu", Count: 4, MaxPrice: new(8.0)}, "", nil},
		{api.Wish{SKU: "h100-sxm-baremetal-4g", Count: 2}, "2 x h100-sxm-baremetal-4g asked for, 1 there", nil},
	} {
		why, nearest := pick.Could(nodes, test.wish)
		if why != test.want || !slices.Equal(nearest, test.nearest) {
			t.Errorf("%+v: %q, nearest %q, want %q, %q", test.wish, why, nearest, test.want, test.nearest)
		}
	}
}
