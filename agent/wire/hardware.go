package wire

import "time"

// Hardware is one reading of a node. The parts age on their own: a probe that fails leaves the last GPUs with their old
// Probe.SampledAt, while the host's own figures are always fresh.
type Hardware struct {
	Probe          Probe      `json:"probe"`
	DriverVersion  *string    `json:"driver_version"`
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
}

// States of a probe.
const (
	ProbeOK     = "ok"
	ProbeSlow   = "slow"   // answered, but late
	ProbeHung   = "hung"   // passed its deadline and did not end
	ProbeFailed = "failed" // an error, or some of the expected GPUs missing
	ProbeAbsent = "absent" // no nvidia-smi on this machine
)

// Probe says how the last look at the GPUs went.
type Probe struct {
	State     string     `json:"state"`
	Error     string     `json:"error,omitempty"`
	Since     *time.Time `json:"since"`      // since when it has been in this state
	TookMS    *int64     `json:"took_ms"`    // the last call that ended
	SampledAt *time.Time `json:"sampled_at"` // when the GPU rows were read
}

// Sources of a GPU's memory figures.
const (
	MemoryDevice  = "device"
	MemoryUnified = "unified" // shared with the CPU: the figures are the system's
)

// GPU is one device as nvidia-smi describes it.
type GPU struct {
	Index              int      `json:"index"` // can change at each boot; UUID is what stays
	UUID               string   `json:"uuid"`
	Name               string   `json:"name"`
	BusID              string   `json:"bus_id"`
	MemoryTotalMiB     *int64   `json:"memory_total_mib"`
	MemoryUsedMiB      *int64   `json:"memory_used_mib"`
	MemorySource       string   `json:"memory_source"`
	UtilizationPercent *float64 `json:"utilization_percent"`
	TemperatureCelsius *float64 `json:"temperature_celsius"`
	PowerWatts         *float64 `json:"power_watts"`
	PowerLimitWatts    *float64 `json:"power_limit_watts"`
	MIG                *bool    `json:"mig"`    // null: the device has no such mode
	Health             []string `json:"health"` // what is wrong with it, empty when nothing is known to be
}
