package evidence

import (
	"context"
	"encoding/base64"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	senders  = 4  // at once: one alone would mostly wait for answers
	mostSent = 64 // pieces
	wayTime  = 10 * time.Second
)

// way measures one direction of the way to the gateway. Each piece travels as text, which is a third longer, and that counts. So
// does the work of both programs with it: a fast way is faster than what is measured.
func (r *run) way(ctx context.Context, name string, data []byte, want int) finding {
	if err := r.job.Probe(ctx, nil, 1); err != nil { // it also opens the connection
		return unknown("the gateway does not measure with this agent: %v", err)
	}
	bounded, cancel := context.WithTimeout(ctx, wayTime)
	defer cancel()
	var asked, done atomic.Int64
	failures := make([]error, senders)
	began := time.Now()
	var together sync.WaitGroup
	for i := range senders {
		together.Go(func() {
			for failures[i] == nil && bounded.Err() == nil && asked.Add(1) <= mostSent {
				if failures[i] = r.job.Probe(bounded, data, want); failures[i] == nil {
					done.Add(1)
				}
			}
		})
	}
	together.Wait()
	took := max(time.Since(began), time.Microsecond)
	if err := errors.Join(failures...); err != nil && (bounded.Err() == nil || ctx.Err() != nil || done.Load() == 0) {
		return unknown("the way to the gateway broke: %v", err)
	}
	size := done.Load() * int64(base64.StdEncoding.EncodedLen(max(len(data), want)))
	mbit := float64(size) * 8 / 1e6 / took.Seconds()
	r.figure(name, mbit, "Mbit/s")
	return well("%.0f Mbit/s, in %d pieces", mbit, done.Load())
}
