// Package amd reads AMD's GPUs from the files that their driver, amdgpu, has in /sys.
//
// There is at most one reading at a time. A driver that hangs can hold it for ever, and then it is reported as hung, and no other one is
// begun beside it. A GPU that sleeps to save power is not woken. A value that is missing, or that the driver uses for "not known" such as
// 65535, is nil and never 0.
package amd

import (
	"context"
	"time"

	"muster/agent/wire"
)

// deadline bounds one reading. It takes milliseconds where all is well.
const deadline = 10 * time.Second

// Prober looks at the AMD GPUs of this machine. Its zero value can be used as it is. One goroutine uses it.
type Prober struct {
	Root string // where the file system begins; empty: /
	Now  func() time.Time
	// SystemMemory returns the machine's memory in MiB, total and in use, for GPUs that share it; nil: not known.
	SystemMemory func() (total, used *int64)
	Read         func() []wire.GPU // one reading; nil: of the driver's files

	reader  *reader
	pending chan []wire.GPU // takes the result of the reading that is under way; nil: none is
	since   time.Time       // when it began
}

// Look is the result of one look.
type Look struct {
	GPUs  []wire.GPU // in the order of their addresses; Index counts from 0
	Hung  bool       // the reading passed its deadline and has not ended
	Since time.Time  // when it passed its deadline
	Took  time.Duration
}

// Look reads all GPUs. It returns soon after the deadline, whatever the driver does. While an earlier reading has not ended, it begins
// none.
func (p *Prober) Look(ctx context.Context) Look {
	var wait time.Duration
	if p.pending == nil {
		p.begin()
		wait = deadline
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	began := time.Now()
	select {
	case gpus := <-p.pending:
		p.pending = nil
		return Look{GPUs: gpus, Took: time.Since(began)}
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case gpus := <-p.pending: // it ended at the same moment
		p.pending = nil
		return Look{GPUs: gpus, Took: time.Since(began)}
	default:
	}
	return Look{Hung: true, Since: p.since.Add(deadline)}
}

// begin starts a reading in a goroutine of its own.
func (p *Prober) begin() {
	read := p.Read
	if read == nil {
		if p.reader == nil {
			p.reader = newReader(p.Root, p.now, p.SystemMemory)
		}
		read = p.reader.all
	}
	p.since = p.now()
	result := make(chan []wire.GPU, 1)
	p.pending = result
	go func() { result <- read() }()
}

func (p *Prober) now() time.Time {
	if p.Now == nil {
		return time.Now().UTC()
	}
	return p.Now().UTC()
}
