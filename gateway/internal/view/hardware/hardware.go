// Package hardware names what a node is made of: its GPUs, and the tags that say which hardware it has.
//
// All of it follows from the facts that the agent observed, and no person types any of it. A new card needs a line in one table. A card
// that is not in the table has a tag and a model all the same, by the name that its driver gives it, or else by its PCI id.
package hardware

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"muster/agent/wire"
)

// GPU is a card, as the bus and its driver show it. A value that neither of them says is null or empty.
type GPU struct {
	PCI       string // address, as that of a wire.PCIDevice
	UUID      string
	Model     string // such as h100-sxm
	MemoryMiB *int64 // null: shared with the CPU, or not known
	NUMA      *int
	Switch    string             // address of the root port above it
	Module    *int               // its place on an HGX board
	MIG       []wire.MIGInstance // its parts; null: it is not divided; empty: it is, and it has no part that could be used

	tag  string
	from string // what the tag follows from
}

// Key names the card on its node: by its address, or by its UUID if no address is known. An index is not used, because it may change at a
// boot.
func (g GPU) Key() string { return cmp.Or(g.PCI, g.UUID) }

// GPUs returns the cards that can be given work, by their keys. In a container the bus shows each card of the host, so only cards that the
// driver names count. Elsewhere, cards on the bus that no driver can name count too: they are bound to vfio-pci, or no driver answers.
func GPUs(f wire.Facts) []GPU {
	gpus := map[string]GPU{}
	bus := map[string]wire.PCIDevice{}
	for _, d := range f.PCI {
		d.Address = Address(d.Address)
		bus[d.Address] = d
		if !f.Contained && d.IsGPU() && (PassedOn(d) || len(f.Accelerators) == 0) {
			gpus[d.Address] = join(d, wire.AcceleratorID{})
		}
	}
	for _, a := range f.Accelerators {
		a.Address = Address(a.Address)
		if g := join(bus[a.Address], a); g.Key() != "" {
			gpus[g.Key()] = g
		}
	}
	return slices.SortedFunc(maps.Values(gpus), func(a, b GPU) int { return cmp.Compare(a.Key(), b.Key()) })
}

// join makes one card of what the bus and the driver say of it. Either may be the zero value.
func join(d wire.PCIDevice, a wire.AcceleratorID) GPU {
	model, tag, from := name(d, a.Name)
	return GPU{
		PCI: cmp.Or(d.Address, a.Address), UUID: a.UUID, Model: model, MemoryMiB: a.MemoryMiB, NUMA: d.NUMA, Switch: d.Switch,
		Module: a.Module, MIG: a.MIG, tag: tag, from: from,
	}
}

// PassedOn reports whether a card is bound to vfio-pci, so that it can be given to a virtual machine and no driver on the host sees it.
func PassedOn(d wire.PCIDevice) bool { return d.Driver == "vfio-pci" }

// Address turns a PCI address into the form of sysfs: nvidia-smi writes 00000000:00:09.0.
func Address(text string) string {
	text = strings.ToLower(text)
	domain, rest, _ := strings.Cut(text, ":")
	if short, ok := strings.CutPrefix(domain, "0000"); ok && len(domain) == 8 {
		return short + ":" + rest
	}
	return text
}

// name finds a card's model and tag: by its PCI id, then by its name in the table, then by its name as it is, and at last by its id.
func name(d wire.PCIDevice, driver string) (model, tag, from string) {
	id := d.Vendor + ":" + d.Device
	known := func(matches func(card) bool) bool {
		i := slices.IndexFunc(cards[:], func(c card) bool { return c.model != "" && matches(c) })
		if i >= 0 {
			model, tag = cards[i].model, cards[i].tag
		}
		return i >= 0
	}
	if known(func(c card) bool { return c.id == id }) {
		return model, tag, "PCI " + id
	}
	vendor, short := split(driver)
	if known(func(c card) bool { return strings.EqualFold(c.name, short) }) {
		return model, tag, wire.OneLine(driver, 64)
	}
	if model = modelOf(short); model != "" {
		return model, clip("gpu-" + vendorOf(d.Vendor, vendor) + model), wire.OneLine(driver, 64)
	}
	if model = word(d.Vendor + "-" + d.Device); model == "" {
		return "unknown", "gpu-unknown", "a GPU without a name"
	}
	return model, clip("gpu-" + model), "PCI " + id
}

