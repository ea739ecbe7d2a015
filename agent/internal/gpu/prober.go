// Package gpu reads a machine's GPUs, those of NVIDIA through nvidia-smi and those of AMD through package amd, and never gets in the way of
// the work on them.
//
// There is at most one nvidia-smi at a time. It runs in a process group of its own. It has a deadline, and is killed with all
// its children when the deadline passes. A driver that hangs can keep it in uninterruptible sleep, where not even SIGKILL ends
// it. Then it is reported as hung, and no other one is started beside it. A caller that asks for the newest reading never waits.
//
// A value that could not be read is nil, never 0. The reason is kept, because a device without a sensor is healthy, and a device
// whose sensor fails may not be. What nvidia-smi prints is not trusted: its length is bounded, and each line is judged by itself.
package gpu

import (
	"cmp"
	"context"
	"sync"
	"time"

	"muster/agent/internal/amd"
	"muster/agent/internal/host"
	"muster/agent/wire"
)

// Defaults for the fields of a Prober.
const (
	defaultDeadline = 20 * time.Second
	defaultSlow     = 5 * time.Second
)

// killGrace is how long a killed call may take to end. After that it counts as stuck. It is longer than package child reads
// on after the end.
const killGrace = 3 * time.Second

// Prober looks at the GPUs of this machine. Its zero value can be used as it is. Its methods are safe for concurrent use. Its
// exported fields must not change after the first call.
type Prober struct {
	Path     string        // nvidia-smi: a path, or a name looked up in PATH at every look; empty: "nvidia-smi"
	Env      []string      // what nvidia-smi gets, less every MUSTER_ variable; nil: the agent's own environment
	Deadline time.Duration // for one call; 0: 20 s
	Slow     time.Duration // a call that takes this long is reported as slow; 0: 5 s
	Expected int           // GPUs that the credential named; what State holds and what Expect says wins over it; 0: none
	State    string        // directory for what the next run of the agent must know; empty: it is not kept
	ReadOnly bool          // State belongs to an agent at work: nothing is written, and its nvidia-smi is not killed
	Now      func() time.Time
	AMD      *amd.Prober // looks at AMD's GPUs; nil: nobody does
	// Exec runs one call until it ends; nil runs the program. When ctx is done it ends the process, and returns when the process is gone.
	Exec func(ctx context.Context, call Call) Output
	// SystemMemory returns the machine's memory in MiB, total and in use, for GPUs that share it; nil reads /proc/meminfo.
	SystemMemory func() (total, used *int64)
	// HidesProcesses reports whether the agent cannot see all processes of this machine; nil asks the kernel.
	HidesProcesses func() bool
	// Who fills in who runs the processes of one GPU. It is called only for GPUs with processes, by one look at a time; nil: nobody is
	// asked.
	Who func(ctx context.Context, list []wire.GPUProcess)

	keeping sync.Mutex // held while the record is written; locked before mu
	mu      sync.Mutex
	reading Reading
	looking bool // a look is under way; only that look uses plan
	running bool // an nvidia-smi has been started and has not ended
	nudge   chan struct{}
	plan    plan
	less    time.Time // what LessUntil gives
	again   time.Time // when the help of nvidia-smi is read again, even if the interval is longer; zero: it was read
	rare    rare      // only the look that is under way writes it
	others  amd.Look  // AMD's GPUs, by the look that is under way; only that uses it

	remembered bool     // the fields below have been read from State
	expected   int      // GPUs that there should be
	shown      int      // the most GPUs that a look of this run has found
	overruled  int      // the value of shown when the gateway last said how many are expected
	roster     []device // the devices of the last reading that was whole
	rosterAt   time.Time
	trouble    string // why the roster could not be written
}

// Reading is the newest knowledge about the GPUs. Probe.State is empty until the first look has ended or passed its deadline. Readings
// share their rows: do not change them.
type Reading struct {
	Probe         wire.Probe
	DriverVersion *string
	CUDAVersion   *string
	GPUsExpected  *int
	GPUs          []wire.GPU
	Seen          *int // GPUs that exist, whether they answer or not, by the last look that could tell; nil: no look could

	missing string // which GPUs do not answer, by the same look; empty: none is missing
	unread  bool   // the last look could not tell, or some of its rows could not be read
}

// Fill puts the reading into its part of a hardware report.
func (r Reading) Fill(h *wire.Hardware) {
	h.Probe = r.Probe
	h.DriverVersion = r.DriverVersion
	h.CUDAVersion = r.CUDAVersion
	h.GPUsExpected = r.GPUsExpected
	h.GPUs = r.GPUs
}

// Rows returns the rows of the GPUs if they were read at this time or later, to the second; nil: they are older.
func (r Reading) Rows(since time.Time) []wire.GPU {
	if at := r.Probe.SampledAt; at == nil || at.Before(since.Truncate(time.Second)) {
		return nil
	}
	return r.GPUs
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

// Run looks at once, and then every interval (0: 30 s) until ctx is done. It calls looked (nil: nobody) after each look. After a
// look that takes long it pauses for at least half the interval. When Run returns, an nvidia-smi that cannot be killed is the
// only one that may still be there.
func (p *Prober) Run(ctx context.Context, interval time.Duration, looked func()) {
	if interval <= 0 {
		interval = wire.UsualInterval
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

// Probe looks once and returns the newest reading. It returns soon after the deadline, whatever nvidia-smi does. While another
// look is under way, or an earlier nvidia-smi has not ended, it starts nothing.
func (p *Prober) Probe(ctx context.Context) Reading {
	if ctx.Err() == nil && p.begin() {
		p.look(ctx)
		p.end()
	}
	return p.Reading()
}

// begin claims the right to call nvidia-smi, which one look at a time has. It reports false when another look has it.
func (p *Prober) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looking || p.running {
		return false
	}
	p.looking = true
	return true
}

// end gives that right back, and notes what others may know of the plan.
func (p *Prober) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looking = false
	p.less = p.plan.slow
	p.again = time.Time{}
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

func (p *Prober) deadline() time.Duration { return cmp.Or(p.Deadline, defaultDeadline) }

func (p *Prober) slow() time.Duration { return cmp.Or(p.Slow, defaultSlow) }

func (p *Prober) systemMemory() (total, used *int64) {
	if p.SystemMemory == nil {
		return host.SystemMemory("/")
	}
	return p.SystemMemory()
}
