// Package picture turns what the gateway knows of nodes into what a page of the console shows: rows with bars, the heat map, tiles, the
// sheet of a node's hardware and its plots. It gives words and paths of SVG. It knows no page, no form and no URL.
package picture

import (
	"fmt"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/api/providers"
	"muster/store"
	"muster/store/releases"
)

// Unknown stands for what is not known. It is never 0, and never an empty place.
const Unknown = "–"

// Mark is a state in a colour, a shape and a word.
type Mark struct{ Class, Shape, Word string }

// Meanings of colours. Each has a shape of its own, so that nobody needs the colour.
const (
	good      = "good"
	attention = "attention"
	bad       = "bad"
	neutral   = "unknown"
	busy      = "busy" // it goes on by itself, and nobody has to look
)

// MarkOf draws the states and statuses of nodes, tasks, sessions, tokens, accounts, rollouts, slots and allocations, and the outcomes of
// checks and events.
func MarkOf(word string) Mark {
	class := meaning(word)
	return Mark{class, shapeOf(class), strings.ReplaceAll(Dash(word), "_", " ")}
}

func shapeOf(class string) string {
	switch class {
	case good:
		return "●"
	case attention:
		return "▲"
	case bad:
		return "■"
	case busy:
		return "◐"
	}
	return "◌"
}

func meaning(word string) string {
	switch word {
	case wire.StatusOnline, wire.StateActive, api.StatusLive, wire.TaskCompleted, releases.Done, store.OutcomeOK, wire.UpdateCommitted,
		api.SlotApproved, api.SlotAllocated:
		return good
	case wire.StateDrained, api.StatusUnheard, releases.Paused, api.SeverityWarn, wire.ProbeSlow, wire.UpdateHeld,
		api.SlotProposed:
		return attention
	case wire.StatusStale, wire.StateUnavailable, wire.TaskFailed, wire.TaskLost, wire.TaskTimedOut, releases.Halted, releases.Aborted,
		releases.TakenBack, api.SeveritySevere, wire.ProbeHung, wire.UpdateRolledBack, api.SlotBlocked:
		return bad
	case api.SessionWaiting, api.SessionOpen, wire.StateDeploying, wire.StateEnrolled, wire.TaskQueued, wire.TaskDispatched,
		wire.TaskRunning, wire.UpdateFetching, wire.UpdateTrial, api.SlotCleaning, api.AllocationReleasing, providers.LeaseDraining,
		providers.LeaseEnding:
		return busy
	}
	return neutral
}

// OutcomeOf draws how an event ended: the code of a refusal is no state.
func OutcomeOf(word string) Mark {
	if known := MarkOf(word); known.Class != neutral || word == store.OutcomeNone || word == "" {
		return known
	}
	return Mark{attention, shapeOf(attention), word}
}

// FindingOf draws a finding: its kind in the colour of its severity.
func FindingOf(severity, kind string) Mark {
	class := meaning(severity)
	return Mark{class, shapeOf(class), strings.ReplaceAll(Dash(kind), "_", " ")}
}

// InstanceOf draws the state of a machine at the company that rents it.
func InstanceOf(word string) Mark {
	class := neutral
	switch word {
	case "running":
		class = good
	case "starting", "ending":
		class = busy
	case "stopped":
		class = attention
	case "broken":
		class = bad
	}
	return Mark{class, shapeOf(class), Dash(word)}
}

// MachineOf draws the state of a machine in MAAS.
func MachineOf(word string) Mark {
	class := neutral
	switch word {
	case machines.StateReady, machines.StateDeployed:
		class = good
	case machines.StateCommissioning, machines.StateAllocated, machines.StateDeploying, machines.StateReleasing, machines.StateTesting:
		class = busy
	case machines.StateInstalled, machines.StateRescue:
		class = attention
	case machines.StateFailed, machines.StateBroken, machines.StateGone:
		class = bad
	}
	return Mark{class, shapeOf(class), Dash(word)}
}

// CapacityOf draws what a node gives now.
func CapacityOf(word string) Mark {
	class := neutral
	switch word {
	case api.CapacityOpen, api.CapacityFull:
		class = good
	case api.CapacityUnproven, api.CapacityDrained, api.CapacityNone:
		class = attention
	case api.CapacityBlocked, api.CapacitySilent, api.CapacityUnavailable:
		class = bad
	}
	return Mark{class, shapeOf(class), Dash(word)}
}

// MiB writes a number of MiB as GiB, as nvidia-smi means them; nil is not known.
func MiB(n *int64) string {
	switch {
	case n == nil:
		return Unknown
	case *n < 1024:
		return strconv.FormatInt(*n, 10) + " MiB"
	}
	return strconv.FormatFloat(float64(*n)/1024, 'f', 1, 64) + " GiB"
}

// Bytes writes a number of bytes.
func Bytes(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	if n < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// Dash returns the text; if it is empty, the sign for a value that is not known.
func Dash(text string) string {
	if text == "" {
		return Unknown
	}
	return text
}
