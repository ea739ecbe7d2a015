package alert

import (
	"time"

	"muster/agent/wire"
)

// Cause is one kind of thing that people are told of.
type Cause struct {
	Name     string
	Severity string        // one of wire.Severity*
	Hold     time.Duration // so long it must last before it is told
	Cure     time.Duration // so long it must be gone before it is resolved
	Meaning  string        // one sentence
	Next     string        // one sentence: what to do
	Topic    string        // of muster help
}

// Names of the causes. They are part of the API.
const (
	NodeStale          = "node_stale"
	NodeUnavailable    = "node_unavailable"
	GPUCountDropped    = "gpu_count_dropped"
	IdentityConflict   = "identity_conflict"
	RenewalOverdue     = "renewal_overdue"
	FindingSevere      = "finding_severe"
	NodeWarning        = "node_warning"
	RolloutHalted      = "rollout_halted"
	TokenMisuse        = "token_misuse"
	LogShippingFailing = "log_shipping_failing"
	GatewayCannotWrite = "gateway_cannot_write"
)

// testCause stands in a test alert. It is no cause of the table.
const testCause = "test"

// Causes is the table of all causes, in the order in which help shows them.
func Causes() []Cause {
	warn, severe := wire.SeverityWarn, wire.SeveritySevere
	const short, minute = 15 * time.Second, time.Minute
	return []Cause{
		{NodeStale, warn, minute, minute, "A node is not heard from any more.",
			"Ask its provider whether the machine runs, and look at its network; give it back there if it is gone.", "stale-node"},
		{NodeUnavailable, severe, short, minute, "A node cannot be relied on, so it gets no work.",
			"See muster node show NAME: it says what is wrong, and what to do.", "health"},
		{GPUCountDropped, severe, short, minute, "Fewer GPUs answer than a node should have.",
			"Look for a GPU that fell off the bus (Xid 79) and restart the machine; if it is gone for good: muster node gpus NAME N.",
			"no-telemetry"},
		{IdentityConflict, severe, 0, short, "Two machines use the identity of one node.",
			"Find out which machine is the right one, stop the other, then: muster node allow-recovery NAME --fingerprint F.",
			"identity-trouble"},
		{RenewalOverdue, warn, minute, short, "A node's certificate should have been renewed by now.",
			"Read the agent's log on the node; when the certificate has expired, the node becomes unavailable.", "certificates"},
		{FindingSevere, severe, short, minute, "A rule of health found something severe on a node that has no work to lose.",
			"See muster node show NAME: each finding says what to do.", "health"},
		{NodeWarning, warn, 5 * time.Minute, minute, "A rule of health found something that needs a person, though the node works.",
			"See muster node show NAME: each finding says what to do.", "health"},
		{RolloutHalted, severe, 0, 0, "A rollout of an agent release was halted.",
			"See muster release status --channel NAME; then muster release rollback --channel NAME, or mend the nodes and resume.",
			"updates-failing"},
		{TokenMisuse, warn, 0, 0, "Tokens were used that must not be used any more, or with a wrong secret.",
			"See muster audit for the addresses; revoke a token that others may have: muster token revoke ID.", "audit-log"},
		{LogShippingFailing, warn, 5 * time.Minute, minute, "A sink takes no log lines: they wait in the gateway's buffer until it is full, or are dropped.",
			"See muster logs ship show NAME: it says what the sink answers, and how much room is left.", "logs"},
		{GatewayCannotWrite, severe, short, 0, "The gateway's database takes no writes.",
			"Look at the disk of the gateway's machine: is it full, or read-only?", "backup"},
	}
}

// cause finds a cause by its name; nil: there is none.
func cause(name string) *Cause {
	all := Causes()
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}
