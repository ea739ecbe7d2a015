// Package health finds what is wrong with nodes, by rules, and says it with the next step.
//
// It looks at every heartbeat in memory. A rule opens a finding when what it looks at was bad often and long enough, and closes it when
// that was good often and long enough: a value that flaps does not flap the node. What is not known changes nothing. So nothing is found
// or cured because the gateway was away, or because a heartbeat was left out. Only changes are written.
package health

import (
	"slices"
	"time"

	"muster/agent/wire"
)

// Hold is how often, and for how long, a thing must be seen before it counts.
type Hold struct {
	Looks int
	For   time.Duration
}

// Rule is one thing that can be wrong.
type Rule struct {
	Name     string
	Severity string  // one of wire.Severity*; by a severe finding the node gets no work
	GPU      bool    // each finding is about one GPU
	Meaning  string  // one sentence
	Next     string  // one sentence: what to do
	Topic    string  // of muster help
	Unit     string  // of the limit; "": there is none
	Limit    float64 // bad from here on; 0 where it has a unit: the rule is off until a person sets one
	Below    bool    // bad up to the limit, not from it on
	Most     float64 // the highest limit that can be set
	Ease     float64 // good again so far on the other side of the limit
	Found    Hold
	Cured    Hold
	Word     bool // the node itself says it, in a word of its heartbeat: Counts judges it, before the heartbeat is answered
}

// isUnset is true where nothing is bad before a person has set a limit.
func (r *Rule) isUnset() bool { return r.Unit != "" && r.Limit == 0 }

// moves is true where the rule's findings move a node by Judge.
func (r *Rule) moves() bool { return r.Severity == wire.SeveritySevere && !r.Word }

// Names of the rules. They are reasons of a node's state, and part of the API.
const (
	GPUCountDropped = wire.HealthGPUCountDropped
	ProbeHung       = wire.HealthProbeHung
	ProbeFailed     = wire.HealthProbeFailed
	GPUFault        = wire.HealthGPUFault
	XidCritical     = "xid_critical"
	ECCUncorrected  = "ecc_uncorrected"
	RemapPending    = "remap_pending"
	RemapFailed     = "remap_failed"
	RecoveryAction  = "recovery_action"
	GPUHot          = "gpu_hot"
	GPUThrottled    = "gpu_throttled"
	GPUBusy         = "gpu_busy"
	GPUIdle         = "gpu_idle"
	PowerCable      = "power_cable"
	PCIeSlow        = "pcie_slow"
	NVLinkDown      = "nvlink_down"
	FabricNotReady  = "fabric_not_ready"
	DiskFull        = "disk_full"
	CPUBusy         = "cpu_busy"
	MemoryFull      = "memory_full"
	ClockOff        = "clock_off"
	RenewalOverdue  = "renewal_overdue"
	AgentCrashLoop  = "agent_crash_loop"
	ReleaseEnded    = "release_ended"
	Silent          = "silent"
)

// How long things must hold.
func once() Hold   { return Hold{Looks: 1} }
func minute() Hold { return Hold{Looks: 2, For: time.Minute} }
func steady() Hold { return Hold{Looks: 3, For: time.Minute} }
func long() Hold   { return Hold{Looks: 5, For: 5 * time.Minute} }

// Rules is the table of all rules, in the order in which help shows them.
func Rules() []Rule {
	return slices.Concat(countRules(), gpuRules(), linkRules(), nodeRules())
}

