package amd

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"

	"muster/agent/wire"
)

const (
	vendorID  = "0x1002"
	driver    = "amdgpu"
	sleeping  = "suspended"
	errorPace = 5 * time.Minute // between two looks at the counts of errors: the driver logs what is asked of it
	maxName   = 150             // bytes
)

// Bounds of what is taken for a measurement.
const (
	maxPercent = 100
	maxCelsius = 200
	maxWatts   = 20_000
	maxMHz     = 100_000
)

// reader reads the devices, and remembers of each what is looked at rarely.
type reader struct {
	root         folder
	now          func() time.Time
	systemMemory func() (total, used *int64)
	seen         map[string]*memory // by address of the bus
}

// memory is what is known of one device from earlier looks.
type memory struct {
	name    string
	unified *bool // nil: not known yet
	ecc     *wire.ECC
	eccAt   time.Time
}

func newReader(root string, now func() time.Time, systemMemory func() (total, used *int64)) *reader {
	if systemMemory == nil {
		systemMemory = func() (total, used *int64) { return nil, nil }
	}
	return &reader{folderAt(root), now, systemMemory, map[string]*memory{}}
}

// all reads every device that its driver serves, and that this machine or container may use.
func (r *reader) all() []wire.GPU {
	gpus := []wire.GPU{}
	for _, card := range r.root.within("sys/class/drm/card*") {
		device := folderAt(filepath.Join(card, "device"))
		if strings.Contains(filepath.Base(card), "-") || device.Text("vendor") != vendorID || device.entry("uevent", "DRIVER") != driver {
			continue
		}
		if r.given(device) && len(gpus) < wire.MaxGPUs {
			gpus = append(gpus, r.device(device))
		}
	}
	sort.Slice(gpus, func(i, j int) bool { return gpus[i].BusID < gpus[j].BusID })
	for i := range gpus {
		gpus[i].Index = i
	}
	return gpus
}

// given reports whether the device has a file in /dev. A container sees all devices of its host in /sys, and gets some of them.
func (r *reader) given(device folder) bool {
	return slices.ContainsFunc(device.within("drm/*"), func(node string) bool { return r.root.Exists("dev/dri/" + filepath.Base(node)) })
}

// device reads one device.
func (r *reader) device(d folder) wire.GPU {
	bus := plain(d.entry("uevent", "PCI_SLOT_NAME"))
	m := r.seen[bus]
	if m == nil {
		m = &memory{}
		r.seen[bus] = m
	}
	m.name = cmp.Or(m.name, r.name(d))
	g := wire.GPU{
		UUID: identity(d, bus), Name: m.name, BusID: bus, Vendor: wire.VendorAMD, MemorySource: wire.MemoryDevice, Health: []string{},
		MIGInstances: []wire.MIGInstance{},
	}
	g.MemoryTotalMiB = d.mebibytes("mem_info_vram_total")
	if d.Text("power/runtime_status") != sleeping { // to read the rest would wake it
		r.live(d, m, &g)
	}
	if m.unified != nil && *m.unified {
		g.MemorySource = wire.MemoryUnified
		g.MemoryTotalMiB, g.MemoryUsedMiB = r.systemMemory()
		return g
	}
	free(&g)
	return g
}

// free drops figures of memory that cannot be, and works out what is free.
func free(g *wire.GPU) {
	if g.MemoryTotalMiB == nil || *g.MemoryTotalMiB == 0 {
		g.MemoryTotalMiB = nil
		g.MemoryUsedMiB = nil
		return
	}
	if g.MemoryUsedMiB == nil || *g.MemoryUsedMiB > *g.MemoryTotalMiB {
		g.MemoryUsedMiB = nil
		return
	}
	g.MemoryFreeMiB = new(*g.MemoryTotalMiB - *g.MemoryUsedMiB)
}

// identity is the UUID that AMD's tools print. A device without one is named by its address.
func identity(d folder, bus string) string {
	id, err := strconv.ParseUint(strings.TrimPrefix(d.Text("unique_id"), "0x"), 16, 64)
	if err != nil || id == 0 || id == 1<<64-1 {
		return "PCI-" + bus
	}
	return fmt.Sprintf("GPU-%016x", id)
}

// name is the product's name: that of the board, or the one that AMD's list has for the chip, or its number.
func (r *reader) name(d folder) string {
	if name := plain(d.Text("product_name")); name != "" && !strings.EqualFold(name, "n/a") {
		return name
	}
	id := d.entry("uevent", "PCI_ID")
	_, chip, _ := strings.Cut(id, ":")
	revision := strings.TrimPrefix(d.Text("revision"), "0x")
	for _, list := range []string{"usr/share/libdrm/amdgpu.ids", "opt/amdgpu/share/libdrm/amdgpu.ids"} {
		for line := range strings.Lines(r.root.Text(list)) {
			parts := strings.SplitN(line, ",", 3)
			if len(parts) == 3 && strings.EqualFold(strings.TrimSpace(parts[0]), chip) && strings.EqualFold(strings.TrimSpace(parts[1]), revision) {
				return plain(parts[2])
			}
		}
	}
	return plain("AMD GPU " + strings.ToLower(id))
}

// live reads what changes.
func (r *reader) live(d folder, m *memory, g *wire.GPU) {
	g.MemoryUsedMiB = d.mebibytes("mem_info_vram_used")
	g.UtilizationPercent = d.scaled("gpu_busy_percent", 1, maxPercent)
	g.MemoryUtilizationPercent = d.scaled("mem_busy_percent", 1, maxPercent)
	if sensors := d.within("hwmon/hwmon*"); len(sensors) > 0 {
		readSensors(folderAt(sensors[0]), g)
	}
	readClocks(d, g)
	readLink(d, g)
	if m.unified == nil {
		m.unified = unified(d, m.name)
	}
	if m.eccAt.IsZero() || r.now().Sub(m.eccAt) >= errorPace {
		m.eccAt = r.now()
		m.ecc = readErrors(d)
	}
	g.ECC = m.ecc
	if m.ecc != nil && m.ecc.UncorrectedVolatile != nil && *m.ecc.UncorrectedVolatile > 0 {
		g.Health = append(g.Health, fmt.Sprintf("ecc_uncorrected:%d", *m.ecc.UncorrectedVolatile))
	}
}

// unified reports whether the device shares the memory of the processors. The header of the driver's table of metrics says for which kind
// of chip it is: 1 for boards, more for processors with a GPU. The MI300A has the table of a board. It is nil if that cannot be read.
func unified(d folder, name string) *bool {
	shared := strings.Contains(strings.ToUpper(name), "MI300A")
	table := d.Bytes("gpu_metrics")
	const format = 2 // place of its revision, after two bytes of length
	if len(table) <= format && !shared {
		return nil
	}
	shared = shared || table[format] > 1
	return &shared
}

// plain makes a text of the driver fit for a screen, and not too long.
func plain(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
	return text[:min(len(text), maxName)]
}