// modelOf makes a model of a driver's name.
func modelOf(short string) string {
	return word(strings.TrimPrefix(strings.ToLower(short), "geforce "))
}

// split takes the vendor from the front of a driver's name. Older drivers of NVIDIA leave it out.
func split(driver string) (vendor, rest string) {
	first, rest, ok := strings.Cut(strings.TrimSpace(driver), " ")
	switch {
	case ok && strings.EqualFold(first, "NVIDIA"):
		return "nvidia-", rest
	case ok && strings.EqualFold(first, "AMD"):
		return "amd-", rest
	}
	return "", strings.TrimSpace(driver)
}

// vendorOf is the vendor's part of a tag, by the card's PCI vendor, or by its name where the bus is not to be seen.
func vendorOf(id, named string) string {
	switch id {
	case wire.PCIVendorNVIDIA:
		return "nvidia-"
	case wire.PCIVendorAMD:
		return "amd-"
	}
	return named
}

// word makes a name of lower-case letters, digits and single dashes.
func word(text string) string {
	parts := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return clip(strings.Join(parts, "-"))
}

// clip keeps a name within what the name of a label has.
func clip(text string) string { return strings.TrimRight(text[:min(len(text), wire.MaxLabelKey)], "-") }

// Is reports whether a model is what somebody asked for, which may be a driver's name or a company's too. A request may leave out the form
// of the board and the size of the memory: h100 is h100-sxm and h100-pcie, and 4090 is rtx-4090. If one of the two does not name a thing,
// such as the memory of h100-sxm, it is not compared. A longer name of another card never matches: rtx-4080 is not rtx-4080-super.
func Is(model, asked string) bool {
	if exact, _, _ := name(wire.PCIDevice{}, asked); exact == model {
		return model != ""
	}
	m, a := spell(model), spell(asked)
	agree := func(a, b string) bool { return a == "" || b == "" || a == b }
	return m.chip != "" && m.chip == a.chip && agree(m.form, a.form) && agree(m.size, a.size) && (m.rtx || !a.rtx)
}

// spelling is what a name says of a card, whoever wrote it.
type spelling struct {
	chip string // without anything between its parts: 6000ada
	form string // of the board: sxm, pcie or nvl; empty: it does not say
	size string // of the memory, in GB; empty: it does not say
	rtx  bool
}

func spell(text string) (s spelling) {
	_, short := split(text)
	for part := range strings.SplitSeq(word(short), "-") {
		isNumber := func(text string) bool { return strings.Trim(text, "0123456789") == "" }
		size, isSize := strings.CutSuffix(strings.TrimSuffix(part, "b"), "g")
		generation, isSXM := strings.CutPrefix(part, "sxm")
		switch {
		case slices.Contains([]string{"geforce", "tesla", "instinct", "blackwell", "generation", "edition", "server", "workstation"}, part):
		case strings.HasPrefix(part, "rtx"):
			s.rtx = true
			s.chip += part[len("rtx"):]
		case isSXM && isNumber(generation):
			s.form = "sxm"
		case part == "pcie", part == "nvl":
			s.form = part
		case isSize && size != "" && isNumber(size):
			s.size = size
		default:
			s.chip += part
		}
	}
	return s
}

// TagFits reports whether a tag that somebody else gave a machine, such as gpu-nvidia-h200, names the model that is asked for.
func TagFits(tag, asked string) bool {
	model, isGPU := strings.CutPrefix(tag, "gpu-")
	for _, vendor := range []string{"nvidia-", "amd-"} {
		model = strings.TrimPrefix(model, vendor)
	}
	return isGPU && model != "" && (Is(model, asked) || Is(asked, model))
}
