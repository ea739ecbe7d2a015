package condition

import (
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/api/providers"
)

// How long things must hold.
func once() Hold   { return Hold{Looks: 1} }
func short() Hold  { return lasts(15 * time.Second) }
func minute() Hold { return Hold{Looks: 2, For: time.Minute} }
func steady() Hold { return Hold{Looks: 3, For: time.Minute} }
func long() Hold   { return Hold{Looks: 5, For: 5 * time.Minute} }

// listed is for what stands in the list of processes: agents look at that every five minutes, and a process may have ended since.
func listed() Hold { return Hold{Looks: 3, For: 6 * time.Minute} }

// lasts is for what is looked at every few seconds.
func lasts(d time.Duration) Hold { return Hold{Looks: 1, For: d} }

// All returns the table of all conditions, in the order in which help shows them. If a row goes, a migration of the store has to drop its
// findings, settings, alerts and reasons.
func All() []Condition {
	return slices.Concat(words(), ofGPUs(), ofLinks(), ofNodes(), ofStates(), ofFleet(), ofProviders(), ofMachines())
}

// words are what a heartbeat says in a word. It moves the node at once. The node comes back only after it was well for some looks.
func words() []Condition {
	const topic = "no-telemetry"
	severe := wire.SeveritySevere
	return []Condition{
		{Name: GPUCountDropped, Severity: severe, Word: true, Found: once(), Cured: steady(), Topic: topic,
			Told: short(), Over: short(), // of the finding, which stays until the node was well for a minute
			Meaning: wire.ReasonMeaning(GPUCountDropped),
			Next:    "Look for a GPU that fell off the bus (Xid 79) and restart the machine; if it is gone for good: muster node gpus NAME N."},
		{Name: ProbeHung, Severity: severe, Word: true, Found: once(), Cured: steady(), Topic: topic,
			Meaning: wire.ReasonMeaning(ProbeHung),
			Next:    "End the work on the node and restart the machine: a stuck driver rarely comes back by itself."},
		{Name: ProbeFailed, Severity: severe, Word: true, Found: once(), Cured: steady(), Topic: topic,
			Meaning: wire.ReasonMeaning(ProbeFailed),
			Next:    "Run nvidia-smi on the node; after an update of the driver, restart the machine or the container."},
		{Name: GPUFault, Severity: severe, Word: true, Found: once(), Cured: steady(), Topic: "gpus",
			Meaning: wire.ReasonMeaning(GPUFault),
			Next:    "Do what the finding says: reset the GPU, restart the machine, or have the board replaced."},
	}
}

func ofGPUs() []Condition {
	const topic = "gpus"
	warn, severe := wire.SeverityWarn, wire.SeveritySevere
	return []Condition{
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
		{Name: GPUUnclaimed, Severity: warn, GPU: true, Found: listed(), Cured: minute(), Topic: "placement",
			Meaning: "A process works on a GPU that belongs to no allocation, on a node whose GPUs are allocated.",
			Next:    "Have those who run it allocate the GPU: muster alloc create; or end the process. muster gpu history NODE says since when."},
		{Name: GPUForeign, Severity: warn, GPU: true, Found: minute(), Cured: minute(), Topic: "placement",
			Meaning: "A process of one allocation works on a GPU that belongs to another.",
			Next:    "Ask the owner of the process to end it, or release their allocation: muster alloc ls says who has what."},
		{Name: AllocationIdle, Severity: warn, GPU: true, Found: long(), Cured: once(), Topic: "placement", Unit: "minutes", Limit: 60,
			Most:    43200,
			Meaning: "A GPU is allocated, and nothing works on it.",
			Next:    "Ask its owner, or release it: muster alloc ls says who has it."},
	}
}

