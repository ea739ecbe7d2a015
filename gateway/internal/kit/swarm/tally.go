package main

import (
	"maps"
	"math"
	"syscall"
	"time"
)

// latencies are how long requests took.
type latencies []time.Duration

// quantile is the latency that a share q of all did not exceed. They are sorted; of none it is 0.
func (l latencies) quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[max(int(math.Ceil(q*float64(len(l))))-1, 0)]
}

// tally is what came of one operation: the latencies of what was taken, and how often each code was the answer.
type tally struct {
	latency latencies
	refused map[string]int
	example string // the first thing that went wrong, for a person
}

func (t *tally) refuse(code, example string) {
	if t.refused == nil {
		t.refused = map[string]int{}
	}
	t.refused[code]++
	if t.example == "" {
		t.example = example
	}
}

func (t *tally) merge(other *tally) {
	t.latency = append(t.latency, other.latency...)
	for code, n := range other.refused {
		if t.refused == nil {
			t.refused = maps.Clone(other.refused)
			break
		}
		t.refused[code] += n
	}
	if t.example == "" {
		t.example = other.example
	}
}

// phase is one operation from its first request to its last answer.
type phase struct {
	name    string
	tally   tally
	elapsed time.Duration
	spent   time.Duration // processor time of this program: what the gateway did not have
}

// processor is the time that this process has had on all cores so far; 0 where the system does not say.
func processor() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
