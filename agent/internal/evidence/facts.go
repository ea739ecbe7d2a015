package evidence

import (
	"path/filepath"
	"strconv"
	"strings"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

const (
	devices    = "sys/bus/pci/devices"
	maxDevices = 128 // of the bus that are told: all values of a task have to fit
)

// tree are the files of the machine.
type tree struct{ host.Tree }

// short is the text of a file for a fact, as one line.
func (t tree) short(name string, most int) string { return wire.Plain(t.Text(name), most) }

// number is a whole number from least on; nil: the file holds none.
func (t tree) number(name string, least int) *int {
	n, err := strconv.Atoi(t.Text(name))
	if err != nil || n < least {
		return nil
	}
	return &n
}

// hex is a number as /sys writes it, without its 0x.
func (t tree) hex(name string) string { return strings.ToLower(strings.TrimPrefix(t.Text(name), "0x")) }

// link is the last part of what a link leads to.
func (t tree) link(name string) string {
	if target := t.Link(name); target != "" {
		return filepath.Base(target)
	}
	return ""
}

// read reads what the kernel says of the machine.
func (t tree) read() wire.Facts {
	return wire.Facts{
		Vendor:      t.short("sys/class/dmi/id/sys_vendor", wire.MaxText),
		Product:     t.short("sys/class/dmi/id/product_name", wire.MaxText),
		BIOSVersion: t.short("sys/class/dmi/id/bios_version", wire.MaxText),
		PCI:         t.pci(),
	}
}

// pci are the GPUs, their switches and the network cards. Functions of other cards come last. Those of network cards are left out:
// there may be hundreds, and they come and go.
func (t tree) pci() []wire.PCIDevice {
	addresses := t.Names(devices)
	if addresses == nil {
		return nil
	}
	cards := t.networkCards()
	all := []wire.PCIDevice{}
	var virtual []wire.PCIDevice
	for _, address := range addresses {
		class := t.hex(filepath.Join(devices, address, "class"))
		network := strings.HasPrefix(class, "02")
		if !network && !strings.HasPrefix(class, "03") && !strings.HasPrefix(class, "12") && class != "068000" {
			continue
		}
		d := t.device(address, class)
		card := cards[address]
		d.Board = card.Board
		d.Firmware = card.Firmware
		gpu := d
		gpu.Virtual = false
		if d.Valid() && (network && !d.Virtual || gpu.IsGPU() || d.IsNVSwitch()) {
			if d.Virtual {
				virtual = append(virtual, d)
			} else {
				all = append(all, d)
			}
		}
	}
	all = append(all, virtual...)
	return all[:min(len(all), maxDevices)]
}

func (t tree) device(address, class string) wire.PCIDevice {
	at := filepath.Join(devices, address)
	d := wire.PCIDevice{
		Address: address, Class: class, Vendor: t.hex(at + "/vendor"), Device: t.hex(at + "/device"), Driver: t.link(at + "/driver"),
		Virtual: t.Exists(at + "/physfn"), NUMA: t.number(at+"/numa_node", 0), Switch: t.rootPort(address),
		WidthMax: t.lanes(address, "max_link_width"), SpeedMax: t.short(at+"/max_link_speed", wire.MaxLabelValue),
	}
	if strings.HasPrefix(d.SpeedMax, "Unknown") {
		d.SpeedMax = ""
	}
	if group, err := strconv.Atoi(t.link(at + "/iommu_group")); err == nil {
		d.IOMMUGroup = &group
	}
	return d
}

// lanes are those of a link; nil: not known, for which the kernel writes 0 or 255.
func (t tree) lanes(address, file string) *int {
	n := t.number(filepath.Join(devices, address, file), 1)
	if n != nil && *n > 64 {
		return nil
	}
	return n
}

// rootPort is the first device on the way from the CPU to a device: what is below one port is near to each other.
func (t tree) rootPort(address string) string {
	real, err := filepath.EvalSymlinks(t.Path(filepath.Join(devices, address)))
	if err != nil {
		return ""
	}
	_, way, _ := strings.Cut(real, "/sys/devices/")
	for part := range strings.SplitSeq(way, "/") {
		if wire.PCIAddress(part) && part != address {
			return part
		}
	}
	return ""
}

// networkCards are board and firmware of the cards with RDMA, by their addresses.
func (t tree) networkCards() map[string]wire.PCIDevice {
	const folder = "sys/class/infiniband"
	all := map[string]wire.PCIDevice{}
	for _, name := range t.Names(folder) {
		at := filepath.Join(folder, name)
		real, err := filepath.EvalSymlinks(t.Path(at + "/device"))
		if err == nil {
			all[filepath.Base(real)] = wire.PCIDevice{Board: t.short(at+"/board_id", wire.MaxLabelValue),
				Firmware: t.short(at+"/fw_ver", wire.MaxLabelValue)}
		}
	}
	return all
}
