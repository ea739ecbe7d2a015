package gpu

import (
	"context"
	"fmt"
	"time"

	"muster/agent/wire"
)

// look makes one full look: it reads AMD's GPUs, finds the program for those of NVIDIA, learns its fields where they are not known yet,
// asks, and publishes the result. If one of the two hangs, nothing new is published about the other: one state stands for both.
func (p *Prober) look(ctx context.Context) {
	if !p.endOrphan(ctx) || !p.lookAtOthers(ctx) {
		return
	}
	path, err := p.find()
	if err != nil {
		p.settle(p.notFound(err))
		return
	}
	p.plan.askAllAgain(p.now())
	if !p.plan.ready(p.now()) && !p.learn(ctx, path) {
		return
	}
	for {
		out, ok := p.call(ctx, path, p.plan.args()...)
		if !ok {
			if ctx.Err() == nil { // the call passed its deadline: the next one is a smaller query
				p.plan.askLess(p.now(), wideSoon)
			}
			return
		}
		field := invalidField(out)
		if field == "" {
			o := p.judge(out)
			p.settle(o)
			if out.Took >= p.slow() {
				p.plan.askLess(p.now(), wideSoon)
			}
			if o.state == wire.ProbeOK {
				p.lookRarely(ctx, path, o.gpus)
			}
			return
		}
		if !p.plan.refuse(field) { // nothing is left to ask for: begin anew at the next look
			p.plan = plan{}
			p.settle(p.judge(out))
			return
		}
		// The first refusal means that the program has changed since its help was read: read the help again.
		if len(p.plan.refused) == 1 && !p.learn(ctx, path) {
			return
		}
	}
}

// LessUntil returns the time until which nvidia-smi is asked for fewer values, because it was slow; zero: it is asked for all values.
func (p *Prober) LessUntil() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.less
}

// learn asks nvidia-smi which fields it knows. It reports false when the look is over because that call did not end.
func (p *Prober) learn(ctx context.Context, path string) bool {
	out, ok := p.call(ctx, path, "--help-query-gpu")
	if !ok {
		return false
	}
	p.plan.resolve(out, p.now())
	return true
}

// call runs nvidia-smi once. It reports false when there is no result to judge: ctx is done, or the call passed its deadline.
// A passed deadline is published before call returns. If the call cannot be killed, its goroutine waits on, and running
// stays set.
func (p *Prober) call(ctx context.Context, path string, args ...string) (Output, bool) {
	limited, cancel := context.WithTimeout(ctx, p.deadline())
	defer cancel()
	run := p.Exec
	if run == nil {
		run = execute
	}
	started := p.now()
	timer := time.Now()
	call := Call{Path: path, Args: args, Env: environment(p.Env), Started: func(pid int) { p.note(pid, started) }}
	ended := make(chan Output, 1)
	p.setRunning(true)
	go func() {
		out := run(limited, call)
		out.Took = time.Since(timer)
		p.setRunning(false)
		ended <- out
	}()
	out, ok := p.await(ctx, limited, started, ended)
	if ok && !out.Stopped {
		return out, true
	}
	if ok && ctx.Err() == nil {
		p.hang(started, &out)
	}
	return out, false
}

// await waits until a call has ended. The call is killed at its deadline. Then await gives it killGrace more to end.
func (p *Prober) await(ctx, limited context.Context, started time.Time, ended <-chan Output) (Output, bool) {
	select {
	case out := <-ended:
		return out, true
	case <-limited.Done():
	}
	if ctx.Err() == nil {
		p.hang(started, nil)
	}
	grace := time.NewTimer(killGrace)
	defer grace.Stop()
	select {
	case out := <-ended:
		return out, true
	case <-grace.C:
		return Output{}, false
	}
}

// hang publishes that the call that began at started passed its deadline. out is what a killed call left; nil: it still runs.
func (p *Prober) hang(started time.Time, out *Output) {
	text := fmt.Sprintf("nvidia-smi does not answer within %v and does not end; the driver may be wedged: "+
		"look for Xid in dmesg, restart the machine if it stays so", p.deadline())
	p.mu.Lock()
	defer p.mu.Unlock()
	if out != nil {
		text = fmt.Sprintf("nvidia-smi did not answer within %v and was killed; it is tried again: "+
			"look for Xid in dmesg if it stays so", p.deadline())
		p.reading.Probe.TookMS = new(out.Took.Milliseconds())
	}
	p.enter(wire.ProbeHung, text, started.Add(p.deadline()))
}

// outcome is the result of one look. publish turns it into the newest reading.
type outcome struct {
	state  string
	err    string
	cause  string // of the error, in the words of package wire
	took   *int64
	driver *string
	gpus   []wire.GPU // rows that were read now; if there are none, the last ones stay

	told    bool   // the look could tell which GPUs there are
	exist   int    // GPUs that are known to exist, answering or not
	missing string // which of the expected GPUs do not answer, where told is true; empty: all answer
	unread  bool   // the answer, or a row of it, could not be read
	whole   bool   // every row could be read, and no device is named as lost
}

// settle publishes an outcome, and writes down what the next run must know.
func (p *Prober) settle(o outcome) {
	if p.publish(o) {
		p.keep()
	}
}

// publish makes an outcome the newest reading. It reports whether there is something new to write down.
func (p *Prober) publish(o outcome) (changed bool) {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = p.count(o)
	if o.took != nil {
		p.reading.Probe.TookMS = o.took
	}
	if len(o.gpus) > 0 {
		p.reading.GPUs = p.rare.addTo(o.gpus, now)
		p.reading.Probe.SampledAt = &now
	}
	if o.driver != nil {
		if p.rare.driver != *o.driver {
			p.reading.CUDAVersion = nil
		}
		p.reading.DriverVersion = o.driver
	}
	p.reading.unread = o.unread
	switch {
	case o.told:
		p.reading.missing = o.missing
		p.reading.Seen = &o.exist
	case o.state == wire.ProbeAbsent: // no GPU is expected either
		p.reading.missing = ""
	}
	p.enter(o.state, o.err, now)
	p.reading.Probe.Cause = o.cause
	return changed
}

// enter moves to a state. A state that is the same as before keeps the time at which it began. The caller holds mu.
func (p *Prober) enter(state, text string, at time.Time) {
	if p.reading.Probe.State != state {
		p.reading.Probe.Since = &at
	}
	p.reading.Probe.State = state
	p.reading.Probe.Error = wire.Plain(text, maxError)
	p.reading.Probe.Cause = ""
}
