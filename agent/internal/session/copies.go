package session

import (
	"context"
	"errors"
	"maps"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// quietTime is how long a copy waits for its operator until another copy of the same file may take its place. The operator of the first
	// one may have been killed, and the gateway misses it only after wire.SessionBridge.
	quietTime = 2 * time.Second
	// busyTime is how long the other copy waits for that.
	busyTime = 5 * time.Second
	lockPace = 50 * time.Millisecond
)

var errTaken = errors.New("another copy of the same file goes on in its place")

// copies are the copies that write a partial file now. The zero value is ready. It is safe for concurrent use.
type copies struct {
	mu  sync.Mutex
	all map[fileID]*copying
}

// fileID names a file while it is open.
type fileID struct{ device, inode uint64 }

func (all *copies) enter(id fileID, c *copying) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.all == nil {
		all.all = map[fileID]*copying{}
	}
	all.all[id] = c
}

func (all *copies) leave(c *copying) {
	all.mu.Lock()
	defer all.mu.Unlock()
	maps.DeleteFunc(all.all, func(_ fileID, other *copying) bool { return other == c })
}

// holder is the copy that writes a file; nil: none of this agent does.
func (all *copies) holder(id fileID) *copying {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.all[id]
}

// lock takes the lock of a partial file. It ends the copy that has it, where that one waits for an operator who says nothing.
func (c *copying) lock(part *os.File) error {
	info, err := part.Stat()
	if err != nil {
		return err
	}
	is := info.Sys().(*syscall.Stat_t)
	id := fileID{uint64(is.Dev), is.Ino}
	for began := time.Now(); ; {
		if syscall.Flock(int(part.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			c.all.enter(id, c)
			return nil
		}
		holder := c.all.holder(id)
		if holder == nil || time.Since(began) > busyTime {
			return errors.New("the same file is being copied there already: wait for that")
		}
		if holder.quiet() {
			holder.cancel(errTaken)
		}
		select {
		case <-time.After(lockPace):
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	}
}

// quiet tells whether a copy has waited long for its operator.
func (c *copying) quiet() bool {
	since := c.waits.Load()
	return since != 0 && time.Since(time.Unix(0, since)) > quietTime
}
