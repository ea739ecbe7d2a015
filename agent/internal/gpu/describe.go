package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// turnPause is the time between two tries to be the one nvidia-smi at work.
const turnPause = 100 * time.Millisecond

// Describe returns what nvidia-smi -q prints, as it is. It waits until a look that is under way has ended. If nvidia-smi is missing,
// hangs or fails, it returns an error, and what was printed.
func (p *Prober) Describe(ctx context.Context) ([]byte, error) {
	path, err := p.find()
	if err != nil {
		return nil, err
	}
	for !p.begin() {
		select {
		case <-ctx.Done():
			return nil, errors.New("another nvidia-smi has not ended: the driver may be wedged")
		case <-time.After(turnPause):
		}
	}
	defer p.end()
	if !p.endOrphan(ctx) {
		return nil, errors.New(p.Reading().Probe.Error)
	}
	out, ok := p.call(ctx, path, "-q")
	switch {
	case !ok && ctx.Err() != nil:
		return nil, ctx.Err()
	case !ok:
		return nil, fmt.Errorf("nvidia-smi did not end within %v: look for Xid in dmesg", p.deadline())
	case out.Err != nil:
		return nil, errors.New(startFailure(out.Err))
	}
	text := append(out.Stdout, out.Stderr...)
	if out.Code != 0 {
		return text, fmt.Errorf("nvidia-smi -q ended with exit code %d", out.Code)
	}
	return text, nil
}
