package wire

import (
	"slices"
	"time"
)

// Evidence is what a run of checks found on a node. It is the value ValueEvidence of a TaskNodeCheck.
type Evidence struct {
	Profile string    `json:"profile"` // as the params named it
	BootID  string    `json:"boot_id"` // of the kernel; empty: not known
	At      time.Time `json:"at"`      // by the node's clock
	TookMS  int64     `json:"took_ms"`
	Facts   Facts     `json:"facts"`
	Checks  []Check   `json:"checks"`  // in the order of the params
	Figures []Figure  `json:"figures"` // that the checks measured
}

// Facts are what a machine is made of. A value that could not be read is null or empty, and never 0.
type Facts struct {
	Contained     bool            `json:"contained"` // the agent is in a container: what it sees of the host is not to be relied on
	Vendor        string          `json:"vendor"`    // of the machine, as its DMI says
	Product       string          `json:"product"`
	BIOSVersion   string          `json:"bios_version"`
	DriverVersion string          `json:"driver_version"` // of the GPUs
	PCI           []PCIDevice     `json:"pci"`            // GPUs, switches of theirs and network cards, by address; null: not readable
	Accelerators  []AcceleratorID `json:"accelerators"`   // as the GPUs' driver names them; null: no driver answers
}

// PCIDevice is a card, as /sys/bus/pci/devices shows it.
type PCIDevice struct {
	Address    string `json:"address"` // dddd:bb:dd.f, lower case
	Vendor     string `json:"vendor"`  // four hex digits
	Device     string `json:"device"`  // four hex digits
	Class      string `json:"class"`   // six hex digits
	Driver     string `json:"driver"`  // that is bound to it; empty: none
	Virtual    bool   `json:"virtual"` // a function of another card, and no card
	NUMA       *int   `json:"numa"`
	IOMMUGroup *int   `json:"iommu_group"` // null: the IOMMU is off, or it is not known
	Switch     string `json:"switch"`      // address of the root port above it; empty: not known
	WidthMax   *int   `json:"width_max"`   // lanes
	SpeedMax   string `json:"speed_max"`   // such as 32.0 GT/s PCIe
	Board      string `json:"board"`       // of a network card: its board id
	Firmware   string `json:"firmware"`    // of a network card
}

// Vendors and classes of PCI.
const (
	PCIVendorNVIDIA   = "10de"
	PCIVendorAMD      = "1002"
	PCIVendorMellanox = "15b3"
)

// IsGPU reports whether the card is a GPU that work can be given to: its class is 3D or display, and it is no function of another card.
func (d PCIDevice) IsGPU() bool {
	return !d.Virtual && (d.Vendor == PCIVendorNVIDIA || d.Vendor == PCIVendorAMD) &&
		len(d.Class) == 6 && slices.Contains([]string{"0300", "0302", "0380", "1200"}, d.Class[:4])
}

// IsNVSwitch reports whether the card is a switch between GPUs.
func (d PCIDevice) IsNVSwitch() bool { return d.Vendor == PCIVendorNVIDIA && d.Class == "068000" }

// AcceleratorID is a GPU as its driver names it.
type AcceleratorID struct {
	UUID      string        `json:"uuid"`
	Address   string        `json:"address"` // as that of a PCIDevice; empty: not known
	Name      string        `json:"name"`
	Serial    string        `json:"serial"`     // empty: not known
	Module    *int          `json:"module"`     // its place on an HGX board
	MemoryMiB *int64        `json:"memory_mib"` // null: shared with the CPU, or not known
	Links     *int          `json:"links"`      // NVLinks that it has
	MIG       []MIGInstance `json:"mig"`        // null: not divided, or not known
}

// States of a Check.
const (
	CheckOK      = "ok"
	CheckFailed  = "failed"
	CheckUnknown = "unknown" // could not be looked at; it never counts as ok
)

// Check is one thing that was looked at.
type Check struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Saw   string `json:"saw"` // one line: what was seen, or why nothing was
}