// countRules tell of what a heartbeat says in a word. It moves the node at once. The node comes back only after it was well for some looks.
func countRules() []Rule {
	const topic = "no-telemetry"
	severe := wire.SeveritySevere
	return []Rule{
		{Name: GPUCountDropped, Severity: severe, Word: true, Found: once(), Cured: steady(), Topic: topic,
			Meaning: "Fewer GPUs answer than the node should have.",
			Next:    "Look for a GPU that fell off the bus (Xid 79) and restart the machine; if it is gone for good: muster node gpus NAME N."},
		{Name: ProbeHung, Severity: severe, Word: true, Found: once(), Cured: steady(), Topic: topic,
			Meaning: "nvidia-smi does not come to an end, so the driver may be stuck.",
			Next:    "End the work on the node and restart the machine: a stuck driver rarely comes back by itself."},
		{Name: ProbeFailed, Severity: severe, Word: true, Found: once(), Cured: steady(), Topic: topic,
			Meaning: "nvidia-smi ends with an error, so nothing is known of the GPUs.",
			Next:    "Run nvidia-smi on the node; after an update of the driver, restart the machine or the container."},
		{Name: GPUFault, Severity: severe, Word: true, Found: once(), Cured: steady(), Topic: "gpus",
			Meaning: "A GPU says that it must not be used: it is lost, waits for a reset, or cannot remap its memory.",
			Next:    "Do what the finding says: reset the GPU, restart the machine, or have the board replaced."},
	}
}

func gpuRules() []Rule {
	const topic = "gpus"
	warn, severe := wire.SeverityWarn, wire.SeveritySevere
	return []Rule{
		{Name: XidCritical, Severity: severe, GPU: true, Found: once(), Cured: minute(), Topic: topic, Unit: "hours", Limit: 24, Most: 720,
			Meaning: "The kernel reported an error of a GPU after which its work is not to be trusted. The limit is how long it counts.",
			Next:    "End the work on the node and restart the machine; if it comes again, have the board looked at."},
		{Name: ECCUncorrected, Severity: warn, GPU: true, Found: once(), Cured: minute(), Topic: topic, Unit: "errors", Limit: 1, Most: 1e9,
			Meaning: "A GPU's memory had errors that could not be corrected since the driver was loaded.",
			Next:    "Do not trust results of that time; reset the GPU when it is free, and have the board replaced if the number grows again."},
		{Name: RemapPending, Severity: warn, GPU: true, Found: once(), Cured: minute(), Topic: topic,
			Meaning: "A bad part of a GPU's memory waits to be replaced by a spare one.",
			Next:    "Drain the node and reset the GPU (nvidia-smi --gpu-reset), or restart the machine."},
		{Name: RemapFailed, Severity: severe, GPU: true, Found: once(), Cured: minute(), Topic: topic,
			Meaning: "A bad part of a GPU's memory could not be replaced: the spare parts are used up.",
			Next:    "Have the board replaced."},
		{Name: RecoveryAction, Severity: severe, GPU: true, Found: once(), Cured: minute(), Topic: topic,
			Meaning: "The driver asks for an action before the GPU can be used again.",
			Next:    "End the work on the node and do what the driver asks: reset the GPU or restart the machine."},
		{Name: GPUHot, Severity: warn, GPU: true, Found: steady(), Cured: steady(), Topic: topic, Unit: "C", Limit: 90, Most: 150, Ease: 5,
			Meaning: "A GPU is hot.",
			Next:    "Look at fans, filters and the air of the room; a GPU that gets hotter slows down, then switches off."},
		{Name: GPUThrottled, Severity: warn, GPU: true, Found: long(), Cured: steady(), Topic: topic,
			Meaning: "Heat or the power supply slows a GPU down.",
			Next:    "Look at its temperature and at its power supply; work takes longer until this is mended."},
		{Name: GPUBusy, Severity: warn, GPU: true, Found: long(), Cured: steady(), Topic: "health", Unit: "%", Most: 100, Ease: 5,
			Meaning: "A GPU is used as much as your limit says, at each look.",
			Next:    "Give the work more GPUs, or raise the limit: muster health set gpu_busy."},
		{Name: GPUIdle, Severity: warn, GPU: true, Found: long(), Cured: once(), Topic: "health", Unit: "%", Most: 100, Ease: 1, Below: true,
			Meaning: "A GPU is used no more than your limit says, at each look.",
			Next:    "Give it work, or give the machine back; muster node bill shows what idle GPUs cost."},
	}
}

