// Package condition has the one table of what can be wrong with a fleet, and the one engine that says when a thing begins and ends to be
// wrong.
//
// A condition has one name and one text. It may be found on a node by a rule (package health), be a reason of a node's state, and make an
// alert (package alert). All of them, help and the console use the words of the table.
package condition

import (
	"cmp"
	"strings"
	"time"

	"muster/agent/wire"
)

// Hold is how often, and for how long, a thing must be seen before it counts.
type Hold struct {
	Looks int
	For   time.Duration
}

// Condition is one thing that can be wrong.
type Condition struct {
	Name     string
	Severity string // one of wire.Severity*; by a severe finding the node gets no work
	Meaning  string // one sentence
	Next     string // one sentence: what to do; NAME stands for the subject's name
	Topic    string // of muster help
	Fleet    bool   // it is about no single node

	// How a rule of health finds it.
	Found Hold    // so long it must be bad; zero: no rule looks for it
	Cured Hold    // so long it must be good
	Word  bool    // the node itself says it, in a word of its heartbeat
	GPU   bool    // each finding is about one GPU
	Unit  string  // of the limit; "": there is none
	Limit float64 // bad from here on; 0 where it has a unit: nothing is found before a person sets one
	Below bool    // bad up to the limit, not from it on
	Most  float64 // the highest limit that can be set
	Ease  float64 // good again so far on the other side of the limit

	// How people are told of it.
	Told Hold // so long it must be bad before it fires; zero: it makes no alert of its own
	Over Hold // so long it must be good before it is resolved
}

// About puts the subject's name into the text of a Next; "": its name is not known.
func About(name, next string) string { return strings.ReplaceAll(next, subject, cmp.Or(name, subject)) }

// subject stands for the subject's name.
const subject = "NAME"

// IsFound reports whether a rule looks for the condition.
func (c *Condition) IsFound() bool { return c.Found.Looks > 0 }

// IsTold reports whether the condition makes an alert of its own.
func (c *Condition) IsTold() bool { return c.Told.Looks > 0 }

// IsUnset reports whether nothing is bad until a person has set a limit.
func (c *Condition) IsUnset() bool { return c.Unit != "" && c.Limit == 0 }

// Names of conditions, beside those that package wire has. They are part of the API.
const (
	GPUCountDropped    = wire.HealthGPUCountDropped
	ProbeHung          = wire.HealthProbeHung
	ProbeFailed        = wire.HealthProbeFailed
	GPUFault           = wire.HealthGPUFault
	XidCritical        = "xid_critical"
	ECCUncorrected     = "ecc_uncorrected"
	RemapPending       = "remap_pending"
	RemapFailed        = "remap_failed"
	RecoveryAction     = "recovery_action"
	GPUHot             = "gpu_hot"
	GPUThrottled       = "gpu_throttled"
	GPUBusy            = "gpu_busy"
	GPUIdle            = "gpu_idle"
	PowerCable         = wire.CausePowerCable
	PCIeSlow           = "pcie_slow"
	NVLinkDown         = "nvlink_down"
	FabricNotReady     = "fabric_not_ready"
	DiskFull           = "disk_full"
	CPUBusy            = "cpu_busy"
	MemoryFull         = "memory_full"
	ClockOff           = "clock_off"
	RenewalOverdue     = "renewal_overdue"
	AgentCrashLoop     = "agent_crash_loop"
	ReleaseEnded       = "release_ended"
	NodeStale          = "node_stale"
	IdentityConflict   = wire.ReasonConflict
	CertificateExpired = wire.ReasonExpired
	Suspended          = wire.ReasonSuspended
	NodeUnavailable    = "node_unavailable"
	FindingSevere      = "finding_severe"
	NodeWarning        = "node_warning"
	RolloutHalted      = "rollout_halted"
	TokenMisuse        = "token_misuse"
	LogShippingFailing = "log_shipping_failing"
	GatewayCannotWrite = "gateway_cannot_write"
	GatewayAlone       = "gateway_alone"
	StoreNodeSilent    = "store_node_silent"
	GPUUnclaimed       = "gpu_unclaimed"
	GPUForeign         = "gpu_foreign"
	AllocationIdle     = "allocation_idle"
	CleanupBlocked     = "cleanup_blocked"
	AllocationEnding   = "allocation_ending"
)

// Named finds a condition by its name; nil: this version has no condition of that name.
func Named(name string) *Condition {
	all := All()
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}
