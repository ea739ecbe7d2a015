package wire

import (
	"slices"
	"time"
)

// Hardware is one reading of a node. The parts age on their own: a probe that fails leaves the last GPUs with their old
// Probe.SampledAt, while the host's own figures are always fresh.
type Hardware struct {
	Probe          Probe      `json:"probe"`
	DriverVersion  *string    `json:"driver_version"`
	CUDAVersion    *string    `json:"cuda_version"` // the newest that NVIDIA's driver offers; null: not known
	GPUsExpected   *int       `json:"gpus_expected"`
	GPUs           []GPU      `json:"gpus"`
	CPUs           *int       `json:"cpus"`
	MemoryTotalMiB *int64     `json:"memory_total_mib"`
	MemoryUsedMiB  *int64     `json:"memory_used_mib"`
	DiskTotalMiB   *int64     `json:"disk_total_mib"`
	DiskUsedMiB    *int64     `json:"disk_used_mib"`
	Load1          *float64   `json:"load1"`
	Kernel         *string    `json:"kernel"`
	BootTime       *time.Time `json:"boot_time"`
	Xids           *Xids      `json:"xids"`           // what the kernel said about GPUs; null: an older agent
	Runs           []Run      `json:"runs,omitempty"` // programs that tasks have started, the newest last
}

// States of a probe.
const (
	ProbeOK     = "ok"
	ProbeSlow   = "slow"   // answered, but late
	ProbeHung   = "hung"   // passed its deadline and did not end
	ProbeFailed = "failed" // an error, or some of the expected GPUs missing
	ProbeAbsent = "absent" // no nvidia-smi on this machine, and no AMD GPU
)

// CausePowerCable is the Cause of a probe that found a GPU whose external power cable is not attached.
const CausePowerCable = "power_cable"

// Probe says how the last look at the GPUs went.
type Probe struct {
	State     string     `json:"state"`
	Error     string     `json:"error,omitempty"`
	Cause     string     `json:"cause,omitempty"` // of the error, where a rule goes by it: CausePowerCable; empty: no such cause
	Since     *time.Time `json:"since"`           // since when it has been in this state
	TookMS    *int64     `json:"took_ms"`         // the last call that ended
	SampledAt *time.Time `json:"sampled_at"`      // when the GPU rows were read

	IntervalSeconds *float64 `json:"interval_seconds"` // between two looks; rows that are much older are not of now
}

// Sources of a GPU's memory figures.
const (
	MemoryDevice  = "device"
	MemoryUnified = "unified" // shared with the CPU: the figures are the system's
)

// Vendors of a GPU.
const (
	VendorNVIDIA = "nvidia"
	VendorAMD    = "amd"
)

// GPU is one device as nvidia-smi or the AMD driver describes it. A value that this device or this driver does not say is null, and so is a
// whole group.
type GPU struct {
	Index                     int      `json:"index"` // can change at each boot; UUID is what stays
	UUID                      string   `json:"uuid"`
	Name                      string   `json:"name"`
	BusID                     string   `json:"bus_id"`
	Vendor                    string   `json:"vendor,omitempty"`   // empty: an older agent, which sees GPUs of NVIDIA alone
	ComputeCapability         *string  `json:"compute_capability"` // such as 9.0
	MemoryTotalMiB            *int64   `json:"memory_total_mib"`
	MemoryUsedMiB             *int64   `json:"memory_used_mib"`
	MemoryFreeMiB             *int64   `json:"memory_free_mib"`     // used and free are less than total: some is reserved
	MemoryReservedMiB         *int64   `json:"memory_reserved_mib"` // by the driver and the firmware
	MemorySource              string   `json:"memory_source"`
	UtilizationPercent        *float64 `json:"utilization_percent"`         // of the last second or less: time in which a kernel ran
	MemoryUtilizationPercent  *float64 `json:"memory_utilization_percent"`  // time in which memory was read or written; not how full it is
	EncoderUtilizationPercent *float64 `json:"encoder_utilization_percent"` // of video
	DecoderUtilizationPercent *float64 `json:"decoder_utilization_percent"`
	TemperatureCelsius        *float64 `json:"temperature_celsius"`
	MemoryTemperatureCelsius  *float64 `json:"memory_temperature_celsius"`
	FanPercent                *float64 `json:"fan_percent"` // of full speed, which some fans exceed: at most 200
	PowerWatts                *float64 `json:"power_watts"`
	PowerLimitWatts           *float64 `json:"power_limit_watts"`     // that is enforced now
	PowerMaxLimitWatts        *float64 `json:"power_max_limit_watts"` // the highest that the board can be set to
	PerformanceState          *int     `json:"performance_state"`     // 0 (fastest) to 15
	PersistenceMode           *bool    `json:"persistence_mode"`
	Clocks                    *Clocks  `json:"clocks"`
	PCIe                      *PCIe    `json:"pcie"`
	ECC                       *ECC     `json:"ecc"`
	RemappedRows              *Remaps  `json:"remapped_rows"`         // Ampere and newer
	RetiredPagesPending       *bool    `json:"retired_pages_pending"` // before Ampere: bad memory pages that wait for a restart
	RecoveryAction            *string  `json:"recovery_action"`       // that the driver wants: none, reset, reboot, drain_p2p...
	Fabric                    *Fabric  `json:"fabric"`
	NVLinks                   *NVLinks `json:"nvlinks"` // null: not known, or the GPU has none
	MIG                       *bool    `json:"mig"`     // null: the device has no such mode

	MIGInstances []MIGInstance `json:"mig_instances"` // null: not known; empty: none
	Processes    *Processes    `json:"processes"`     // that compute; null: not known, as where a container hides them

	Health []string `json:"health"` // what is wrong with it, empty when nothing is known to be
}

