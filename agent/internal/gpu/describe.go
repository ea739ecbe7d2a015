package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// turnPause is the time between two tries to be the one nvidia-smi at work.
const turnPause = 100 * time.Millisecond

// Describe returns what nvidia-smi -q prints, unchanged. Its errors are those of Ask; with an error it returns what was printed until then.
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

// claim finds the program, and waits until patient is done for the right to call it, which the caller gives back. No nvidia-smi of an
// earlier run is left then.
func (p *Prober) claim(ctx, patient context.Context) (path string, err error) {
	if path, err = p.find(); err != nil {
		return "", err
	}
	if err := p.turn(patient); err != nil {
		return "", err
	}
	if !p.endOrphan(ctx) {
		p.end()
		return "", errors.New(p.Reading().Probe.Error)
	}
	return path, nil
}

// finished makes a call, whatever its exit code. The error says that it did not end.
func (p *Prober) finished(ctx context.Context, path string, args ...string) (Output, error) {
	out, ok := p.call(ctx, path, args...)
	switch {
	case !ok && ctx.Err() != nil:
		return Output{}, ctx.Err()
	case !ok:
		return Output{}, fmt.Errorf("nvidia-smi did not end within %v: look for Xid in dmesg", p.deadline())
	}
	return out, nil
}

func (p *Prober) ask(ctx context.Context, args ...string) (Output, error) {
	path, err := p.claim(ctx, ctx)
	if err != nil {
		return Output{}, err
	}
	defer p.end()
	out, err := p.finished(ctx, path, args...)
	switch {
	case err != nil:
		return Output{}, err
	case out.Err != nil:
		return Output{}, errors.New(startFailure(out.Err))
	case out.Code != 0:
		return out, fmt.Errorf("nvidia-smi %s ended with exit code %d", args[0], out.Code)
	}
	return out, nil
}
