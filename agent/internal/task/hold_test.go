package task_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/task"
	"muster/agent/wire"
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

// TestIdle: a restart waits for the tasks at work, and none begins meanwhile. It does not wait for work that was given up.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		back := make(chan bool)
		d.handle = func(_ context.Context, job task.Job) task.Outcome {
			if job.Type == wire.TaskDiagCollect {
				time.Sleep(3 * time.Minute)
			} else {
				<-back // whoever tells it to end
			}
			return task.Outcome{}
		}
		d.give(d.payload(wire.TaskWorkloadStatus, `{"name":"train","timeout_seconds":5}`))
		d.diag()
		d.cfg.Client = d.client()
		w := task.New(d.cfg)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{}, 2)
		early, stop := context.WithTimeout(ctx, time.Second)
		if w.Idle(early) {
			t.Error("idle before the tasks of an earlier run were taken up")
		}
		stop()
		began := time.Now()
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
		early, stop = context.WithTimeout(ctx, time.Minute)
		if w.Idle(early) || d.begun() != 2 {
			t.Errorf("idle while a task is at work, %d begun", d.begun())
		}
		stop()
		idle := w.Idle(ctx)
		if took := time.Since(began); !idle || took < 3*time.Minute || took > 3*time.Minute+35*time.Second {
			t.Errorf("idle %t after %s", idle, took)
		}
		d.diag()
		time.Sleep(5*time.Minute + 7*time.Second)
		if d.begun() != 2 {
			t.Error("a task began before the restart")
		}
		cancel()
		close(back)
		<-ended
		<-ended
	})
}
