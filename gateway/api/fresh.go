package api

import (
	"time"

	"muster/agent/wire"
)

// Rows of GPUs that are no older than this are of now.
const (
	readings    = 3 // so many times the time between two heartbeats, or between two looks at the GPUs, whichever is longer
	freshAtMost = 90 * time.Second
	longestPace = 86400.0 // seconds
)

// Old reports whether the rows of a node's GPUs were read longer ago than the node's pace explains, or its GPUs are gone. interval is the
// seconds between two heartbeats, and skew is how far the gateway's clock is ahead of the node's, in milliseconds; nil: not known.
func Old(p wire.Probe, interval *float64, skew *int64, now time.Time) bool {
	at := ReadAt(p.SampledAt, skew)
	isFailed := p.State == wire.ProbeHung || p.State == wire.ProbeFailed
	switch {
	case p.State == wire.ProbeAbsent:
		return true
	case at == nil:
		return isFailed
	case isFailed && p.Since != nil && p.SampledAt.Before(*p.Since):
		return true // no row was read since
	}
	fresh := freshAtMost
	for _, pace := range []*float64{interval, p.IntervalSeconds} {
		if pace != nil && *pace < longestPace {
			fresh = max(fresh, time.Duration(readings**pace*float64(time.Second)))
		}
	}
	return now.Sub(*at) > fresh
}

// Counted reports whether a reading tells how many GPUs answer, by the number of its rows. A reading tells nothing if the program that
// reads GPUs hangs, fails, or is gone from a machine that should have GPUs: its last rows stay, but no longer count. expected is the
// record; nil: there is none.
func Counted(state string, rows int, expected *int) bool {
	switch state {
	case wire.ProbeOK, wire.ProbeSlow:
		return true
	case wire.ProbeAbsent:
		return expected == nil || *expected == 0
	}
	return rows > 0
}

// Missing returns how many of the expected GPUs do not answer; 0: all answer, or that is not known. Rows answer if they are counted.
// expected is the record; nil: there is none.
func Missing(rows int, counted bool, expected *int) int {
	if !counted || expected == nil {
		return 0
	}
	return max(*expected-rows, 0)
}

// MissingGPUs is how many of the node's GPUs do not answer, as far as that is known.
func (g *NodeRow) MissingGPUs() int { return Missing(len(g.GPUs), g.GPUs != nil, g.GPUsExpected) }

// GPUCount is how many GPUs the node has: by the record, else by its last reading; nil: that is not known.
func (g *NodeRow) GPUCount() *int {
	if g.GPUsExpected != nil || g.GPUs == nil {
		return g.GPUsExpected
	}
	count := len(g.GPUs)
	return &count
}

// ReadAt is a time of the node's clock by the gateway's clock. A skew that no clock has is not believed, nor is a year that no JSON text
// can hold: a node says both, and its row would cost everybody the list of the fleet.
func ReadAt(at *time.Time, skew *int64) *time.Time {
	const most = int64(9e12) // milliseconds that a time.Duration holds
	if at == nil || skew == nil || *skew >= most || *skew <= -most {
		return at
	}
	moved := at.Add(time.Duration(*skew) * time.Millisecond)
	if year := moved.UTC().Year(); year < 1 || year > 9999 {
		return at
	}
	return &moved
}