// IsDivided reports whether the GPU is known to be divided (MIG).
func (g GPU) IsDivided() bool { return g.MIG != nil && *g.MIG }

// Clocks is how fast a GPU runs, and what holds it back.
type Clocks struct {
	SMMHz     *int64   `json:"sm_mhz"`
	MemoryMHz *int64   `json:"memory_mhz"`
	Reasons   []string `json:"reasons"` // what sets the clocks now: gpu_idle, sw_power_cap, hw_slowdown...; null: not known
}

// PCIe is a GPU's link. An idle GPU lowers its generation to save power.
type PCIe struct {
	Generation    *int `json:"generation"`
	GenerationMax *int `json:"generation_max"` // of this GPU in this slot
	Width         *int `json:"width"`          // lanes
	WidthMax      *int `json:"width_max"`
}

// ECC counts memory errors: volatile ones since the driver was loaded, aggregate ones over the life of the board.
type ECC struct {
	Enabled              *bool  `json:"enabled"`
	CorrectedVolatile    *int64 `json:"corrected_volatile"`
	UncorrectedVolatile  *int64 `json:"uncorrected_volatile"`
	CorrectedAggregate   *int64 `json:"corrected_aggregate"`
	UncorrectedAggregate *int64 `json:"uncorrected_aggregate"`
}

// Remaps counts rows of memory that spare rows have replaced.
type Remaps struct {
	Correctable   *int64 `json:"correctable"`   // rows, because of corrected errors
	Uncorrectable *int64 `json:"uncorrectable"` // rows, because of uncorrected errors
	Pending       *bool  `json:"pending"`       // a row waits for a reset of the GPU
	Failure       *bool  `json:"failure"`       // a row could not be remapped: the board is to be replaced
}

// Fabric says whether a GPU has joined its NVLink fabric.
type Fabric struct {
	State  *string `json:"state"`  // nvidia-smi's words: completed, in_progress, not_started
	Status *string `json:"status"` // once completed: success, or why not
}

// NVLinks counts a GPU's links to other GPUs. It is looked at every few minutes. If all links of a board in a PCIe slot are down,
// there is mostly no bridge on it, and nothing is wrong.
type NVLinks struct {
	Total *int `json:"total"`
	Down  *int `json:"down"` // null: nvidia-smi said something else of one of them
}

// MIGInstance is one part of a GPU that is divided.
type MIGInstance struct {
	Profile string `json:"profile"` // such as 1g.10gb
	UUID    string `json:"uuid"`
}

// Processes are the processes that compute on a GPU or on its MIG instances. The agent looks at them every few minutes.
type Processes struct {
	Count         *int   `json:"count"`
	MemoryUsedMiB *int64 `json:"memory_used_mib"` // by all of them

	At   time.Time    `json:"at,omitzero"`    // when they were looked at; zero where there is none
	List []GPUProcess `json:"list,omitempty"` // at most MostProcesses, those with the most memory first
}

// Limits of a list of processes.
const (
	MostProcesses  = 16 // of one GPU
	MaxProcessText = 64 // bytes of each text
)

// GPUProcess is one process. A value that the agent cannot see is empty, for example of a process in another PID namespace. Its arguments
// and its environment may hold secrets: nobody reads them.
type GPUProcess struct {
	PID        int    `json:"pid"`
	User       string `json:"user,omitempty"`       // the name, or the number where it has none
	Program    string `json:"program,omitempty"`    // its file's name
	Container  string `json:"container,omitempty"`  // the first 12 digits of its id, or its name with LXC; empty: none, or not known
	MemoryMiB  *int64 `json:"memory_mib"`           // null: not said
	Allocation string `json:"allocation,omitempty"` // that it works for; empty: none, or not known
}

// States of what the kernel said.
const (
	KernelRead         = "ok"
	KernelNotAvailable = "not_available" // its log cannot be read here, so nothing is known
)

// Xids is what the kernel's log said about GPUs since the boot of the machine: at most MaxXids events, the oldest first. In a container
// that may read its host's log, events of other containers' GPUs are among them: they have no UUID.
type Xids struct {
	State  string `json:"state"`
	Error  string `json:"error,omitempty"` // why the log cannot be read
	Events []Xid  `json:"events"`
}

// Kinds of a Xid.
const (
	XidReport     = "xid"             // NVIDIA's driver reports an error; Code says which
	XidBusLost    = "bus_lost"        // a GPU has fallen off the bus; Code is 79, also if the driver named no Xid
	XidPowerCable = "power_cable"     // a GPU's external power cable is not attached
	XidGPUReset   = "gpu_reset"       // AMD's driver resets a GPU, because it hung
	XidRAS        = "ras_uncorrected" // AMD's driver counted uncorrected errors of memory or of another block
)

// Xid is one event of the kernel's log. Its At stays the same in all readings of one boot, so that nobody takes an old one for a new one.
type Xid struct {
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"`
	BusID string    `json:"bus_id"` // as the GPU's row has it; where no row fits, as the kernel wrote it; empty: not named
	UUID  string    `json:"uuid"`   // empty: it may be another container's GPU
	Code  *int      `json:"code"`   // of NVIDIA's Xids; null: the event has none
	Text  string    `json:"text"`   // the kernel's line, cut and fit for a screen
}

// IsCritical reports whether a GPU's work is not to be trusted after this error: its memory, its bus, its links or its firmware failed.
func (x Xid) IsCritical() bool {
	switch x.Kind {
	case XidBusLost, XidGPUReset, XidRAS:
		return true
	case XidReport:
		return x.Code != nil && slices.Contains([]int{48, 62, 64, 74, 79, 95, 119, 120}, *x.Code)
	}
	return false
}
