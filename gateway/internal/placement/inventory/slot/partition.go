package slot

import (
	"cmp"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/view/hardware"
)

// partitions gives slots for virtual machines in each of these sizes. No divided GPU is in them, and never are two models in one.
//
// The GPUs of a board with NVSwitches can be linked only in the sets that its fabric manager offers. They follow from the GPUs' places on
// the board. Where these are not known, only one GPU alone and all together are sure to be such sets. GPUs without NVSwitches
// stand together with their neighbours.
func partitions(gpus []hardware.GPU, sizes []int, switched bool) (all []Proposed) {
	if len(sizes) == 0 {
		sizes = []int{1}
	}
	places := board(gpus)
	for _, size := range sizes {
		switch {
		case size < 1 || len(places) > 0 && len(places)%size != 0:
		case len(places) > 0:
			all = append(all, sets(places, size)...)
		case !switched || size == 1 || size == len(gpus):
			all = append(all, neighbours(gpus, size)...)
		}
	}
	return all
}

func isSwitched(f wire.Facts) bool { return slices.ContainsFunc(f.PCI, wire.PCIDevice.IsNVSwitch) }

// board gives the eight GPUs of an HGX board in such an order that each set of two, four or eight that its fabric manager offers stands
// together (NVIDIA, Fabric Manager User Guide, "GPU partitions"). It is nil for fewer GPUs, and where the place of one is not known.
// On boards of the Hopper generation the sets of two are the places 1 and 3, 2 and 4, 5 and 7, 6 and 8. On others they are 1 and 2, 3 and
// 4 and so on. The GPUs of Hopper are those whose names begin with an h: h100, h800, h200, h20.
func board(gpus []hardware.GPU) []hardware.GPU {
	const places = 8
	order := [places]int{1, 2, 3, 4, 5, 6, 7, 8}
	if len(gpus) != places {
		return nil
	}
	if strings.HasPrefix(gpus[0].Model, "h") {
		order = [places]int{1, 3, 2, 4, 5, 7, 6, 8}
	}
	var placed []hardware.GPU
	for _, place := range order {
		i := slices.IndexFunc(gpus, func(g hardware.GPU) bool { return g.Module != nil && *g.Module == place })
		if i < 0 {
			return nil
		}
		placed = append(placed, gpus[i])
	}
	return placed
}

// sets cuts GPUs that stand in order into slots of one size. What is left over at the end is in none.
func sets(gpus []hardware.GPU, size int) (all []Proposed) {
	for set := range slices.Chunk(gpus, size) {
		p := of(api.ShapeVM, set)
		if len(set) == size && p.Part == "" && !slices.ContainsFunc(set, func(g hardware.GPU) bool { return g.Model != p.Model }) {
			all = append(all, p)
		}
	}
	return all
}

// neighbours makes slots of GPUs of one NUMA node, those behind one root port first. Only a slot that is larger than each NUMA node spans
// several.
func neighbours(gpus []hardware.GPU, size int) (all []Proposed) {
	gpus = slices.DeleteFunc(slices.Clone(gpus), func(g hardware.GPU) bool { return g.MIG != nil })
	slices.SortStableFunc(gpus, func(a, b hardware.GPU) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(numa(a), numa(b)), cmp.Compare(a.Switch, b.Switch))
	})
	near := together(gpus, func(a, b hardware.GPU) bool { return a.Model == b.Model && numa(a) == numa(b) })
	if !slices.ContainsFunc(near, func(set []hardware.GPU) bool { return len(set) >= size }) {
		near = together(gpus, func(a, b hardware.GPU) bool { return a.Model == b.Model })
	}
	for _, set := range near {
		all = append(all, sets(set, size)...)
	}
	return all
}

// together parts GPUs that stand in order where two neighbours have nothing in common.
func together(gpus []hardware.GPU, same func(a, b hardware.GPU) bool) (all [][]hardware.GPU) {
	from := 0
	for i := range gpus {
		if i+1 == len(gpus) || !same(gpus[i], gpus[i+1]) {
			all = append(all, gpus[from:i+1])
			from = i + 1
		}
	}
	return all
}

// numa is a GPU's NUMA node; -1: not known, as sysfs writes it.
func numa(g hardware.GPU) int {
	if g.NUMA == nil {
		return -1
	}
	return *g.NUMA
}
