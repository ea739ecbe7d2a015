package session_test

import (
	"sync"
	"testing"

	"muster/agent/pipe"
	"muster/store/engine"
)

// TestNobodyWatchesUnseen: if it cannot be stored that somebody watches, nobody does.
func TestNobodyWatchesUnseen(t *testing.T) {
	h := newHall(t, "box")
	id, _ := h.shell("box")
	_, err := h.store.Records().Batch(t.Context(), []engine.Statement{engine.Do("ALTER TABLE events RENAME COLUMN outcome TO away")})
	must(t, err)
	if w, err := h.Watch(t.Context(), mallory(), id); err == nil {
		t.Errorf("it is watched without an event: %v", w)
	}
}

// TestWatchersComeAndGo: those who stay see all of it, while others come and leave.
func TestWatchersComeAndGo(t *testing.T) {
	h := newHall(t, "box")
	id, sent := h.shell("box")
	stays, err := h.Watch(t.Context(), alice(), id)
	must(t, err)
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for range 25 {
				w, err := h.Watch(t.Context(), mallory(), id)
				if err != nil {
					t.Error(err)
					return
				}
				w.Close()
			}
		})
	}
	want := ""
	for range 100 {
		h.says("box", id, sent, frame(pipe.FrameOutput, "x"))
		want += string(frame(pipe.FrameOutput, "x"))
	}
	others.Wait()
	if got, err := stays.Next(t.Context()); err != nil || string(got) != want {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
}
