package main

import (
	"maps"
	"math/bits"
	"syscall"
	"time"
)

// subBits is how many bits below the leading one tell buckets apart: a latency is known to 1 part in 64.
const subBits = 6

// histogram counts latencies in nanoseconds, in buckets whose width is a sixty-fourth of their value or finer.
type histogram struct {
	counts [(65 - subBits) << subBits]uint64
	total  uint64
	max    time.Duration
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.total++
	h.max = max(h.max, d)
}

func bucket(v uint64) int {
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// highest is the largest latency that falls into a bucket.
func highest(i int) time.Duration {
	shift := max(i>>subBits-1, 0)
	return time.Duration((uint64(i-shift<<subBits)+1)<<shift - 1)
}

// quantile is the latency that a share q of all did not exceed. It is 0 when there are none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := max(uint64(q*float64(h.total)+0.999999), 1)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			return min(highest(i), h.max)
		}
	}
	return 0
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}

// tally is what came of one operation: the latencies of what was taken, and how often each code was the answer.
type tally struct {
	latency histogram
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
	t.latency.merge(&other.latency)
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

func (p *phase) perSecond() float64 {
	if p.elapsed <= 0 {
		return 0
	}
	return float64(p.tally.latency.total) / p.elapsed.Seconds()
}
