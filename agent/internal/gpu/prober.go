// Package gpu reads a machine's NVIDIA GPUs through nvidia-smi without ever getting in a workload's way.
//
// There is at most one nvidia-smi at a time. It runs in its own process group, has a deadline, and is killed with all its
// children when that passes. One that not even SIGKILL ends (a wedged driver leaves it in uninterruptible sleep) is
// reported as hung and stays the only one: nothing is started beside it. Who asks for the newest reading never waits.
//
// A value that could not be read is nil, never 0; why it could not be read is kept apart (a device without such a sensor is
// healthy, one whose sensor fails may not be). nvidia-smi's output is foreign bytes: bounded, and judged line by line.
package gpu

import (
	"context"
	"sync"
	"time"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

// What a Prober uses where its fields are zero.
const (
	defaultDeadline = 20 * time.Second
	defaultSlow     = 5 * time.Second
	defaultInterval = 30 * time.Second
)

// killGrace is how long a call may take to end after it was killed before it counts as stuck. It is longer than pipeGrace.
const killGrace = 3 * time.Second

// Prober looks at the GPUs of this machine. Its zero value is ready. Its methods may be called from any goroutine; its
// fields are not changed after the first call.
type Prober struct {
	Path     string        // nvidia-smi: a path, or a name looked up in PATH at every look; empty: "nvidia-smi"
	Env      []string      // what nvidia-smi gets, less every MUSTER_ variable; nil: the agent's own environment
	Deadline time.Duration // for one call; 0: 20 s
	Slow     time.Duration // a call that takes this long is reported as slow; 0: 5 s
	Expected int           // GPUs that the credential named; what State remembers and what Expect says go before it; 0: none
	State    string        // directory in which what is expected outlives a run of the agent; empty: nothing does
	ReadOnly bool          // State is an agent's at work: it is read, and that agent's nvidia-smi is waited for
	Now      func() time.Time
	// Exec runs one call to its end; nil runs the program. It returns early only when ctx is done and the process is gone.
	Exec func(ctx context.Context, call Call) Output
	// SystemMemory gives the machine's memory in MiB, total and in use, for GPUs that share it; nil reads /proc/meminfo.
	SystemMemory func() (total, used *int64)
	// HidesProcesses tells whether this system's lists of processes leave some out; nil asks the kernel.
	HidesProcesses func() bool

	keeping sync.Mutex // held while the record is written; taken before mu
	mu      sync.Mutex
	reading Reading
	looking bool // a look is under way: it alone touches plan
	running bool // an nvidia-smi has been started and has not ended
	nudge   chan struct{}
	plan    plan
	again   time.Time // when the plan wants another look, however long the interval is; zero: it does not
	seldom  seldom    // written by the look that is under way

	remembered bool     // the following was read
	expected   int      // GPUs that there should be
	shown      int      // the most that a look of this run knew to exist
	overruled  int      // as many had been shown when the gateway said what is expected
	roster     []device // those of the last whole reading
	rosterAt   time.Time
	trouble    string // why the roster could not be written
}

// Reading is what was last known of the GPUs. Probe.State is empty until the first look has ended or passed its deadline.
// A Reading shares its rows with others: it is read only.
type Reading struct {
	Probe         wire.Probe
	DriverVersion *string
	GPUsExpected  *int
	GPUs          []wire.GPU
	Seen          *int // GPUs that the last look which could tell knows to exist, answering or not; nil: none could

	missing string // which GPUs do not answer, as that look told; empty: none is missing
	unread  bool   // the last look ended without telling, or with rows that could not be read
}

// Fill puts the reading into its part of a hardware report.
func (r Reading) Fill(h *wire.Hardware) {
	h.Probe, h.DriverVersion, h.GPUsExpected, h.GPUs = r.Probe, r.DriverVersion, r.GPUsExpected, r.GPUs
}

// Reading returns the newest reading at once, also while nvidia-smi runs or hangs.
func (p *Prober) Reading() Reading {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remember()
	r := p.reading
	if n := p.expected; n > 0 {
		r.GPUsExpected = &n
	}
	return r
}

// Run looks every interval (0: 30 s), beginning now, until ctx is done, and tells looked (nil: nobody) after each look. A look
// that takes long is followed by a pause of at least half the interval. When Run returns, no nvidia-smi is left behind but one
// that cannot be killed.
func (p *Prober) Run(ctx context.Context, interval time.Duration, looked func()) {
	if interval <= 0 {
		interval = defaultInterval
	}
	pace := interval.Seconds()
	p.mu.Lock()
	p.reading.Probe.IntervalSeconds = &pace
	nudge := p.nudged()
	p.mu.Unlock()
	for {
		started := time.Now()
		p.Probe(ctx)
		if looked != nil && ctx.Err() == nil {
			looked()
		}
		pause := time.NewTimer(p.pause(interval, time.Since(started)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		case <-nudge:
			pause.Stop()
		}
	}
}

// pause is how long to wait after a look that took this long.
func (p *Prober) pause(interval, took time.Duration) time.Duration {
	pause := max(interval-took, interval/2)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.again.IsZero() {
		return pause
	}
	return min(pause, max(p.again.Sub(p.now()), time.Second))
}

// Probe looks once and returns what it saw. It comes back soon after the deadline whatever nvidia-smi does. While a look is
// under way or an earlier nvidia-smi has not ended it starts nothing and returns the newest reading.
func (p *Prober) Probe(ctx context.Context) Reading {
	if ctx.Err() == nil && p.begin() {
		p.look(ctx)
		p.end()
	}
	return p.Reading()
}

// begin claims the one place for a caller of nvidia-smi; it reports false when that is taken.
func (p *Prober) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looking || p.running {
		return false
	}
	p.looking = true
	return true
}

func (p *Prober) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looking, p.again = false, time.Time{}
	if p.plan.again.After(p.now()) {
		p.again = p.plan.again
	}
}

func (p *Prober) setRunning(running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = running
}

func (p *Prober) now() time.Time {
	if p.Now == nil {
		return time.Now().UTC()
	}
	return p.Now().UTC()
}

func (p *Prober) deadline() time.Duration {
	if p.Deadline <= 0 {
		return defaultDeadline
	}
	return p.Deadline
}

func (p *Prober) slow() time.Duration {
	if p.Slow <= 0 {
		return defaultSlow
	}
	return p.Slow
}

func (p *Prober) systemMemory() (total, used *int64) {
	if p.SystemMemory == nil {
		return host.SystemMemory("/")
	}
	return p.SystemMemory()
}
