package command

import (
	"cmp"
	"fmt"

	"muster/agent/internal/update"
	"muster/agent/wire"
)

// updateJSON is what is known of updates, in the words of a heartbeat; nil: nothing.
func updateJSON(r update.Record) *wire.Update {
	if r.Channel == "" && r.Last.Phase == "" {
		return nil
	}
	return new(r.Said())
}

// channelWords is the channel that the node follows, and how far it is on it.
func channelWords(r update.Record) string {
	if r.Channel == "" {
		return ""
	}
	return fmt.Sprintf("%s, at number %d", r.Channel, r.Floors[r.Channel])
}

// updateWords says how the last update went, and why. A phase that a later version has written is printed as it is.
func updateWords(l update.Last) string {
	if l.Phase == "" {
		return ""
	}
	version := cmp.Or(l.Version, fmt.Sprintf("%.19s...", l.Release))
	why := l.Detail
	if l.Code != "" {
		why = l.Code + ": " + l.Detail
	}
	switch l.Phase {
	case wire.UpdateHeld:
		return version + " is wanted, and waits: " + why
	case wire.UpdateFetching:
		return version + " is being fetched"
	case wire.UpdateTrial:
		return version + " is on trial"
	case wire.UpdateCommitted:
		return version + " was taken"
	case wire.UpdateRolledBack:
		return "went back from " + version + ", " + why
	case wire.UpdateFailed:
		return version + " was not taken, " + why
	}
	return version + ": " + l.Phase
}
