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

// NewRoom makes a Room for so many bytes.
func NewRoom(most int) *Room { return &Room{most: most, news: make(chan struct{})} }

// Put keeps the part of a piece that is new and has room. If nothing of it has, it waits until there is room or ctx is done. next is
// where the sender goes on; all before is kept. The error is a *wire.ErrorDetail where the piece does not follow what is there, or the
// error of Close. A piece that is kept already is none, also after Close: its sender did not get the first answer.
func (r *Room) Put(ctx context.Context, at int64, p Piece) (next int64, err error) {
	for {
		next, done, news, err := r.put(at, p)
		if done || err != nil {
			return next, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return next, nil
		}
	}
}

func (r *Room) put(at int64, p Piece) (next int64, done bool, news chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next = r.first + int64(len(r.kept))
	end := at + int64(len(p.Data))
	switch {
	case end <= next && !p.End, end == next && r.ended:
		return next, true, nil, nil // known already
	case r.over != nil:
		return next, true, nil, r.over
	case at > next:
		return next, true, nil, broken(fmt.Sprintf("the bytes from %d to %d are missing", next, at))
	case r.ended && end > next, p.End && end < next:
		return next, true, nil, broken("bytes come after the end")
	}
	fresh := p.Data[min(next-at, int64(len(p.Data))):]
	room := min(r.most-len(r.kept), len(fresh))
	if room == 0 && len(fresh) > 0 {
		return next, false, r.news, nil
	}
	r.kept = append(r.kept, fresh[:room]...)
	r.ended = p.End && room == len(fresh)
	r.ring()
	return next + int64(room), true, nil, nil
}

// Get gives the bytes from this one on, so many at most, and forgets those before. If there are none it waits until some come,
// until the end, or until ctx is done: then the piece is empty. The piece stays good. The error is as with Put, but what is kept is given
// also after Close, its end too. An end without bytes means that all bytes have arrived: an End asks until it gets that.
func (r *Room) Get(ctx context.Context, at int64, most int) (Piece, error) {
	for {
		p, news, err := r.get(at, most)
		if len(p.Data) > 0 || p.End || err != nil {
			return p, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return Piece{}, nil
		}
	}
}

func (r *Room) get(at int64, most int) (Piece, chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.first + int64(len(r.kept))
	if at < r.first || at > last {
		return Piece{}, nil, broken(fmt.Sprintf("bytes from %d on were asked for, and those from %d to %d are here", at, r.first, last))
	}
	if at > r.first {
		r.forget(at)
	}
	if len(r.kept) == 0 && !r.ended && r.over != nil {
		return Piece{}, nil, r.over
	}
	size := min(len(r.kept), most)
	return NewPiece(slices.Concat([]byte{markMore}, r.kept[:size]), r.ended && size == len(r.kept)), r.news, nil
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

// Close ends both: Put at once, Get when all that is kept was fetched. The first error counts, and must not be nil.
func (r *Room) Close(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == nil {
		r.over = why
		r.ring()
	}
}

// Passed is how many bytes were taken so far.
func (r *Room) Passed() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first + int64(len(r.kept))
}

// Free waits until there is room for some bytes, and tells for how many; 0: ctx is done, or nothing is taken any more. While one alone
// puts, there is never less.
func (r *Room) Free(ctx context.Context) int {
	for {
		r.mu.Lock()
		free := r.most - len(r.kept)
		over := r.over != nil
		news := r.news
		r.mu.Unlock()
		if over {
			return 0
		}
		if free > 0 {
			return free
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0
		}
	}
}

// Kept is how many bytes wait here now.
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
