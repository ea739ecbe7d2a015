package view

import (
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// A GPU is idle when its utilisation, its memory and its power together say so for a while.
//
// Utilisation alone is a look at the last second: a job that reads its data, or waits for another node, shows 0 again and again. Memory
// alone stays full where a server holds a model that nobody asks. Power alone is high on a board that is hot, and low on one that waits.
// The list of processes says nothing: where a container hides its processes, the list is empty.
const (
	idleFor = 10 * time.Minute // longer than a job loads its data or writes a checkpoint

	idleUtilization = 5.0  // percent; a desktop or a monitor shows so much
	idleMemoryMiB   = 1024 // the driver's own, and a desktop's
	idleMemoryShare = 0.05 // of a large board, whose driver keeps more for itself
	idlePowerShare  = 0.40 // of its limit; idle boards are seen at 10 to 35 percent
	idlePowerAbove  = 15.0 // watts above the lowest that was seen: nvidia-smi's figures are right to 5 watts
)

// verdict is what a value says. The zero value is that of a value that is not known: it never speaks for idle.
type verdict int

const (
	unknown verdict = iota
	idle
	busy
)

func verdictOf(isIdle bool) verdict {
	if isIdle {
		return idle
	}
	return busy
}

// judge says what one reading of a GPU tells. lowest is the lowest power that was seen of it.
func judge(g *api.GPU, lowest *float64) verdict {
	utilization := byUtilization(g)
	memory := byMemory(g)
	power := byPower(g, lowest)
	switch {
	case utilization == busy, memory == busy, power == busy:
		return busy
	case utilization == unknown, memory == unknown && power == unknown:
		return unknown
	}
	return idle
}

func byUtilization(g *api.GPU) verdict {
	if g.UtilizationPercent == nil {
		return unknown
	}
	return verdictOf(*g.UtilizationPercent <= idleUtilization)
}

// byMemory leaves unified memory out: its figures are those of the whole system.
func byMemory(g *api.GPU) verdict {
	if g.MemoryUsedMiB == nil || g.MemorySource == wire.MemoryUnified {
		return unknown
	}
	share := g.MemoryMiB != nil && float64(*g.MemoryUsedMiB) <= idleMemoryShare*float64(*g.MemoryMiB)
	return verdictOf(*g.MemoryUsedMiB <= idleMemoryMiB || share)
}

func byPower(g *api.GPU, lowest *float64) verdict {
	limit := g.PowerLimitWatts
	switch {
	case g.PowerWatts == nil:
		return unknown
	case limit != nil && *limit > 0:
		return verdictOf(*g.PowerWatts < idlePowerShare**limit)
	case lowest == nil:
		return unknown
	}
	return verdictOf(*g.PowerWatts <= *lowest+idlePowerAbove)
}

// stretch is for how long one GPU has been idle.
type stretch struct {
	since  time.Time // of the first reading of the stretch; zero: the last reading was not idle
	lowest *float64  // watts, the lowest that was seen in this enrolment of the node
}

// read takes one reading, and says in it what the GPU does, and since when it is idle.
func (s *stretch) read(g *api.GPU, at time.Time) {
	if g.PowerWatts != nil && (s.lowest == nil || *g.PowerWatts < *s.lowest) {
		s.lowest = g.PowerWatts
	}
	g.Use = ""
	g.IdleSince = nil
	switch judge(g, s.lowest) {
	case idle:
		g.Use = api.UseQuiet
	case busy:
		g.Use = api.UseBusy
	}
	if g.Use != api.UseQuiet {
		s.since = time.Time{}
		return
	}
	if s.since.IsZero() || s.since.After(at) { // the clock was set back
		s.since = at
	}
	if at.Sub(s.since) < idleFor {
		return
	}
	g.Use = api.UseIdle
	g.IdleSince = new(s.since)
}
