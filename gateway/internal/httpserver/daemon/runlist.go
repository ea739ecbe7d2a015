// Package daemon has what a long-running program needs: the list of its work, messages to systemd, and the pace of its garbage collector.
package daemon

import (
	"context"
	"errors"
	"fmt"
)

// Part is a piece of work that goes on until its context ends.
type Part struct {
	Name string
	Run  func(context.Context) error
}

// Run starts the parts and goes on until ctx ends or a part does. Then it ends them one by one, the last first: a part's context ends
// when the part after it has returned. So a part may use those before it until its own end.
//
// A part that returns before it is asked to ends all others, also if it gives no error: no program runs on without one of its
// parts unnoticed. Run gives the errors of all parts, each with the part's name. That a context ended is no error.
func Run(ctx context.Context, parts ...Part) error {
	ended := make(chan struct{}, len(parts))
	var all []*running
	for _, p := range parts {
		all = append(all, start(context.WithoutCancel(ctx), p, ended))
	}
	select {
	case <-ctx.Done():
	case <-ended:
	}
	var err error
	for i := len(all) - 1; i >= 0; i-- {
		all[i].stop()
		err = errors.Join(err, <-all[i].result)
	}
	return err
}

// running is a part at work.
type running struct {
	stop   context.CancelFunc
	result chan error // gets one
}

func start(ctx context.Context, p Part, ended chan<- struct{}) *running {
	ctx, stop := context.WithCancel(ctx)
	r := &running{stop: stop, result: make(chan error, 1)}
	go func() {
		err := p.Run(ctx)
		switch {
		case ctx.Err() == nil && err == nil:
			err = fmt.Errorf("%s ended before it was asked to", p.Name)
		case ctx.Err() != nil && errors.Is(err, context.Canceled):
			err = nil
		case err != nil:
			err = fmt.Errorf("%s: %w", p.Name, err)
		}
		r.result <- err
		ended <- struct{}{}
	}()
	return r
}