func ofLinks() []Condition {
	const topic = "gpus"
	warn, severe := wire.SeverityWarn, wire.SeveritySevere
	return []Condition{
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

func ofNodes() []Condition {
	warn := wire.SeverityWarn
	return []Condition{
		{Name: DiskFull, Severity: warn, Found: steady(), Cured: steady(), Topic: "health", Unit: "%", Limit: 95, Most: 100, Ease: 3,
			Meaning: "The node's disk is nearly full.",
			Next:    "Remove what is not needed, such as old images; the agent needs room for its updates too."},
		{Name: CPUBusy, Severity: warn, Found: long(), Cured: steady(), Topic: "health", Unit: "%", Most: 10000, Ease: 10,
			Meaning: "The node's processors have as much work as your limit says: 100 % is one program for each of them.",
			Next:    "Look at what runs there; the data for its GPUs may come late."},
		{Name: MemoryFull, Severity: warn, Found: steady(), Cured: steady(), Topic: "health", Unit: "%", Most: 100, Ease: 3,
			Meaning: "The node's memory is as full as your limit says.",
			Next:    "Look at what runs there; when the memory is full, the kernel ends programs."},
		{Name: CleanupBlocked, Severity: warn, Found: once(), Cured: once(), Topic: "placement",
			Meaning: "An allocation has ended, and something of it is left on a GPU: the GPU is kept back.",
			Next:    "Do what muster slot ls --node NAME says; the gateway looks again by itself."},
		{Name: ClockOff, Severity: warn, Found: steady(), Cured: steady(), Topic: "health", Unit: "seconds", Limit: 30, Most: 86400, Ease: 10,
			Meaning: "The node's clock differs from the gateway's.",
			Next:    "Set it (timedatectl set-ntp true); muster allows for it, but tasks expire by it too, and logs are wrong."},
		{Name: RenewalOverdue, Severity: warn, Found: once(), Cured: once(), Topic: "certificates", Told: lasts(time.Minute), Over: short(),
			Meaning: "The node's certificate should have been renewed by now.",
			Next:    "Read the agent's log on the node; when the certificate has expired, the node becomes unavailable."},
		{Name: AgentCrashLoop, Severity: warn, Found: once(), Cured: minute(), Topic: "health", Unit: "crashes", Limit: 3, Most: 1000, Ease: 2,
			Meaning: "The agent on the node ends by itself and is started again and again.",
			Next:    "Read why on the node: journalctl -u muster-agent."},
		{Name: ReleaseEnded, Severity: warn, Found: once(), Cured: once(), Topic: "updates-failing",
			Meaning: "The newest pointer that the node was given is past its end, so it may miss releases.",
			Next: "Sign what muster release status says, and unpin it where it is pinned as it is. " +
				"Where both are done, somebody holds releases back."},
		{Name: NodeStale, Severity: warn, Found: once(), Cured: once(), Topic: "stale-node", Unit: "minutes", Limit: 10, Most: 43200,
			Told: lasts(time.Minute), Over: lasts(time.Minute),
			Meaning: "The node is not heard from any more.",
			Next: "Ask its provider whether it runs, and look at its network. Restart it there, or give it back there and then here with " +
				"muster node retire NAME; serve --retire-stale-after does the last step by itself."},
	}
}

// ofStates are reasons of a node's state that no rule finds, and what the alerts sum up.
func ofStates() []Condition {
	warn, severe := wire.SeverityWarn, wire.SeveritySevere
	const show = "See muster node show NAME: it says what is wrong, and what to do."
	return []Condition{
		{Name: IdentityConflict, Severity: severe, Told: once(), Over: short(), Topic: "identity-trouble",
			Meaning: wire.ReasonMeaning(IdentityConflict),
			Next: "Find out which machine is the right one (muster node show NAME lists both) and stop the other, then: " +
				"muster node allow-recovery NAME --fingerprint F."},
		{Name: CertificateExpired, Severity: severe, Topic: "identity-trouble",
			Meaning: wire.ReasonMeaning(CertificateExpired),
			Next:    "Its agent renews it by itself for a while; later: muster node allow-recovery NAME."},
		{Name: Suspended, Severity: severe, Topic: "fleet",
			Meaning: wire.ReasonMeaning(Suspended),
			Next:    "To end that: muster node resume NAME."},
		{Name: NodeUnavailable, Severity: severe, Told: short(), Over: lasts(time.Minute), Topic: "health", Next: show,
			Meaning: "A node cannot be relied on, so it gets no work."},
		{Name: FindingSevere, Severity: severe, Told: short(), Over: lasts(time.Minute), Topic: "health", Next: show,
			Meaning: "A rule of health found something severe on a node that has no work to lose."},
		{Name: NodeWarning, Severity: warn, Told: lasts(5 * time.Minute), Over: lasts(time.Minute), Topic: "health", Next: show,
			Meaning: "A rule of health found something that needs a person, though the node works."},
	}
}

// ofFleet are about no node.
func ofFleet() []Condition {
	warn, severe := wire.SeverityWarn, wire.SeveritySevere
	return []Condition{
		{Name: RolloutHalted, Fleet: true, Severity: severe, Told: once(), Over: once(), Topic: "updates-failing",
			Meaning: "A rollout of an agent release was halted.",
			Next:    "See muster release status --channel NAME; then muster release rollback --channel NAME, or mend the nodes and resume."},
		{Name: TokenMisuse, Fleet: true, Severity: warn, Told: once(), Over: once(), Topic: "audit-log",
			Meaning: "Tokens were used that must not be used any more, or with a wrong secret.",
			Next:    "See muster audit for the addresses; revoke a token that others may have: muster token revoke ID."},
		{Name: LogShippingFailing, Fleet: true, Severity: warn, Told: lasts(5 * time.Minute), Over: once(), Topic: "logs",
			Meaning: "A sink takes no log lines: they wait in the gateway's buffer until it is full, or are dropped.",
			Next:    "See muster logs ship show NAME: it says what the sink answers, and how much room is left."},
		{Name: GatewayCannotWrite, Fleet: true, Severity: severe, Told: short(), Over: once(), Topic: "backup",
			Meaning: "The gateway's database takes no writes.",
			Next:    "Look at the disk of the gateway's machine: is it full, or read-only?"},
		{Name: GatewayAlone, Fleet: true, Severity: warn, Told: lasts(5 * time.Minute), Over: once(), Topic: "standby",
			Meaning: "Gateways can share this store, and none stands by: if the active one ends, nobody takes its place.",
			Next:    "See muster gateway ls, and start another gateway on the store: muster help standby."},
		{Name: AllocationEnding, Fleet: true, Severity: warn, Told: once(), Over: once(), Topic: "placement",
			Meaning: "An allocation of GPUs ends soon. What runs there ends with it.",
			Next:    "To go on: muster alloc extend NAME."},
		{Name: StoreNodeSilent, Fleet: true, Severity: warn, Told: lasts(time.Minute), Over: once(), Topic: "standby",
			Meaning: "A node of rqlite does not answer. Without more than half of them nothing can be changed.",
			Next:    "Look at rqlited on that node's machine, and at the way there: muster help standby."},
	}
}

// ofProviders are what is wrong between the fleet and the companies that rent machines to it. NAME is an account and an instance.
func ofProviders() []Condition {
	const topic = "providers"
	warn, severe := wire.SeverityWarn, wire.SeveritySevere
	return []Condition{
		{Name: providers.FoundBilledSilent, Fleet: true, Severity: severe, Told: lasts(2 * time.Minute), Over: once(), Topic: topic,
			Meaning: "A company charges for a machine that runs there, and its node is not heard from, or was given back here alone.",
			Next:    "Join it again: muster provider onboard NAME; or end it: muster provider plan has the command."},
		{Name: providers.FoundNeverEnrolled, Fleet: true, Severity: warn, Told: once(), Over: once(), Topic: topic,
			Meaning: "A company charges for a machine that runs there, and no node says that it is this machine.",
			Next:    "Join it: muster provider onboard NAME; or end it: muster provider plan has the command."},
		{Name: providers.FoundDown, Fleet: true, Severity: warn, Told: lasts(2 * time.Minute), Over: once(), Topic: topic,
			Meaning: "A node is in the fleet, and its machine does not run at its company.",
			Next:    "Start it there, or give it back: muster provider plan has the command."},
		{Name: providers.FoundGone, Fleet: true, Severity: warn, Told: once(), Over: once(), Topic: topic,
			Meaning: "A node is in the fleet, and none of the accounts of its company has its machine.",
			Next: "If it is gone: muster node retire NAME. If it is heard, look whose account it is on, and add that: muster provider add. Else " +
				"two machines may use one identity."},
		{Name: providers.FoundStorage, Fleet: true, Severity: warn, Told: lasts(30 * time.Minute), Over: once(), Topic: topic,
			Meaning: "A machine is stopped, no node is there, and its company charges for its disk.",
			Next:    "Start it, or destroy it with all that is on its disk: muster provider plan has the command."},
		{Name: providers.FoundEndsSoon, Fleet: true, Severity: warn, Told: once(), Over: once(), Topic: topic,
			Meaning: "A company ends a machine within a day, and what is on it is lost.",
			Next:    "Bring away what is on it, and give it back: muster provider plan has the command."},
		{Name: providers.FoundOutbid, Fleet: true, Severity: warn, Told: once(), Over: once(), Topic: topic,
			Meaning: "A machine was stopped because somebody else pays more for it. Its disk is charged.",
			Next:    "Wait until it goes on by itself, or destroy it: muster provider plan has the command."},
		{Name: providers.FoundPrice, Fleet: true, Severity: warn, Told: lasts(5 * time.Minute), Over: once(), Topic: topic,
			Meaning: "A company charges another price than the one that a person or a token gave the node.",
			Next:    "Take the company's price: muster provider plan has the command."},
		{Name: providers.FoundUnknown, Fleet: true, Severity: warn, Told: once(), Over: once(), Topic: topic,
			Meaning: "It is not known what a company has and charges: it does not answer, or not in words that are known.",
			Next:    "See what it says: muster provider ls; it may want another key."},
		{Name: providers.FoundEnding, Fleet: true, Severity: warn, Told: once(), Over: once(), Topic: topic,
			Meaning: "The lease of a machine ends within 15 minutes. What runs there ends with it.",
			Next:    "To go on: muster lease extend NAME 2h."},
		{Name: providers.FoundOverdue, Fleet: true, Severity: severe, Told: once(), Over: once(), Topic: topic,
			Meaning: "The lease of a machine is over, and the machine is still there and charged.",
			Next:    "Unless it is to be kept, the gateway tries again without end: muster lease ls says what is in the way."},
	}
}

// ofMachines are what is wrong between the fleet and MAAS. NAME is a machine. The alert says what exactly, as muster maas plan does.
func ofMachines() []Condition {
	const topic = "maas"
	warn, severe := wire.SeverityWarn, wire.SeveritySevere
	return []Condition{
		{Name: machines.ToldSevere, Fleet: true, Severity: severe, Told: lasts(2 * time.Minute), Over: lasts(time.Minute), Topic: topic,
			Meaning: "A machine of MAAS is no longer what muster takes it for, and a person must decide.",
			Next:    "See muster maas plan: it says what is so, and which command ends it."},
		{Name: machines.ToldWarning, Fleet: true, Severity: warn, Told: lasts(5 * time.Minute), Over: lasts(time.Minute), Topic: topic,
			Meaning: "A machine of MAAS does not come to what it is meant to be without a person.",
			Next:    "See muster maas plan: it says what is so, and which command ends it."},
		{Name: machines.ToldUnseen, Fleet: true, Severity: warn, Told: lasts(5 * time.Minute), Over: once(), Topic: topic,
			Meaning: "MAAS does not answer, or not in words that are known: nothing is done with its machines.",
			Next:    "See muster maas ls for what it says, and muster help lab-down."},
	}
}
