// Package history keeps samples of nodes and their GPUs in a SQLite file of its own.
//
// There are three tables of samples: raw ones, minutes, and hours. A minute or an hour is a roll-up: it keeps the mean, the least and the
// most of a value, and how many samples said it. A value that no sample said is missing, and stays so. The rows of a table are named by
// time and node, and each has a blob with all GPUs and metrics in it.
//
// A commit does not wait for the disk: when the machine dies, the last writes may be lost. When only the process dies, they are not.
package history

import (
	"math"
	"slices"
	"time"
)

// Metrics of a GPU. Their numbers are in the file, so a new one comes last.
const (
	Utilization = iota
	GPUMemory
	Temperature
	Power
	SMClock
	GPUMetrics // how many there are
)

// Metrics of a node.
const (
	Load = iota
	Memory
	Disk
	AgentMemory
	AgentCPU
	ProbeTime
	NodeMetrics // how many there are
)

// Missing stands for a value that nobody said.
const Missing = math.MinInt64

// Sample is what one heartbeat said. Values are whole numbers: whoever keeps them chooses their unit.
type Sample struct {
	At       int64         // Unix milliseconds
	Interval time.Duration // between two heartbeats, in whole seconds
	Node     [NodeMetrics]int64
	GPUs     []GPUSample
}

// GPUSample is what a heartbeat said of one GPU.
type GPUSample struct {
	GPU    int // its number, see Names
	Values [GPUMetrics]int64
}

// Value is one value of a roll-up. If Count is 0, it is missing.
type Value struct {
	Count             int64 // samples that said it
	Mean, Least, Most int64
}

// Add takes in what other samples said.
func (v *Value) Add(other Value) {
	switch {
	case other.Count == 0:
	case v.Count == 0:
		*v = other
	default:
		sum := v.Count + other.Count
		v.Mean = int64(math.Round((float64(v.Mean)*float64(v.Count) + float64(other.Mean)*float64(other.Count)) / float64(sum)))
		v.Least = min(v.Least, other.Least)
		v.Most = max(v.Most, other.Most)
		v.Count = sum
	}
}

// Point is a roll-up of all samples of one minute or one hour.
type Point struct {
	Start    int64         // Unix seconds
	Heard    int64         // samples
	Interval time.Duration // the longest between two heartbeats, as they said
	Node     [NodeMetrics]Value
	GPUs     []GPUPoint // in the order of their numbers
}

// GPUPoint is the part of a Point that is about one GPU.
type GPUPoint struct {
	GPU    int
	Values [GPUMetrics]Value
}

// Add takes in another point of the same time or of a part of it.
func (p *Point) Add(other *Point) {
	p.Heard += other.Heard
	p.Interval = max(p.Interval, other.Interval)
	for m := range p.Node {
		p.Node[m].Add(other.Node[m])
	}
	for i := range other.GPUs {
		mine := p.gpu(other.GPUs[i].GPU)
		for m := range mine.Values {
			mine.Values[m].Add(other.GPUs[i].Values[m])
		}
	}
}

// AddSample takes in a sample.
func (p *Point) AddSample(s *Sample) {
	p.Heard++
	p.Interval = max(p.Interval, s.Interval)
	for m := range p.Node {
		p.Node[m].addOne(s.Node[m])
	}
	for i := range s.GPUs {
		mine := p.gpu(s.GPUs[i].GPU)
		for m := range mine.Values {
			mine.Values[m].addOne(s.GPUs[i].Values[m])
		}
	}
}

func (v *Value) addOne(said int64) {
	if said != Missing {
		v.Add(Value{1, said, said, said})
	}
}

// gpu finds the part about a GPU, and makes it if there is none.
func (p *Point) gpu(number int) *GPUPoint {
	at, found := slices.BinarySearchFunc(p.GPUs, number, func(g GPUPoint, n int) int { return g.GPU - n })
	if !found {
		p.GPUs = slices.Insert(p.GPUs, at, GPUPoint{GPU: number})
	}
	return &p.GPUs[at]
}