// Names of checks. The agent knows all of them but CheckAsPaid, which the gateway judges by the facts.
const (
	CheckGPUs      = "gpus"      // the driver names each GPU that the bus shows
	CheckDriver    = "driver"    // the GPUs' driver is loaded and answers
	CheckFabric    = "fabric"    // the GPUs have joined their NVLink fabric, where they have one
	CheckNVLink    = "nvlink"    // no link between GPUs is down
	CheckECC       = "ecc"       // memory has error correction, it is on, and no uncorrected error was counted since the boot
	CheckRows      = "rows"      // no remapped row is pending, and none has failed
	CheckPCIe      = "pcie"      // each GPU's link has its full width and generation; under load
	CheckKVM       = "kvm"       // /dev/kvm is there
	CheckIOMMU     = "iommu"     // each GPU is in a group, with no other device that a host's driver holds
	CheckVFIO      = "vfio"      // each GPU is bound to vfio-pci
	CheckOVS       = "ovs"       // Open vSwitch runs
	CheckLibvirt   = "libvirt"   // libvirt runs
	CheckRuntime   = "runtime"   // docker, podman or nerdctl answers
	CheckBareMetal = "baremetal" // the machine is no guest and no container
	CheckDiskRoom  = "disk_room"
	CheckDiskSpeed = "disk_speed"
	CheckDownload  = "download"    // from the gateway
	CheckUpload    = "upload"      // to the gateway
	CheckProgram   = "gpu_program" // the operator's container ended with 0
	CheckAsPaid    = "as_paid"     // number, model and memory of the GPUs are what the token or the offer says
)

// HostChecks returns the checks that a profile can ask for.
func HostChecks() []string {
	return []string{CheckGPUs, CheckDriver, CheckFabric, CheckNVLink, CheckECC, CheckRows, CheckPCIe, CheckKVM, CheckIOMMU, CheckVFIO,
		CheckOVS, CheckLibvirt, CheckRuntime, CheckBareMetal, CheckDiskRoom}
}

// AcceptChecks returns the checks of a machine that somebody else owns, besides those of its profile.
func AcceptChecks() []string {
	return []string{CheckAsPaid, CheckGPUs, CheckDriver, CheckFabric, CheckNVLink, CheckECC, CheckRows, CheckPCIe, CheckDiskRoom,
		CheckDiskSpeed, CheckDownload, CheckUpload, CheckProgram}
}

// Figure is a number that a check measured.
type Figure struct {
	Name  string  `json:"name"` // such as disk_write
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // such as MB/s
}

// ValueEvidence is the name of the value of a TaskNodeCheck: an Evidence.
const ValueEvidence = "evidence"

// ValueCleaning is the name of the value of a TaskGPUClean: a Cleaning.
const ValueCleaning = "cleaning"

// NodeCheck are the params of TaskNodeCheck. The task's value is ValueEvidence. The task completes even if a check failed.
type NodeCheck struct {
	Profile string   `json:"profile,omitempty" about:"the profile that asks for the checks; it is noted in the evidence"`
	Checks  []string `json:"checks" required:"" about:"what to look at"`
	Image   string   `json:"image,omitempty" about:"for the check gpu_program: HOST/PATH@sha256:DIGEST of a container that gets all GPUs"`
	Command []string `json:"command,omitempty" about:"what to run in it, such as dcgmi diag -r 1"`
	Login   string   `json:"login,omitempty" about:"name of a secret NAME:TOKEN that the image's registry takes"`
	TaskTime
}

// GPUClean are the params of TaskGPUClean. The task's value is ValueCleaning. The task completes even if something is left.
type GPUClean struct {
	Allocation string   `json:"allocation" required:"" about:"the allocation that has ended; its containers and programs go"`
	GPUs       []string `json:"gpus" required:"" about:"UUIDs of the GPUs that must be clean after it"`
	Users      []string `json:"users,omitempty" about:"accounts that muster made for the allocation; they go with their home directories"`
	TaskTime
}

// Cleaning is what is left on the GPUs of an allocation that has ended.
type Cleaning struct {
	Clean   bool     `json:"clean"`   // everything was looked at, and nothing is left
	Removed []string `json:"removed"` // what went, one line each
	Left    []Left   `json:"left"`    // what is in the way
}

// Left is one thing that keeps a GPU from being clean.
type Left struct {
	GPU  string `json:"gpu"`  // UUID; empty: the machine, so each of the GPUs
	What string `json:"what"` // one line: what is left, or what could not be looked at
	Next string `json:"next"` // one line: what to do
}

// Limits of evidence and of cleaning.
const (
	MaxChecks = 32  // of one evidence
	MaxPCI    = 256 // devices of one evidence
	MaxSaw    = 512 // bytes of what a check saw
	MaxLeft   = 64  // of one cleaning
)
