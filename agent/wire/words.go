package wire

// States of a node: where it is in its life. A HeartbeatAnswer, a LeaveAnswer and the admin API name them.
const (
	StateCommissioned = "commissioned" // known hardware, not yet offered
	StateReady        = "ready"        // waits for its bootstrap
	StateDeploying    = "deploying"    // its bootstrap script was fetched
	StateEnrolled     = "enrolled"     // has an identity, not heard from since
	StateActive       = "active"       // takes work
	StateDrained      = "drained"      // alive, takes no new work
	StateUnavailable  = "unavailable"  // not to be relied on; the reasons say why
	StateRetired      = "retired"      // given back; its record is kept
)

// Values of HeartbeatAnswer.StateReasons, beside those of HeartbeatRequest.Health.
const (
	ReasonConflict  = "identity_conflict"   // two machines use one identity
	ReasonExpired   = "certificate_expired" // goes with the first use of a good one
	ReasonSuspended = "suspended"           // a person took the node out of service
)

// ReasonMeaning says in a sentence what a reason of a node's state means; empty: this version does not know the reason.
func ReasonMeaning(reason string) string {
	switch reason {
	case ReasonConflict:
		return "Two machines use the node's identity, so it gets nothing."
	case ReasonExpired:
		return "The node's certificate has expired."
	case ReasonSuspended:
		return "A person took the node out of service."
	case HealthProbeFailed:
		return "nvidia-smi ends with an error, so nothing is known of the GPUs."
	case HealthProbeHung:
		return "nvidia-smi does not come to an end, or AMD's driver does not answer: the driver may be stuck."
	case HealthGPUCountDropped:
		return "Fewer GPUs answer than the node should have, or nvidia-smi is gone."
	case HealthGPUFault:
		return "A GPU says that it must not be used: it is lost, waits for a reset, or cannot remap its memory."
	}
	return ""
}

// Statuses of a node: whether the gateway hears from it. The admin API names them.
const (
	StatusPending = "pending" // never heard from
	StatusOnline  = "online"
	StatusStale   = "stale"
)

// States returns the states of a node in the order in which people read them.
func States() []string {
	return []string{StateCommissioned, StateReady, StateDeploying, StateEnrolled, StateActive, StateDrained, StateUnavailable, StateRetired}
}

// Statuses returns the statuses of a node.
func Statuses() []string { return []string{StatusPending, StatusOnline, StatusStale} }

// Severities of what the gateway finds wrong with a node. The admin API names them.
const (
	SeverityNote   = "note"   // worth knowing
	SeverityWarn   = "warn"   // a person should look
	SeveritySevere = "severe" // the node must not get work
)

// Statuses of a task. A TaskResult and the admin API name them.
const (
	TaskQueued     = "queued"     // waits for its node
	TaskDispatched = "dispatched" // claimed, not reported as started yet
	TaskRunning    = "running"
	TaskCompleted  = "completed"
	TaskFailed     = "failed"
	TaskExpired    = "expired"  // not started in time
	TaskCanceled   = "canceled" // somebody ended it
	TaskLost       = "lost"     // its node, or the identity that claimed it, is gone: nobody knows whether it was done
)

// TaskStatuses returns the statuses of a task, in the order of its life.
func TaskStatuses() []string {
	return []string{TaskQueued, TaskDispatched, TaskRunning, TaskCompleted, TaskFailed, TaskExpired, TaskCanceled, TaskLost}
}

// Values of TaskResult.Code, beside the codes of refusals.
const (
	TaskInterrupted = "interrupted" // the agent or the machine went down while it ran; it is not run again
	TaskTimedOut    = "timed_out"   // it took longer than its type or its params allow
)

// TaskEnded reports whether a status is final.
func TaskEnded(status string) bool {
	switch status {
	case TaskQueued, TaskDispatched, TaskRunning:
		return false
	}
	return true
}