func linkRules() []Rule {
	const topic = "gpus"
	warn, severe := wire.SeverityWarn, wire.SeveritySevere
	return []Rule{
		{Name: PowerCable, Severity: severe, Found: once(), Cured: minute(), Topic: topic,
			Meaning: "The power cable of a GPU is not attached.",
			Next:    "Switch the machine off and attach the cable."},
		{Name: PCIeSlow, Severity: warn, GPU: true, Found: long(), Cured: steady(), Topic: topic,
			Meaning: "A GPU's PCIe link has fewer lanes than it could have, or is slower although the GPU works.",
			Next:    "Look at the slot and the riser, and whether the GPU sits well; copies to and from it are slow until then."},
		{Name: NVLinkDown, Severity: warn, GPU: true, Found: minute(), Cured: minute(), Topic: topic, Unit: "links", Limit: 1, Most: 64,
			Meaning: "Links between GPUs are down.",
			Next:    "Reset the GPUs that are linked or restart the machine; work on several GPUs is slow or fails until then."},
		{Name: FabricNotReady, Severity: severe, GPU: true, Found: long(), Cured: minute(), Topic: topic,
			Meaning: "A GPU has not joined its NVLink fabric, so work on several GPUs cannot start.",
			Next:    "Look whether nvidia-fabricmanager runs on the node, with the driver's version (systemctl status nvidia-fabricmanager)."},
	}
}

func nodeRules() []Rule {
	warn := wire.SeverityWarn
	return []Rule{
		{Name: DiskFull, Severity: warn, Found: steady(), Cured: steady(), Topic: "health", Unit: "%", Limit: 95, Most: 100, Ease: 3,
			Meaning: "The node's disk is nearly full.",
			Next:    "Remove what is not needed, such as old images; the agent needs room for its updates too."},
		{Name: CPUBusy, Severity: warn, Found: long(), Cured: steady(), Topic: "health", Unit: "%", Most: 10000, Ease: 10,
			Meaning: "The node's processors have as much work as your limit says: 100 % is one program for each of them.",
			Next:    "Look at what runs there; the data for its GPUs may come late."},
		{Name: MemoryFull, Severity: warn, Found: steady(), Cured: steady(), Topic: "health", Unit: "%", Most: 100, Ease: 3,
			Meaning: "The node's memory is as full as your limit says.",
			Next:    "Look at what runs there; when the memory is full, the kernel ends programs."},
		{Name: ClockOff, Severity: warn, Found: steady(), Cured: steady(), Topic: "health", Unit: "seconds", Limit: 30, Most: 86400, Ease: 10,
			Meaning: "The node's clock differs from the gateway's.",
			Next:    "Set it (timedatectl set-ntp true); muster allows for it, but tasks expire by it too, and logs are wrong."},
		{Name: RenewalOverdue, Severity: warn, Found: once(), Cured: once(), Topic: "certificates",
			Meaning: "The node's certificate should have been renewed by now.",
			Next:    "Read the agent's log on the node; when the certificate has expired, the node becomes unavailable."},
		{Name: AgentCrashLoop, Severity: warn, Found: once(), Cured: minute(), Topic: "health", Unit: "crashes", Limit: 3, Most: 1000, Ease: 2,
			Meaning: "The agent on the node ends by itself and is started again and again.",
			Next:    "Read why on the node: journalctl -u muster-agent."},
		{Name: ReleaseEnded, Severity: warn, Found: once(), Cured: once(), Topic: "updates-failing",
			Meaning: "The newest pointer that the node was given is past its end, so it may miss releases.",
			Next: "Sign what muster release status says, and unpin it where it is pinned as it is. " +
				"Where both are done, somebody holds releases back."},
		{Name: Silent, Severity: warn, Found: once(), Cured: once(), Topic: "stale-node", Unit: "minutes", Limit: 10, Most: 43200,
			Meaning: "The node is not heard from any more, but still has a price.",
			Next: "Ask its provider whether it runs; restart it there, or give it back there and then here with muster node retire NAME. " +
				"serve --retire-stale-after does the last step by itself."},
	}
}
