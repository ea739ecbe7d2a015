package session

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"

	"muster/agent/pipe"
	"muster/agent/wire"
)

const (
	mostWatchers = 16        // of one session
	watcherRoom  = 256 << 10 // bytes that one of them may be behind
)

// Watcher reads what the terminal of a session shows. The session never waits for it: a slow watcher loses what it has not taken.
type Watcher struct {
	leave func()

	mu    sync.Mutex
	kept  frameText
	lost  bool
	ended bool
	news  chan struct{} // holds one token when there is something
}

// Watch begins to read along, from now on. Everybody who may open such a session may watch it. Watching makes an event.
func (d *Service) Watch(ctx context.Context, who Caller, id string) (*Watcher, error) {
	s, row, err := d.find(ctx, who, id)
	if err != nil {
		return nil, err
	}
	if row.Type != wire.SessionShell {
		return nil, wire.Refuse(wire.CodeBadRequest, "a session of type "+row.Type+" has no terminal", "watch one of type "+wire.SessionShell)
	}
	if s == nil {
		return nil, wire.Refuse(wire.CodeSessionOver, "this session has ended already", "muster session play "+id+" shows its recording")
	}
	w := &Watcher{news: make(chan struct{}, 1)}
	w.leave = func() { s.unwatch(w) }
	if err := s.watch(w); err != nil {
		return nil, err
	}
	if err := d.Store.AddEvents(ctx, s.event("session.watched", who.Actor, d.Now())); err != nil {
		w.Close()
		return nil, err // nobody reads along unseen
	}
	return w, nil
}

func (s *live) watch(w *Watcher) error {
	s.main.mu.Lock()
	defer s.main.mu.Unlock()
	if ended, _ := s.over(); !ended.IsZero() {
		return wire.Refuse(wire.CodeSessionOver, "this session has ended already", "muster session play "+s.ID+" shows its recording")
	}
	if len(s.main.watchers) >= mostWatchers {
		return wire.Refuse(wire.CodeTooManyRequests, "this session is watched by as many as can be", "ask one of them to leave")
	}
	s.main.watchers = append(s.main.watchers, w)
	if s.main.size != nil {
		if data, err := json.Marshal(s.main.size); err == nil {
			w.add(pipe.FrameSize, data)
		}
	}
	return nil
}

func (s *live) unwatch(w *Watcher) {
	s.main.mu.Lock()
	defer s.main.mu.Unlock()
	s.main.watchers = slices.DeleteFunc(s.main.watchers, func(other *Watcher) bool { return other == w })
}

func (s *live) watched() bool {
	s.main.mu.Lock()
	defer s.main.mu.Unlock()
	return len(s.main.watchers) > 0
}

func (s *live) tellWatchers(kind pipe.FrameKind, data []byte) {
	s.main.mu.Lock()
	defer s.main.mu.Unlock()
	for _, w := range s.main.watchers {
		w.add(kind, data)
	}
}

func (s *live) endWatchers(exit *int64) {
	s.main.mu.Lock()
	defer s.main.mu.Unlock()
	for _, w := range s.main.watchers {
		if exit != nil {
			if data, err := json.Marshal(pipe.Exit{Code: int(*exit)}); err == nil {
				w.add(pipe.FrameExit, data)
			}
		}
		w.end()
	}
	s.main.watchers = nil
}

func (w *Watcher) add(kind pipe.FrameKind, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.kept)+len(data) > watcherRoom {
		w.kept = nil
		w.lost = true
	}
	_ = pipe.WriteFrame(&w.kept, kind, data) // a frame that was read is not too long to be written
	w.ring()
}

func (w *Watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.ring()
}

// ring wakes the reader. The lock is held.
func (w *Watcher) ring() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// Next returns the next frames, as bytes, as soon as there are some. The error is io.EOF when the session has ended, and that of ctx.
func (w *Watcher) Next(ctx context.Context) ([]byte, error) {
	for {
		frames, ended := w.taken()
		if len(frames) > 0 {
			return frames, nil
		}
		if ended {
			return nil, io.EOF
		}
		select {
		case <-w.news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (w *Watcher) taken() (frames []byte, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost {
		var note frameText
		_ = pipe.WriteFrame(&note, pipe.FrameNotice, []byte("some of the output is left out: this end is too slow"))
		frames = note
	}
	frames = append(frames, w.kept...)
	w.kept = nil
	w.lost = false
	return frames, w.ended
}

// Close stops watching. The session goes on.
func (w *Watcher) Close() { w.leave() }
