package evidence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

func list(names []string) string { return strings.Join(names, ", ") }

// driver judges whether the driver is loaded and answers.
func (r *run) driver() finding {
	cards := r.cards()
	switch {
	case r.Look == nil:
		return unknown("the agent was told not to look at GPUs (--no-gpu)")
	case len(r.gpus) > 0 && (r.probe.State == wire.ProbeOK || r.probe.State == wire.ProbeSlow):
		return well("%s, %d GPUs", strings.TrimSpace("driver "+r.facts.DriverVersion), len(r.gpus))
	case len(cards) > 0 && !slices.ContainsFunc(cards, func(d wire.PCIDevice) bool { return !isHandedOver(d) }):
		return unknown("all %d GPUs are bound to %s, so their own driver does not see them", len(cards), vfio)
	case r.probe.Error != "":
		return failed("%s", r.probe.Error)
	case r.probe.State == wire.ProbeAbsent:
		return failed("there is no nvidia-smi on this machine, and no GPU of AMD")
	}
	return failed("no driver answers: the look at the GPUs is %s", r.probe.State)
}

// named judges whether the driver names each GPU that the bus shows.
func (r *run) named() finding {
	if r.facts.Contained {
		return r.given()
	}
	if r.facts.PCI == nil {
		return unknown("the devices of the bus cannot be read in /%s", devices)
	}
	var missing []string
	handed := 0
	for _, d := range r.cards() {
		switch {
		case isHandedOver(d):
			handed++
		case !slices.ContainsFunc(r.facts.Accelerators, func(a wire.AcceleratorID) bool { return a.Address == d.Address }):
			missing = append(missing, fmt.Sprintf("%s (%s:%s, driver %q)", d.Address, d.Vendor, d.Device, d.Driver))
		}
	}
	switch {
	case len(missing) > 0:
		return failed("no driver names %s", list(missing))
	case len(r.facts.Accelerators)+handed == 0:
		return failed("neither the bus nor a driver shows a GPU")
	case handed > 0:
		return well("%d GPUs with their driver, %d bound to %s", len(r.facts.Accelerators), handed, vfio)
	}
	return well("%d GPUs", len(r.facts.Accelerators))
}

// given judges the GPUs of a container: its driver has to name those whose files it was given.
func (r *run) given() finding {
	files := 0
	for _, name := range r.Names("dev") {
		if number, is := strings.CutPrefix(name, "nvidia"); is && number != "" && strings.Trim(number, "0123456789") == "" {
			files++
		}
	}
	named := len(r.facts.Accelerators)
	switch {
	case named == 0:
		return failed("no driver names a GPU in this container: %s", r.probe.Error)
	case files > 0 && files != named:
		return failed("the driver names %d GPUs, and the container has the files of %d", named, files)
	}
	return well("%d GPUs, as the container was given", named)
}

// each judges every GPU. The worst of them counts, and what is said is about those that are not well.
func (r *run) each(judge func(wire.GPU) finding) finding {
	if len(r.gpus) == 0 {
		return unknown("%s", strings.TrimSuffix("no driver names a GPU: "+r.probe.Error, ": "))
	}
	var all []finding
	who := map[finding][]string{} // those of whom the same is to be said
	for _, g := range r.gpus {
		f := judge(g)
		if who[f] = append(who[f], strconv.Itoa(g.Index)); f.state == wire.CheckOK || len(who[f]) == 1 {
			all = append(all, f)
		}
	}
	for i, f := range all {
		if f.state != wire.CheckOK {
			all[i].saw = "GPU " + list(who[f]) + ": " + f.saw
		}
	}
	return worst(all, "GPUs")
}

// worst is the worst of some findings, with the texts of all that are as bad. All are well: it says what was seen, and how often.
func worst(all []finding, of string) finding {
	for _, state := range []string{wire.CheckFailed, wire.CheckUnknown} {
		var said []string
		for _, f := range all {
			if f.state == state {
				said = append(said, f.saw)
			}
		}
		if len(said) > 0 {
			return finding{state, strings.Join(said, "; ")}
		}
	}
	count := map[string]int{}
	var order []string
	for _, f := range all {
		if count[f.saw]++; count[f.saw] == 1 {
			order = append(order, f.saw)
		}
	}
	for i, saw := range order {
		order[i] = fmt.Sprintf("%d %s: %s", count[saw], of, saw)
	}
	return well("%s", strings.Join(order, "; "))
}

