package slot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/view/hardware"
)

// Digest names what a machine is made of, in 32 hexadecimal digits: the first half of a SHA-256. It changes when a card, a part of a
// divided GPU, a UUID, the size of a memory, a driver or the machine's firmware does. It does not change by a boot, by the order of the
// facts, or by counters and firmware of network cards. Of a container it leaves out the bus, which shows what its host does with the
// cards of others.
func Digest(f wire.Facts) string {
	var lines []string
	if !f.Contained {
		for _, d := range f.PCI {
			if !d.Virtual {
				lines = append(lines, fmt.Sprintf("pci %q %q %q %q %s", d.Address, d.Vendor, d.Device, d.Driver, number(d.IOMMUGroup)))
			}
		}
	}
	for _, a := range f.Accelerators {
		lines = append(lines, fmt.Sprintf("gpu %q %q %q %s %t", a.UUID, hardware.Address(a.Address), a.Name, number(a.MemoryMiB), a.MIG != nil))
		for _, m := range a.MIG {
			lines = append(lines, fmt.Sprintf("mig %q %q %q", a.UUID, m.UUID, m.Profile))
		}
	}
	slices.Sort(lines)
	lines = append(lines, fmt.Sprintf("%t %q %q %q %q", f.Contained, f.Vendor, f.Product, f.BIOSVersion, f.DriverVersion))
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16])
}

// number writes what may be unknown, which is not 0.
func number[T int | int64](n *T) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

// Recall completes the present facts by earlier ones. No driver on the host names a card that is bound to vfio-pci, so its UUID and its
// place on the board are those that were seen at this address before. A card of another kind at the address is not taken for it. Another
// card of the same kind cannot be told from it, as long as no driver names it.
func Recall(now, before wire.Facts) wire.Facts {
	for _, d := range now.PCI {
		_, isNamed := at(d.Address, now.Accelerators)
		earlier, wasNamed := at(d.Address, before.Accelerators)
		isSame := slices.ContainsFunc(before.PCI, func(b wire.PCIDevice) bool {
			return b.Address == d.Address && b.Vendor == d.Vendor && b.Device == d.Device
		})
		if hardware.PassedOn(d) && !isNamed && wasNamed && isSame {
			earlier.MIG = nil // vfio-pci passes on whole cards
			now.Accelerators = append(slices.Clip(now.Accelerators), earlier)
		}
	}
	return now
}

// at finds the GPU at an address.
func at(address string, all []wire.AcceleratorID) (found wire.AcceleratorID, ok bool) {
	i := slices.IndexFunc(all, func(a wire.AcceleratorID) bool { return hardware.Address(a.Address) == address })
	if i < 0 {
		return found, false
	}
	return all[i], true
}

// Missing says what a profile asks for and the evidence does not show, one line each. What is unknown is not shown. A profile that wants
// an acceptance asks for the checks of it too: as paid, which the gateway judges, and all others as the evidence has them. The GPU
// program counts where one was asked for: a node may have no runtime for it.
func Missing(p api.Profile, e wire.Evidence, asPaid wire.Check) []string {
	asked := p.Checks
	if p.Acceptance {
		asked = slices.Concat(asked, wire.AcceptChecks())
	}
	lines := []string{}
	for i, name := range asked {
		if slices.Contains(asked[:i], name) {
			continue
		}
		seen := named(e.Checks, name)
		switch {
		case name == wire.CheckAsPaid:
			seen = named([]wire.Check{asPaid}, name)
		case name == wire.CheckProgram && len(seen) == 0:
			continue
		}
		if line := lacks(name, seen); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func named(all []wire.Check, name string) (found []wire.Check) {
	for _, c := range all {
		if c.Name == name {
			found = append(found, c)
		}
	}
	return found
}

// lacks says why a check does not count; "": it does.
func lacks(name string, seen []wire.Check) string {
	if len(seen) == 0 {
		return name + ": was not looked at"
	}
	for _, c := range seen {
		switch {
		case c.State == wire.CheckFailed:
			return strings.TrimSuffix(name+" failed: "+wire.OneLine(c.Saw, wire.MaxSaw), ": ")
		case c.State != wire.CheckOK:
			return strings.TrimSuffix(name+" is unknown: "+wire.OneLine(c.Saw, wire.MaxSaw), ": ")
		}
	}
	return ""
}
