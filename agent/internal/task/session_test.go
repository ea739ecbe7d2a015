package task_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/task"
	"muster/agent/sign"
	"muster/agent/wire"
)

// asked is what the waits asked for, the same ones in a row once.
func asked(d *desk) string {
	var all []string
	for _, q := range d.g.Requests("/tasks/wait") {
		one := q.Query.Get(wire.TaskWaitFor)
		if len(all) == 0 || all[len(all)-1] != one {
			all = append(all, one)
		}
	}
	return strings.Join(all, " ")
}

// opens makes the worker one of a node that opens sessions.
func opens(d *desk) *[]string {
	var opened []string
	d.cfg.Session = func(_ identity.State, p wire.TaskPayload, key ed25519.PublicKey) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !key.Equal(d.key.Public()) {
			d.t.Errorf("signed by %x", key)
		}
		opened = append(opened, p.TaskID)
	}
	return &opened
}

func (d *desk) session() string {
	p := d.payload(wire.SessionShell, `{}`)
	p.TaskID = wire.NewSessionID()
	return d.give(p)
}

// TestSession: a session goes to who opens it, and to no journal. A forged one goes to nobody.
func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		opened := opens(d)
		id := d.session()
		forged := d.payload(wire.SessionShell, `{}`)
		forged.TaskID = wire.NewSessionID()
		raw, err := json.Marshal(forged)
		if err != nil {
			t.Fatal(err)
		}
		work := d.diag()
		d.giveSigned(sign.SealTask(newKey(t), raw))
		d.run(2 * time.Minute)
		if len(*opened) != 1 || (*opened)[0] != id || strings.Contains(d.journal(), id) ||
			len(d.results) != 1 || d.results[work].Status != wire.TaskCompleted {
			t.Errorf("opened %v, results %v", *opened, d.results)
		}
		if got := asked(d); got != "tasks,sessions,report" {
			t.Errorf("asked for %s", got)
		}
	})
}

// TestSessionWhileFull: with all slots taken, and while tasks are kept out, the node asks for sessions, and for tasks as soon as it can.
func TestSessionWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		opened := opens(d)
		d.handle = func(context.Context, task.Job) task.Outcome {
			time.Sleep(2*time.Minute + time.Second)
			return task.Outcome{}
		}
		for range 5 { // of one type, one after the other: each has a slot
			d.diag()
		}
		go func() { time.Sleep(time.Minute); d.session() }()
		d.run(4 * time.Minute)
		if len(*opened) != 1 || d.begun() < 2 {
			t.Errorf("opened %v, %d tasks begun", *opened, d.begun())
		}
		const both, alone = "tasks,sessions,report", "sessions,report"
		if got := asked(d); got != both+" "+alone+" "+both+" "+alone && got != both+" "+alone+" "+both {
			t.Errorf("asked for %s", got)
		}
	})
}

// TestSessionWhileHeld: while an update keeps tasks out, sessions are asked for.
func TestSessionWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		opened := opens(d)
		d.cfg.Client = d.client()
		defer d.cfg.Client.Close()
		w := task.New(d.cfg)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = w.Run(ctx) }()
		release, ok := w.Hold(ctx)
		if !ok {
			t.Fatal("not held")
		}
		d.session()
		bounded, cut := context.WithTimeout(ctx, 30*time.Second)
		if err := w.Wait(bounded, d.state, time.Now().Add(30*time.Second)); err != nil {
			t.Error(err)
		}
		cut()
		if len(*opened) != 1 || asked(d) != "sessions,report" {
			t.Errorf("opened %v, asked for %s", *opened, asked(d))
		}
		began := time.Now()
		go func() { time.Sleep(5 * time.Second); release() }()
		if err := w.Wait(ctx, d.state, time.Now().Add(30*time.Second)); err != nil || time.Since(began) > 6*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		cancel()
		<-ended
	})
}

// TestReportNow: the gateway's word that there are news makes the node report, once in a second however often it comes, and is no task.
func TestReportNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		var told []time.Time
		d.cfg.News = func() { told = append(told, time.Now()) }
		d.reports = 3
		d.run(time.Minute)
		if len(told) != 3 || told[1].Sub(told[0]) < time.Second || told[2].Sub(told[1]) < time.Second || told[2].Sub(told[0]) > 5*time.Second {
			t.Errorf("told at %v", told)
		}
		if d.did() != "" || strings.Contains(d.log.String(), "refused") {
			t.Errorf("it did %q\n%s", d.did(), &d.log)
		}
	})
}
