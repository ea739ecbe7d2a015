package task

import (
	"context"
	"slices"

	"muster/agent/wire"
)

// turn is what keeps other tasks of its type, and those on its subject, from being done at the same time.
type turn struct {
	kind    string
	subject wire.TaskSubject
}

func (t *turn) meets(o *turn) bool { return t.kind == o.kind || t.subject.Meets(o.subject) }

// takeTurn waits until t meets no turn of another task. It reports false if ctx is done, also if that is so from the start.
func (w *Worker) takeTurn(ctx context.Context, t *turn) bool {
	for ctx.Err() == nil {
		w.mu.Lock()
		free := !slices.ContainsFunc(w.turns, t.meets)
		if free {
			w.turns = append(w.turns, t)
		}
		freed := w.freed
		w.mu.Unlock()
		if free {
			return true
		}
		select {
		case <-freed:
		case <-ctx.Done():
		}
	}
	return false
}

func (w *Worker) endTurn(t *turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns = slices.DeleteFunc(w.turns, func(o *turn) bool { return o == t })
	close(w.freed)
	w.freed = make(chan struct{})
}
