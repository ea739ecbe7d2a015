package task_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/task"
)

// ended is what a wait gave, and when.
type ended struct {
	signed *wire.SignedTask
	err    error
	after  time.Duration
}

// waits begins a wait and gives its end. The caller is in a bubble of synctest.
func (h *hall) waits(ctx context.Context, c task.Claimer, within time.Duration) <-chan ended {
	begin := time.Now()
	end := make(chan ended, 1)
	go func() {
		signed, err := h.Wait(ctx, c, within, task.Takes{Tasks: true})
		end <- ended{signed, err, time.Since(begin)}
	}()
	synctest.Wait()
	return end
}

// TestWaitIsWoken: a new task ends a wait at once, and what is for another node does not.
func TestWaitIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, "n", "m")
		end := h.waits(context.Background(), h.claimer("n"), wire.MaxTaskWait)
		time.Sleep(10 * time.Second) // of the bubble
		h.make("m", wire.TaskDiagCollect)
		synctest.Wait()
		if len(end) != 0 {
			t.Error("woken by another node's task")
		}
		h.make("n", wire.TaskDiagCollect)
		if got := <-end; got.signed == nil || got.err != nil || got.after != 10*time.Second {
			t.Errorf("got %+v", got)
		}
	})
}

// TestWaitEnds: by its time, by a later wait, by its caller, by the gateway's end.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, "n")
		n := h.claimer("n")
		ctx, hangUp := context.WithCancel(context.Background())
		if got := <-h.waits(ctx, n, 20*time.Second); got.signed != nil || got.err != nil || got.after != 20*time.Second {
			t.Errorf("its time is over: got %+v", got)
		}
		first := h.waits(ctx, n, time.Minute)
		second := h.waits(ctx, n, time.Minute)
		if got := <-first; got.signed != nil || got.err != nil || got.after != 0 {
			t.Errorf("another wait came: got %+v", got)
		}
		hangUp()
		if got := <-second; got.signed != nil || got.err != nil || got.after != 0 {
			t.Errorf("its caller hung up: got %+v", got)
		}
		third := h.waits(context.Background(), n, time.Minute)
		stop, cancel := context.WithCancel(context.Background())
		cancel()
		must(t, h.Run(stop))
		must(t, h.Run(stop)) // again
		if got := <-third; got.signed != nil || got.err != nil || got.after != 0 {
			t.Errorf("the gateway stops: got %+v", got)
		}
		if got := <-h.waits(context.Background(), n, time.Minute); got.signed != nil || got.after != 0 {
			t.Errorf("the gateway has stopped: got %+v", got)
		}
	})
}

// TestWaitLooksAgain: what holds a task back can end without a word to the desk. And what is over costs no further looks.
func TestWaitLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, "n")
		n := h.claimer("n")
		h.move("n", "active", "drained")
		_, _, err := h.Create(context.Background(), "", task.Request{Node: "n", Type: wire.TaskProvisionUser,
			Params: []byte(`{"username":"ada"}`)}, operator())
		must(t, err)
		end := h.waits(context.Background(), n, wire.MaxTaskWait)
		time.Sleep(12 * time.Second)
		h.move("n", "drained", "active")
		if got := <-end; got.signed == nil || got.after != 15*time.Second {
			t.Errorf("got %+v", got)
		}
		h.again("n")
		if h.Waiting("id-n") != 1 {
			t.Errorf("%d wait", h.Waiting("id-n"))
		}
		if got := h.take(n); got != "" || h.Waiting("id-n") != 0 {
			t.Errorf("got %q, and %d wait", got, h.Waiting("id-n"))
		}
	})
}

// TestNextOfType: the end of a task wakes the wait for the next one of its type.
func TestNextOfType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, "n")
		n := h.claimer("n")
		first := h.make("n", wire.TaskDiagCollect).ID
		second := h.make("n", wire.TaskDiagCollect).ID
		if got := h.take(n); got != first {
			t.Fatalf("got %q", got)
		}
		h.begin(n, first)
		end := h.waits(context.Background(), n, wire.MaxTaskWait)
		time.Sleep(time.Second)
		h.end(n, first)
		if got := <-end; got.signed == nil || got.after != time.Second {
			t.Errorf("got %+v", got)
		}
		if got := h.get(second).Status; got != wire.TaskDispatched {
			t.Errorf("the second is %s", got)
		}
	})
}

