package evidence

import (
	"fmt"
	"path/filepath"
	"strings"

	"muster/agent/wire"
)

// vfio is the driver that hands a card to a virtual machine. Then the GPUs' own driver does not see it, and that is no fault.
const vfio = "vfio-pci"

// cards are the GPUs that the bus shows.
func (r *run) cards() (all []wire.PCIDevice) {
	for _, d := range r.facts.PCI {
		if d.IsGPU() {
			all = append(all, d)
		}
	}
	return all
}

func isHandedOver(d wire.PCIDevice) bool { return d.Driver == vfio }

// eachCard judges every GPU that the bus shows.
func (r *run) eachCard(judge func(wire.PCIDevice) finding) finding {
	if r.facts.PCI == nil {
		return unknown("the devices of the bus cannot be read in /%s", devices)
	}
	cards := r.cards()
	if len(cards) == 0 {
		return unknown("the bus shows no GPU")
	}
	var all []finding
	for _, d := range cards {
		f := judge(d)
		if f.state != wire.CheckOK {
			f.saw = d.Address + ": " + f.saw
		}
		all = append(all, f)
	}
	return worst(all, "GPUs")
}

// iommu judges whether a card can be handed over: what else is in its group goes with it, so no driver of the host may hold that.
func (r *run) iommu(d wire.PCIDevice) finding {
	if d.IOMMUGroup == nil {
		return failed("it is in no IOMMU group: turn the IOMMU on in the BIOS, and intel_iommu=on on the kernel's command line")
	}
	members := r.Names(fmt.Sprintf("sys/kernel/iommu_groups/%d/devices", *d.IOMMUGroup))
	if members == nil {
		return unknown("the devices of its IOMMU group %d cannot be read", *d.IOMMUGroup)
	}
	for _, other := range members {
		at := filepath.Join(devices, other)
		driver := r.link(at + "/driver")
		bridge := strings.HasPrefix(r.hex(at+"/class"), "0604")
		if other != d.Address && !bridge && driver != "" && driver != vfio {
			return failed("%s of its IOMMU group %d has the driver %s of the host", other, *d.IOMMUGroup, driver)
		}
	}
	return well("a group of its own")
}

// vfio judges whether a card is handed over.
func (r *run) vfio(d wire.PCIDevice) finding {
	switch {
	case !isHandedOver(d) && d.Driver == "":
		return failed("no driver is bound to it, and not %s", vfio)
	case !isHandedOver(d):
		return failed("it is bound to %s and not to %s", d.Driver, vfio)
	case d.IOMMUGroup == nil || !r.Exists(fmt.Sprintf("dev/vfio/%d", *d.IOMMUGroup)):
		return failed("it is bound to %s, and has no file in /dev/vfio", vfio)
	}
	return well("bound to %s", vfio)
}
