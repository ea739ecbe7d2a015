package task_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/task"
)

// TestHold: what ends this process waits for the tasks that run, and none begins after it has held the worker.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handle = func(context.Context, task.Job) task.Outcome { time.Sleep(3 * time.Minute); return task.Outcome{} }
		d.diag()
		d.cfg.Client = d.client()
		w := task.New(d.cfg)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{}, 2)
		early, stop := context.WithTimeout(ctx, time.Second)
		if _, ok := w.Hold(early); ok {
			t.Error("held before the tasks of an earlier run were taken up")
		}
		stop()
		go func() { _ = w.Run(ctx); ended <- struct{}{} }()
		go func() {
			defer func() { ended <- struct{}{} }()
			for ctx.Err() == nil {
				bounded, cut := context.WithTimeout(ctx, 30*time.Second)
				until, _ := bounded.Deadline()
				_ = w.Wait(bounded, d.state, until)
				cut()
			}
		}()
		time.Sleep(time.Minute)
		if _, ok := w.Hold(ctx); ok || d.begun() != 1 {
			t.Errorf("held while a task is at work, %d begun", d.begun())
		}
		time.Sleep(3 * time.Minute)
		release, ok := w.Hold(ctx)
		if !ok {
			t.Fatal("not held although nothing is at work")
		}
		d.handle = nil
		d.diag()
		time.Sleep(5*time.Minute + 7*time.Second) // not at the end of a wait: a task that is given then is given again only later
		if d.begun() != 1 {
			t.Error("a task began while the worker was held")
		}
		if _, ok := w.Hold(early); ok {
			t.Error("held twice")
		}
		release()
		time.Sleep(time.Minute)
		if d.begun() != 2 {
			t.Error("no task begins any more")
		}
		cancel()
		<-ended
		<-ended
	})
}
