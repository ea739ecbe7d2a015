package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// turnPause is the time between two tries to be the one nvidia-smi at work.
const turnPause = 100 * time.Millisecond

// Describe returns what nvidia-smi -q prints, as it is. Its errors are those of Ask. Then it returns what was printed too.
func (p *Prober) Describe(ctx context.Context) ([]byte, error) {
	out, err := p.ask(ctx, "-q")
	return append(out.Stdout, out.Stderr...), err
}

// Ask runs nvidia-smi and returns what it prints on its standard output. It waits until a look that is under way has ended. If nvidia-smi
// is missing, hangs or fails, it returns an error.
func (p *Prober) Ask(ctx context.Context, args ...string) ([]byte, error) {
	out, err := p.ask(ctx, args...)
	return out.Stdout, err
}

// Fresh looks now and returns the newest reading. Unlike Probe, it waits for a look that is under way, until ctx is done.
func (p *Prober) Fresh(ctx context.Context) Reading {
	if p.turn(ctx) == nil {
		p.look(ctx)
		p.end()
	}
	return p.Reading()
}

// turn waits for the right to call nvidia-smi.
func (p *Prober) turn(ctx context.Context) error {
	for !p.begin() {
		select {
		case <-ctx.Done():
			return errors.New("another nvidia-smi has not ended: the driver may be wedged")
		case <-time.After(turnPause):
		}
	}
	return nil
}

func (p *Prober) ask(ctx context.Context, args ...string) (Output, error) {
	path, err := p.find()
	if err != nil {
		return Output{}, err
	}
	if err := p.turn(ctx); err != nil {
		return Output{}, err
	}
	defer p.end()
	if !p.endOrphan(ctx) {
		return Output{}, errors.New(p.Reading().Probe.Error)
	}
	out, ok := p.call(ctx, path, args...)
	switch {
	case !ok && ctx.Err() != nil:
		return Output{}, ctx.Err()
	case !ok:
		return Output{}, fmt.Errorf("nvidia-smi did not end within %v: look for Xid in dmesg", p.deadline())
	case out.Err != nil:
		return Output{}, errors.New(startFailure(out.Err))
	case out.Code != 0:
		return out, fmt.Errorf("nvidia-smi %s ended with exit code %d", args[0], out.Code)
	}
	return out, nil
}
