package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
)

// nameMissing says which count GPUs do not answer, by UUID and slot as far as those are known. answering are the rows of this
// look, unread those that could not be read, lost the slots that nvidia-smi named.
func (p *Prober) nameMissing(count int, answering []wire.GPU, unread []Reject, lost []string) string {
	names := make([]string, 0, count)
	for _, d := range p.roster {
		if !seenAmong(d, answering) && !slices.ContainsFunc(unread, d.namedBy) {
			names = append(names, d.String())
		}
	}
	for _, bus := range lost {
		if bus != "" && !slices.ContainsFunc(p.roster, func(d device) bool { return sameBus(d.Bus, bus) }) {
			names = append(names, device{Bus: bus}.String())
		}
	}
	return enumerate(names, count, wire.MaxHealthDetail-60)
}

// identify fills in UUID, slot and name of devices that cannot say them any more. at are their places among the rows. A device
// keeps its index for as long as the driver is loaded, so the last whole reading tells which device it is.
func (p *Prober) identify(rows []wire.GPU, at []int) {
	for _, i := range at {
		g := &rows[i]
		known := slices.IndexFunc(p.roster, func(d device) bool {
			same := sameBus(d.Bus, g.BusID) || g.BusID == "" && d.Index == g.Index
			return same && !slices.ContainsFunc(rows, func(other wire.GPU) bool { return other.UUID == d.UUID })
		})
		if known < 0 {
			continue
		}
		d := p.roster[known]
		g.UUID = d.UUID
		g.BusID = cmp.Or(g.BusID, d.Bus)
		g.Name = cmp.Or(g.Name, d.Name)
	}
}

// String names a device for a person.
func (d device) String() string {
	id := cmp.Or(wire.Plain(d.UUID, 60), "a GPU")
	if d.Bus == "" {
		return id
	}
	return id + " at " + wire.Plain(d.Bus, 40)
}

// namedBy reports whether a row that could not be read is about this device. Then the device answers, and is not missing.
func (d device) namedBy(row Reject) bool {
	return d.UUID != "" && strings.Contains(row.Text, d.UUID) || d.Bus != "" && strings.Contains(row.Text, d.Bus)
}

// seenAmong reports whether a device answers. A row without a UUID is compared by its slot.
func seenAmong(d device, rows []wire.GPU) bool {
	return slices.ContainsFunc(rows, func(g wire.GPU) bool {
		return g.UUID == d.UUID || g.UUID == "" && sameBus(g.BusID, d.Bus)
	})
}

// sameBus compares PCI addresses. nvidia-smi writes their domain with four digits in one place and eight in another.
func sameBus(a, b string) bool {
	plain := func(bus string) string { return strings.ToLower(strings.TrimLeft(bus, "0")) }
	return a != "" && plain(a) == plain(b)
}

// Locate names the GPU at an address of the bus, also one that does not answer any more: its UUID, and the address as its row has it. A GPU
// that nobody has ever listed, for example because it was lost before the agent came, is named by its address. In a container it may be
// another container's GPU: then both are empty.
func (p *Prober) Locate(bus string) (uuid, own string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remember()
	for _, g := range p.reading.GPUs {
		if g.UUID != "" && sameBus(g.BusID, bus) {
			return g.UUID, g.BusID
		}
	}
	for _, d := range p.roster {
		if sameBus(d.Bus, bus) {
			return d.UUID, d.Bus
		}
	}
	if bus == "" || p.hidesProcesses() {
		return "", ""
	}
	return "PCI-" + bus, bus
}

// enumerate lists names in at most limit bytes. Names that do not fit, and GPUs without a name, are counted.
func enumerate(names []string, count, limit int) string {
	text := ""
	shown := 0
	for _, name := range names {
		if len(text)+len(name)+2 > limit {
			break
		}
		if shown++; text != "" {
			text += ", "
		}
		text += name
	}
	more := max(count, len(names)) - shown
	switch {
	case more <= 0:
		return text
	case shown == 0:
		return fmt.Sprintf("%d whose UUIDs are not known", more)
	}
	return fmt.Sprintf("%s and %d more", text, more)
}