// TestHintsAfterStart: a new desk knows from the database what waits.
func TestHintsAfterStart(t *testing.T) {
	h := newHall(t, "n", "m")
	id := h.make("n", wire.TaskDiagCollect).ID
	h.open()
	if h.Waiting("id-n") != 1 || h.Waiting("id-m") != 0 {
		t.Errorf("got %d and %d", h.Waiting("id-n"), h.Waiting("id-m"))
	}
	if got := h.take(h.claimer("n")); got != id {
		t.Errorf("got %q", got)
	}
}

// TestWaitOfClosedStore: a database that fails is an error of the wait, and not its end without a task.
func TestWaitOfClosedStore(t *testing.T) {
	h := newHall(t, "n")
	h.make("n", wire.TaskDiagCollect)
	must(t, h.store.Close())
	if _, err := h.Wait(t.Context(), h.claimer("n"), 0, task.Takes{Tasks: true}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestMoved: that a task was given out, and that it has begun, is told once each; what is refused is not.
func TestMoved(t *testing.T) {
	h := newHall(t, "n", "m")
	n := h.claimer("n")
	made := h.make("n", wire.TaskDiagCollect)
	id := h.take(n)
	if _, err := h.Started(t.Context(), h.claimer("m"), id); err == nil {
		t.Error("another node has begun with it")
	}
	h.begin(n, id)
	want := n.NodeID + " " + made.ID
	if got := fmt.Sprint(h.moved); got != fmt.Sprint([]string{want, want}) {
		t.Errorf("told %s", got)
	}
}

// TestAside: what is aside comes first and ends a wait at once, for who takes it. Who takes nothing else gets no task.
func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, "n")
		n := h.claimer("n")
		aside := func() *wire.SignedTask {
			if len(h.aside) == 0 {
				return nil
			}
			first := h.aside[0]
			h.aside = h.aside[1:]
			return first
		}
		both := task.Takes{Tasks: true, Aside: aside}
		waits := func(takes task.Takes, within time.Duration) <-chan ended {
			begin := time.Now()
			end := make(chan ended, 1)
			go func() {
				signed, err := h.Wait(context.Background(), n, within, takes)
				end <- ended{signed, err, time.Since(begin)}
			}()
			synctest.Wait()
			return end
		}
		end := waits(both, time.Minute)
		document := &wire.SignedTask{Payload: []byte("a session")}
		h.aside = append(h.aside, document)
		time.Sleep(time.Second) // of the bubble
		h.Ring("id-n")
		if got := <-end; got.signed != document || got.after != time.Second {
			t.Errorf("rung: got %+v", got)
		}
		h.make("n", wire.TaskDiagCollect)
		h.aside = append(h.aside, document)
		if got := <-waits(task.Takes{Tasks: true}, time.Minute); got.signed == nil || got.signed == document {
			t.Errorf("for tasks alone: got %+v", got)
		}
		if got := <-waits(both, time.Minute); got.signed != document || got.after != 0 {
			t.Errorf("for both: got %+v", got)
		}
		h.make("n", wire.TaskAgentRestart)
		if got := <-waits(task.Takes{Aside: aside}, time.Minute); got.signed != nil || got.after != time.Minute {
			t.Errorf("for sessions alone: got %+v", got)
		}
		h.Ring("nobody")
	})
}

// TestWaitReports: a wait that takes it ends when its node should report. One that does not take it goes on, and a node that does not wait
// is told nothing later.
func TestWaitReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, "n")
		h.Report("id-n")
		h.Report("id-nobody")
		for _, takes := range []bool{false, true, true} {
			begin := time.Now()
			end := make(chan error, 1)
			go func() {
				_, err := h.Wait(context.Background(), h.claimer("n"), wire.MaxTaskWait, task.Takes{Tasks: true, Report: takes})
				end <- err
			}()
			synctest.Wait()
			time.Sleep(time.Second) // of the bubble
			h.Report("id-n")
			err := <-end
			if after := time.Since(begin); takes != errors.Is(err, task.ErrReport) || takes != (after == time.Second) {
				t.Errorf("takes it: %t: got %v after %s", takes, err, after)
			}
		}
	})
}
