package pipe

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"muster/agent/wire"
)

// Room keeps one direction of a channel at the gateway: bytes that were sent and are not known to have arrived. It is safe for concurrent
// use. The zero value is not ready: see NewRoom.
type Room struct {
	most int

	mu    sync.Mutex
	first int64  // where kept begins: all bytes before have arrived
	kept  []byte // at most most bytes
	ended bool   // nothing follows what is kept
	over  error  // why nothing moves any more; nil: it does
	news  chan struct{}
}

// NewRoom makes a Room for most bytes.
func NewRoom(most int) *Room { return &Room{most: most, news: make(chan struct{})} }

// Put keeps the part of a piece that is new and fits. If no new byte fits, it waits until there is room or ctx is done. next is where the
// sender goes on; all bytes before it are kept. The error is a *wire.ErrorDetail if the piece does not follow the bytes before it, or it is
// the error of Close. There is no error for a piece that is kept already, even after Close: its sender did not get the first answer.
func (r *Room) Put(ctx context.Context, at int64, p Piece) (next int64, err error) {
	r.until(ctx, func() (done bool) {
		next, done, err = r.put(at, p)
		return done
	})
	return next, err
}

// until tries something, with the lock held, after each change here until it is done or ctx is.
func (r *Room) until(ctx context.Context, try func() (done bool)) {
	for {
		r.mu.Lock()
		done := try()
		news := r.news
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Room) put(at int64, p Piece) (next int64, done bool, err error) {
	next = r.first + int64(len(r.kept))
	end := at + int64(len(p.Data))
	switch {
	case end <= next && !p.End, end == next && r.ended:
		return next, true, nil // known already
	case r.over != nil:
		return next, true, r.over
	case at > next:
		return next, true, broken(fmt.Sprintf("the bytes from %d to %d are missing", next, at))
	case r.ended && end > next, p.End && end < next:
		return next, true, broken("bytes come after the end")
	}
	fresh := p.Data[min(next-at, int64(len(p.Data))):]
	room := min(r.most-len(r.kept), len(fresh))
	if room == 0 && len(fresh) > 0 {
		return next, false, nil
	}
	r.kept = append(r.kept, fresh[:room]...)
	r.ended = p.End && room == len(fresh)
	r.ring()
	return next + int64(room), true, nil
}

// Get returns bytes from byte at on, most of them at most, and forgets the bytes before. If there are none, it waits until some come, until
// the end, or until ctx is done: then the piece is empty. The piece stays good. The error is the same as for Put, but Get still returns
// bytes that are kept, and the end, after Close. An end without bytes means that all bytes have arrived: an End asks until it gets that.
func (r *Room) Get(ctx context.Context, at int64, most int) (p Piece, err error) {
	r.until(ctx, func() bool {
		p, err = r.get(at, most)
		return len(p.Data) > 0 || p.End || err != nil
	})
	return p, err
}

func (r *Room) get(at int64, most int) (Piece, error) {
	last := r.first + int64(len(r.kept))
	if at < r.first || at > last {
		return Piece{}, broken(fmt.Sprintf("bytes from %d on were asked for, and those from %d to %d are here", at, r.first, last))
	}
	if at > r.first {
		r.forget(at)
	}
	if len(r.kept) == 0 && !r.ended && r.over != nil {
		return Piece{}, r.over
	}
	size := min(len(r.kept), most)
	return NewPiece(slices.Concat([]byte{markMore}, r.kept[:size]), r.ended && size == len(r.kept)), nil
}

// forget drops what has arrived.
func (r *Room) forget(at int64) {
	r.kept = r.kept[at-r.first:]
	if len(r.kept) == 0 {
		r.kept = nil // an idle session keeps no memory
	}
	r.first = at
	r.ring()
}

// Close ends Put at once, and Get when all bytes that are kept were fetched. Only the first error counts; it must not be nil.
func (r *Room) Close(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == nil {
		r.over = why
		r.ring()
	}
}

// Passed returns how many bytes were taken so far.
func (r *Room) Passed() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first + int64(len(r.kept))
}

// Free waits until there is room for some bytes, and returns for how many; 0: ctx is done, or nothing is taken any more. If only one
// goroutine calls Put, the room does not become smaller before its Put.
func (r *Room) Free(ctx context.Context) (free int) {
	r.until(ctx, func() bool {
		if r.over == nil {
			free = r.most - len(r.kept)
		}
		return r.over != nil || free > 0
	})
	return free
}

// Kept returns how many bytes wait here now.
func (r *Room) Kept() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.kept)
}

// ring wakes everybody who waits.
func (r *Room) ring() {
	close(r.news)
	r.news = make(chan struct{})
}

func broken(what string) error {
	return wire.Refuse(wire.CodeSessionBroken, "the channel is broken: "+what, "open the session again")
}
