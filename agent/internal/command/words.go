package command

import (
	"strings"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/wire"
)

// phaseWords says in words what the agent is doing. A phase of a newer agent is printed as it is.
func phaseWords(s identity.Status) string {
	switch {
	case s.Phase == identity.PhaseRetrying && s.LastError == "":
		return "connecting"
	case s.Phase == identity.PhaseRetrying:
		return "not online, trying again"
	case s.Phase == identity.PhaseRefused:
		return "refused by the gateway, asking again every few minutes"
	}
	return s.Phase
}

// stateWords is the node's state, with the reasons for it.
func stateWords(s identity.Status) string {
	if len(s.Reasons) == 0 {
		return s.State
	}
	var words []string
	for _, reason := range s.Reasons {
		words = append(words, reasonWords(reason, s.Name))
	}
	return s.State + ": " + strings.Join(words, "; ")
}

// reasonWords explains one of the gateway's reasons. A reason that this agent does not know is printed as it is.
func reasonWords(reason, node string) string {
	text := strings.TrimSuffix(wire.ReasonMeaning(reason), ".")
	switch reason {
	case wire.ReasonConflict:
		text += "; an operator has to choose one of them: muster node show " + node + ", on the gateway, lists both"
	case wire.ReasonExpired:
		text += "; the agent renews it by itself where it may"
	case wire.ReasonSuspended:
		text += "; muster node resume " + node + ", on the gateway, ends that"
	}
	if text == "" {
		return reason
	}
	return reason + " (" + text + ")"
}

// clockWords compares the two clocks where they are a second or more apart.
func clockWords(s identity.Status) string {
	off := time.Duration(s.SkewMillis) * time.Millisecond
	if off.Abs() < time.Second {
		return ""
	}
	return Clocks(off)
}

// Clocks compares this machine's clock with the gateway's, which is ahead by this much. Less than a second does not count, because an
// HTTP date has whole seconds.
func Clocks(ahead time.Duration) string {
	switch {
	case ahead >= time.Second:
		return "this machine's clock is " + ahead.Round(time.Second).String() + " behind the gateway's"
	case ahead <= -time.Second:
		return "this machine's clock is " + (-ahead).Round(time.Second).String() + " ahead of the gateway's"
	}
	return "its clock and this machine's agree"
}
