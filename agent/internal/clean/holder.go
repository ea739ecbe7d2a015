package clean

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

// holders are the processes that have files of GPUs open. nvidia-smi does not show all of them.
type holders struct {
	host.Tree
	open   map[string][]int  // by the name of the file, such as nvidia0
	minors map[string]string // the file of a GPU of NVIDIA, by its UUID
	hidden int               // processes whose files cannot be seen
}

// monitors are programs of the driver and its monitors, which always have the files of all GPUs open. They count as such only outside of
// containers, and as users of the system: anybody can give a program such a name.
func monitors() []string {
	return []string{"nvidia-persistenced", "nv-hostengine", "dcgm-exporter", "nvidia-smi", "nv-fabricmanager", "nvidia-powerd"}
}

const leastPerson = 1000 // UIDs below are of the system

// holders looks at the files that all processes have open.
func (c Cleaner) holders() holders {
	h := holders{Tree: host.Tree(c.Root), open: map[string][]int{}, minors: map[string]string{}}
	h.readMinors()
	names := h.Names("proc")
	if names == nil {
		h.hidden = 1
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			h.readFiles(pid)
		}
	}
	return h
}

// readMinors finds out which file in /dev belongs to which GPU: its number differs from that of nvidia-smi.
func (h *holders) readMinors() {
	for _, name := range h.Names("proc/driver/nvidia/gpus") {
		uuid, minor := "", ""
		for line := range strings.Lines(h.Text("proc/driver/nvidia/gpus/" + name + "/information")) {
			key, value, _ := strings.Cut(line, ":")
			switch strings.TrimSpace(key) {
			case "GPU UUID":
				uuid = strings.TrimSpace(value)
			case "Device Minor":
				minor = strings.TrimSpace(value)
			}
		}
		if _, err := strconv.ParseUint(minor, 10, 16); err == nil && uuid != "" {
			h.minors[uuid] = "nvidia" + minor
		}
	}
}

// readFiles notes the files of GPUs that a process has open.
func (h *holders) readFiles(pid int) {
	names, err := h.GPUFiles(pid)
	if errors.Is(err, fs.ErrPermission) {
		h.hidden++
	}
	if len(names) == 0 || h.isMonitor(pid) {
		return
	}
	for _, name := range names {
		h.open[name] = append(h.open[name], pid)
	}
}

// isMonitor reports whether a process is one that looks at the GPUs, and does not work on them.
func (h *holders) isMonitor(pid int) bool {
	folder := "proc/" + strconv.Itoa(pid)
	theirs := h.Link(folder + "/ns/pid")
	return slices.Contains(monitors(), filepath.Base(h.Link(folder+"/exe"))) && theirs != "" && theirs == h.Link("proc/self/ns/pid") &&
		h.isSystem(pid)
}

// isSystem reports whether a user of the system runs a process, and no person.
func (h *holders) isSystem(pid int) bool {
	uid := h.See(pid).UID
	return uid >= 0 && uid < leastPerson
}

// of are the processes that have the file of a GPU open. If it is not known which file that is, all files of GPUs count: then it is not
// sure.
func (h *holders) of(g wire.GPU) (all []int, sure bool) {
	own := h.minors[g.UUID]
	kind := "nvidia"
	if g.Vendor == wire.VendorAMD {
		own = h.renderFile(g.BusID)
		kind = "dri/"
	}
	for name, pids := range h.open {
		if name == own || own == "" && strings.HasPrefix(name, kind) {
			all = append(all, pids...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), own != ""
}

// renderFile is the file of a GPU of AMD.
func (h *holders) renderFile(bus string) string {
	for _, name := range h.Names("sys/bus/pci/devices/" + filepath.Base(bus) + "/drm") {
		if strings.HasPrefix(name, "renderD") {
			return "dri/" + name
		}
	}
	return ""
}

// describe names a process for a person: its number, its program and its user. name is what else is known of the program.
func (h *holders) describe(pid int, name string) string {
	seen := h.See(pid)
	text := fmt.Sprintf("process %d", pid)
	if name = cmp.Or(seen.Program, name); name != "" {
		text += " (" + filepath.Base(name) + ")"
	}
	switch {
	case seen.UID < 0:
		return text + ", which cannot be seen from here,"
	case seen.User == strconv.Itoa(seen.UID):
		text += " of the UID " + seen.User
	default:
		text += " of " + seen.User
	}
	if seen.Container != "" {
		text += " in the container " + seen.Container
	}
	return text
}
