package task

import (
	"slices"
	"sync"

	"muster/agent/wire"
)

// output keeps the beginning and the end of what a task writes. Its methods are safe for concurrent use.
type output struct {
	news chan struct{} // holds one where something was written since it was last emptied

	mu    sync.Mutex
	head  []byte
	tail  []byte // what was written last, beyond the head: up to twice wire.MaxTaskTail
	total int64
}

func newOutput() *output { return &output{news: make(chan struct{}, 1)} }

// Write never blocks for longer than a copy takes, and never fails.
func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	o.keep(data)
	o.mu.Unlock()
	select {
	case o.news <- struct{}{}:
	default:
	}
	return len(data), nil
}

func (o *output) keep(data []byte) {
	o.total += int64(len(data))
	first := min(len(data), wire.MaxTaskHead-len(o.head))
	o.head = append(o.head, data[:first]...)
	data = data[first:]
	if beyond := len(data) - wire.MaxTaskTail; beyond > 0 { // what is before it is not kept, so the tail begins anew
		o.tail = o.tail[:0]
		data = data[beyond:]
	}
	o.tail = append(o.tail, data...)
	if len(o.tail) > 2*wire.MaxTaskTail {
		kept := copy(o.tail, o.tail[len(o.tail)-wire.MaxTaskTail:])
		o.tail = o.tail[:kept]
	}
}

// log is what the result says of the output.
func (o *output) log() wire.TaskLog {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail := o.tail[max(0, len(o.tail)-wire.MaxTaskTail):]
	return wire.TaskLog{
		Head: slices.Clone(o.head), Tail: slices.Clone(tail), Bytes: o.total, Truncated: int64(len(o.head)+len(tail)) < o.total,
	}
}

// since gives what was written from an offset on, as far as it is kept and at most so many bytes, and the offset at which that begins.
func (o *output) since(offset int64, most int) (data []byte, at int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := o.head
	at = offset
	if offset >= int64(len(o.head)) {
		kept = o.tail
		begins := o.total - int64(len(o.tail))
		at = max(offset, begins)
		offset = at - begins
	}
	kept = kept[offset:]
	return slices.Clone(kept[:min(len(kept), most)]), at
}