// fabric judges whether a GPU has joined its fabric. One without links has none.
func (r *run) fabric(g wire.GPU) finding {
	switched := slices.ContainsFunc(r.facts.PCI, wire.PCIDevice.IsNVSwitch)
	f := g.Fabric
	switch {
	case g.Vendor == wire.VendorAMD, f == nil && r.links != nil && r.links[g.UUID] == nil:
		return well("no NVLink")
	case f == nil && r.links != nil && !switched && !r.facts.Contained:
		return well("no switch of NVLinks")
	case f == nil || f.State == nil || f.Status == nil && *f.State == "completed":
		return unknown("the driver does not say whether it has joined the fabric")
	case *f.State == "completed" && *f.Status == "success":
		return well("completed")
	case *f.State == "not_supported":
		return well("no fabric")
	}
	status := ""
	if f.Status != nil {
		status = *f.Status
	}
	return failed("fabric %s %s: see whether nvidia-fabricmanager runs", *f.State, status)
}

// nvlink judges the links of a GPU. If all of a board without a switch are down, there is no bridge on it.
func (r *run) nvlink(g wire.GPU) finding {
	links := r.links[g.UUID]
	switch {
	case g.Vendor == wire.VendorAMD:
		return well("no NVLink")
	case r.links == nil:
		return unknown("nvidia-smi nvlink --status says nothing")
	case links == nil:
		return well("no NVLink")
	case links.Total == nil || links.Down == nil:
		return unknown("nvidia-smi says something else of a link than that it is up or down")
	case *links.Down == 0:
		return well("%d links up", *links.Total)
	case *links.Down == *links.Total && g.Fabric == nil && !slices.ContainsFunc(r.facts.PCI, wire.PCIDevice.IsNVSwitch):
		return well("no bridge")
	}
	return failed("%d of %d links are down", *links.Down, *links.Total)
}

// ecc judges the error correction of a GPU's memory.
func ecc(g wire.GPU) finding {
	switch e := g.ECC; {
	case e == nil || e.Enabled == nil:
		return unknown("it does not say that it has error correction")
	case !*e.Enabled:
		return failed("error correction is off: nvidia-smi -e 1 turns it on with the next reset")
	case e.UncorrectedVolatile == nil:
		return unknown("it does not say how many errors it counted")
	case *e.UncorrectedVolatile > 0:
		return failed("%d uncorrected errors since the driver was loaded", *e.UncorrectedVolatile)
	}
	return well("on, no uncorrected error")
}

// rows judges what stands in for bad memory.
func rows(g wire.GPU) finding {
	m := g.RemappedRows
	switch {
	case m == nil && g.RetiredPagesPending == nil, m != nil && (m.Pending == nil || m.Failure == nil):
		return unknown("it does not say whether rows of its memory are remapped")
	case m == nil && *g.RetiredPagesPending:
		return failed("bad pages wait for a restart")
	case m == nil:
		return well("no page waits")
	case *m.Failure:
		return failed("a row could not be remapped: the board is to be replaced")
	case *m.Pending:
		return failed("a remapped row waits for a reset")
	}
	return well("no row waits")
}

// pcie judges the links to the CPU. An idle GPU lowers its generation, so that counts under load alone.
func (r *run) pcie() finding {
	width, generation := 0, 0
	known := true
	f := r.each(func(g wire.GPU) finding {
		lanes, most := r.width(g)
		if lanes == nil || most == nil {
			known = false
			return unknown("its link does not say how wide it is")
		}
		width = lowest(width, *lanes)
		if *lanes < *most {
			return failed("%d of %d lanes", *lanes, *most)
		}
		now, best := r.generation(g)
		switch {
		case now == 0 || best == 0 || now < best && r.loaded[g.UUID] == 0:
			known = false
			return well("%d lanes, generation unknown without load", *lanes)
		case now < best:
			generation = lowest(generation, now)
			return failed("generation %d of %d under load", now, best)
		}
		generation = lowest(generation, now)
		return well("%d lanes, generation %d", *lanes, now)
	})
	if width > 0 {
		r.figure("pcie_width", float64(width), "lanes")
	}
	if generation > 0 && known {
		r.figure("pcie_generation", float64(generation), "generation")
	}
	return f
}

func lowest(so, n int) int {
	if so == 0 {
		return n
	}
	return min(so, n)
}

// width is what a link has, and what the card could have: the driver counts a narrow slot as the most that can be.
func (r *run) width(g wire.GPU) (lanes, most *int) {
	if g.PCIe != nil {
		lanes, most = g.PCIe.Width, g.PCIe.WidthMax
	}
	at := host.Address(g.BusID)
	if card := r.lanes(at, "max_link_width"); at != "" && card != nil && (most == nil || *card > *most) {
		most = card
	}
	if lanes == nil && at != "" {
		lanes = r.lanes(at, "current_link_width")
	}
	return lanes, most
}

// generation is that of now, or the best under load, and the best that can be; 0: not known.
func (r *run) generation(g wire.GPU) (now, best int) {
	if g.PCIe == nil || g.PCIe.GenerationMax == nil {
		return 0, 0
	}
	if g.PCIe.Generation != nil {
		now = *g.PCIe.Generation
	}
	return max(now, r.loaded[g.UUID]), *g.PCIe.GenerationMax
}
