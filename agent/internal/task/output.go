package task

import (
	"slices"
	"sync"

	"muster/agent/internal/child"
	"muster/agent/wire"
)

// output keeps the beginning and the end of what a task writes. Its methods are safe for concurrent use.
type output struct {
	news chan struct{} // holds one where something was written since it was last emptied

	mu    sync.Mutex
	head  child.Bounded
	tail  child.Tail // of what is beyond the head
	total int64
}

func newOutput() *output {
	return &output{news: make(chan struct{}, 1), head: child.Bounded{Most: wire.MaxTaskHead}, tail: child.Tail{Most: wire.MaxTaskTail}}
}

// Write never blocks for longer than a copy takes, and never fails.
func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	before := len(o.head.Kept)
	_, _ = o.head.Write(data)
	_, _ = o.tail.Write(data[len(o.head.Kept)-before:])
	o.total += int64(len(data))
	o.mu.Unlock()
	select {
	case o.news <- struct{}{}:
	default:
	}
	return len(data), nil
}

// log is what the result says of the output.
func (o *output) log() wire.TaskLog {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail := slices.Clone(o.tail.Bytes())
	return wire.TaskLog{Head: slices.Clone(o.head.Kept), Tail: tail, Bytes: o.total, Truncated: o.tail.Dropped > 0}
}

// since gives what was written from an offset on, as far as it is kept and at most so many bytes, and the offset at which that begins.
func (o *output) since(offset int64, most int) (data []byte, at int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := o.head.Kept
	at = offset
	if offset >= int64(len(kept)) {
		kept = o.tail.Bytes()
		begins := o.total - int64(len(kept))
		at = max(offset, begins)
		offset = at - begins
	}
	kept = kept[offset:]
	return slices.Clone(kept[:min(len(kept), most)]), at
}
