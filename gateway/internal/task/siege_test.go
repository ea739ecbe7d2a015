package task_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/task"
	"muster/store"
)

// TestSiege: everything at once on one node, and then its retirement. Each task has one end on record, whatever came first. It fails where
// an ending takes tasks that have ended. That no second result counts is for the tests of package store: here that race is too rare.
func TestSiege(t *testing.T) {
	h := newHall(t, "n")
	h.heard("n")
	ctx := context.Background()
	types := []string{wire.TaskDiagCollect, wire.TaskWorkloadStatus, wire.TaskAgentRestart}
	var claimer atomic.Pointer[task.Claimer]
	first := h.claimer("n")
	claimer.Store(&first)
	var open sync.Map
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 15 {
				made, _, err := h.Create(ctx, "", task.Request{Node: "n", Type: types[i%3]}, operator())
				if err != nil {
					t.Error(err)
					return
				}
				open.Store(made.ID, true)
			}
		})
		all.Go(func() {
			for range 40 {
				h.work(ctx, *claimer.Load())
			}
		})
	}
	all.Go(func() {
		for range 30 {
			open.Range(func(id, _ any) bool {
				_, _ = h.Cancel(ctx, "", id.(string), operator())
				open.Delete(id)
				return false
			})
			h.clock.Forward(7 * time.Second)
			if err := h.Sweep(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	all.Go(func() {
		next := h.renew("n")
		claimer.Store(&next)
	})
	all.Wait()
	h.move("n", "active", "retired")
	h.work(ctx, *claimer.Load())
	h.oneEndEach()
}

// work does what a node does with its next task: also with certificates and tasks that are over.
func (h *hall) work(ctx context.Context, c task.Claimer) {
	signed, err := h.Wait(ctx, c, 0, task.Takes{Tasks: true})
	if err != nil || signed == nil {
		return
	}
	id := h.opened(signed).TaskID
	progress, err := h.Started(ctx, c, id)
	status := wire.TaskCompleted
	if err != nil || progress.Cancel {
		status = wire.TaskCanceled
	}
	_, _ = h.Output(ctx, c, id, wire.TaskOutput{Data: []byte("done")})
	body := result(func(r *wire.TaskResult) { r.Status = status })
	var crowd sync.WaitGroup
	for range 8 {
		crowd.Go(func() { _ = h.Result(ctx, c, id, body) })
	}
	crowd.Wait()
}

// oneEndEach wants every task to have ended, with one event of its end.
func (h *hall) oneEndEach() {
	h.t.Helper()
	events, err := h.store.Events(context.Background(), store.EventQuery{Limit: 1000})
	must(h.t, err)
	ends := map[string][]string{}
	for _, e := range events {
		switch e.Kind {
		case "task.finished", "task.canceled", "task.lost", "task.expired":
			ends[e.Detail["task"]] = append(ends[e.Detail["task"]], e.Kind+" "+e.Outcome)
		}
	}
	tasks, _, err := h.Tasks(context.Background(), store.TaskQuery{Limit: 1000})
	must(h.t, err)
	for _, q := range tasks {
		if !wire.TaskEnded(q.Status) || len(ends[q.ID]) != 1 {
			h.t.Errorf("%s is %s, with the events %q", q.ID, q.Status, ends[q.ID])
		}
	}
}
