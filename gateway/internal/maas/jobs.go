package maas

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

// mostJobs is how many works ask MAAS for something at once: one that gets no answer holds up no other.
const mostJobs = 8

// jobs go on beside each other, and never two of one name at once. A name is that of a machine, mostly.
type jobs struct {
	room  chan struct{}
	going sync.WaitGroup

	mu     sync.Mutex // guards what follows
	busy   map[string]bool
	again  map[string]bool  // busy names with news that came too late for what goes on
	ended  map[string]int   // the count when a name was free again
	count  int              // of ends
	errors map[string]error // of the last job of each name
}

func newJobs() *jobs {
	return &jobs{room: make(chan struct{}, mostJobs), busy: map[string]bool{}, again: map[string]bool{}, ended: map[string]int{},
		errors: map[string]error{}}
}

// now is a moment, for hold.
func (j *jobs) now() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.count
}

// hold takes a name. false: a job of that name goes on, or has ended since a moment, so that what was read then may be old.
func (j *jobs) hold(name string, since int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.busy[name] || j.ended[name] > since {
		return false
	}
	j.busy[name] = true
	return true
}

// release ends hold. again: there were news of the name meanwhile.
func (j *jobs) release(name string) (again bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	again = j.again[name]
	delete(j.busy, name)
	delete(j.again, name)
	return again
}

// touch says that what was read of a name until now is old.
func (j *jobs) touch(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count++
	j.ended[name] = j.count
}

// start has a job done. Where one of its name goes on, it is that job that calls done with again.
func (j *jobs) start(ctx context.Context, name string, do func(context.Context) error, done func(err error, again bool)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.busy[name] {
		j.again[name] = true
		return
	}
	j.busy[name] = true
	j.going.Go(func() {
		err := ctx.Err()
		select {
		case j.room <- struct{}{}:
			err = do(ctx)
			<-j.room
		case <-ctx.Done():
		}
		j.mu.Lock()
		delete(j.errors, name)
		if err != nil {
			j.errors[name] = err
		}
		j.mu.Unlock()
		j.touch(name)
		done(err, j.release(name))
	})
}

// wait waits until no job goes on, and gives what went wrong.
func (j *jobs) wait() error {
	j.going.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	failed := errors.Join(slices.Collect(maps.Values(j.errors))...)
	clear(j.errors)
	return failed
}
