package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/task"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// TestAtMostOnce cuts the journal of a whole life off after every few bytes, as a power cut could, and starts the agent on what is left
// while the gateway gives the task again. Once the journal says that the handler began, it never begins again.
func TestAtMostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handle = func(_ context.Context, job task.Job) task.Outcome {
			job.Output.Write([]byte("x"))
			return task.Outcome{}
		}
		d.diag()
		signed := d.queue[0]
		d.refuse = func(step, _ string) *gatewaytest.Reply { // so that every step stays in the journal
			if step == "result" {
				return gatewaytest.Refusal(503, wire.CodeUnavailable)
			}
			return nil
		}
		d.run(10 * time.Second)
		d.refuse = nil
		raw := d.journal()
		file := filepath.Join(d.cfg.Folder, task.JournalFile)
		cuts := []int{0}
		for cut := range raw {
			if cut%37 == 0 || raw[cut] == '\n' {
				cuts = append(cuts, cut, cut+1)
			}
		}
		counts := map[int]int{}
		for _, cut := range cuts {
			if err := os.WriteFile(file, []byte(raw[:cut]), 0o600); err != nil {
				t.Fatal(err)
			}
			d.jobs = nil
			d.results = map[string]wire.TaskResult{}
			d.giveSigned(signed)
			d.run(10 * time.Second)
			whole := raw[:strings.LastIndexByte(raw[:cut], '\n')+1]
			began := strings.Contains(whole, `"step":"started"`)
			ended := strings.Contains(whole, `"step":"finished"`)
			want := 1
			if began {
				want = 0
			}
			if len(d.jobs) != want || len(d.results) != 1 {
				t.Errorf("cut at %d of %d: begun %d times, %d results", cut, len(raw), len(d.jobs), len(d.results))
			}
			for _, r := range d.results {
				if interrupted := r.Code == wire.TaskInterrupted; interrupted != (began && !ended) || interrupted == (r.Status == wire.TaskCompleted) {
					t.Errorf("cut at %d: %+v", cut, r)
				}
			}
			counts[strings.Count(whole, "\n")]++
		}
		if len(counts) != 5 { // nothing, the horizon, accepted, started, finished
			t.Errorf("%v\n%s", counts, raw)
		}
	})
}

// TestSameResultAgain: what a later run of the agent sends has the same bytes, by which the gateway knows it.
func TestSameResultAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handle = func(_ context.Context, job task.Job) task.Outcome {
			job.Output.Write([]byte("<a>\xff\n"))
			return task.Outcome{ExitCode: 3, Error: "it <failed>", Values: wire.TaskValues{"b": json.RawMessage(`{"x": "<y>"}`), "a": []byte("1")}}
		}
		d.refuse = func(string, string) *gatewaytest.Reply { return nil }
		id := d.diag()
		d.refuse = func(step, _ string) *gatewaytest.Reply {
			if step == "result" && len(d.bodies[step]) < 4 {
				return gatewaytest.Refusal(503, wire.CodeUnavailable)
			}
			return nil
		}
		d.run(time.Second)
		d.run(time.Minute)
		d.run(time.Minute)
		all := d.bodies["result"]
		same := slices.CompactFunc(slices.Clone(all), func(a, b []byte) bool { return string(a) == string(b) })
		if r := d.result(id); len(all) != 4 || len(same) != 1 || r.Status != wire.TaskFailed || *r.ExitCode != 3 || r.Error != "it <failed>" {
			t.Errorf("%d results, %d different: %q", len(all), len(same), same)
		}
		if strings.Contains(d.journal(), "signed") {
			t.Errorf("the journal keeps a task that is reported: %s", d.journal())
		}
	})
}

// TestGivenAgain: the gateway gives the same task again, now and after a restart. It is begun once.
func TestGivenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.diag()
		signed := d.queue[0]
		d.giveSigned(signed)
		d.run(time.Minute)
		d.giveSigned(signed)
		d.run(time.Minute)
		if d.begun() != 1 || d.did() != "started result" {
			t.Errorf("begun %d times: %s", d.begun(), d.did())
		}
	})
}

// TestCancel: a task is canceled before it begins, while it waits for another of its type, and while it runs.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		asked := make(chan time.Time, 1)
		d.handle = func(ctx context.Context, job task.Job) task.Outcome {
			<-ctx.Done()
			asked <- time.Now()
			return task.Failed(context.Cause(ctx))
		}
		before := d.diag()
		d.cancel[before] = true
		var running, waiting string
		var at time.Time
		go func() {
			time.Sleep(10 * time.Second)
			running = d.diag()
			time.Sleep(time.Second) // of two at once either may begin
			waiting = d.diag()
			time.Sleep(9 * time.Second)
			d.mu.Lock()
			d.cancel[waiting] = true
			d.mu.Unlock()
			time.Sleep(10 * time.Second)
			at = time.Now()
			d.mu.Lock()
			d.cancel[running] = true
			d.mu.Unlock()
		}()
		d.run(time.Minute)
		for _, id := range []string{before, waiting, running} {
			if r := d.result(id); r.Status != wire.TaskCanceled || (r.StartedAt != nil) != (id == running) || r.Error == "" {
				t.Errorf("%+v", r)
			}
		}
		if took := (<-asked).Sub(at); took > wire.TaskPulse || d.begun() != 1 {
			t.Errorf("the handler was asked after %v; %d began", took, d.begun())
		}
	})
}

// TestDoneAllTheSame: a handler that has done its work although it was asked to end has completed it.
func TestDoneAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handle = func(ctx context.Context, _ task.Job) task.Outcome { <-ctx.Done(); return task.Outcome{} }
		id := d.give(d.payload(wire.TaskDiagCollect, `{"timeout_seconds":5}`))
		d.run(time.Minute)
		if r := d.result(id); r.Status != wire.TaskCompleted {
			t.Errorf("%+v", r)
		}
	})
}

// TestBadHandlers: whatever a handler does, its task ends with the reason, and the next one of its type has its turn.
func TestBadHandlers(t *testing.T) {
	for _, c := range []struct {
		name   string
		handle func(ctx context.Context, job task.Job) task.Outcome
		code   string
		says   string
		took   time.Duration
	}{
		{"panics", func(context.Context, task.Job) task.Outcome { panic("at once") }, "", "a fault in this type of task: at once", 0},
		{"takes too long", func(ctx context.Context, _ task.Job) task.Outcome { <-ctx.Done(); return task.Failed(ctx.Err()) },
			wire.TaskTimedOut, "the task took longer than 5s; ", 5 * time.Second},
		{"hangs", func(context.Context, task.Job) task.Outcome { time.Sleep(50 * time.Second); return task.Outcome{} },
			wire.TaskTimedOut, "the work does not end", 35 * time.Second},
		{"writes without end", func(ctx context.Context, job task.Job) task.Outcome {
			for ctx.Err() == nil {
				job.Output.Write(make([]byte, 1<<20))
				time.Sleep(10 * time.Millisecond)
			}
			return task.Failed(ctx.Err())
		}, wire.TaskTimedOut, "", 5 * time.Second},
		{"says too much", func(context.Context, task.Job) task.Outcome {
			return task.Failf("%s", strings.Repeat("ä\xff", 4000))
		}, "", "ä?ä?", 0},
		{"finds too much", func(context.Context, task.Job) task.Outcome {
			raw, _ := json.Marshal(strings.Repeat("x", wire.MaxTaskValues))
			return task.Outcome{Values: wire.TaskValues{"x": raw}}
		}, "", "more than a result can hold", 0},
		{"finds what is no JSON", func(context.Context, task.Job) task.Outcome {
			return task.Outcome{Values: wire.TaskValues{"x": []byte("{")}}
		}, "", "more than a result can hold", 0},
		{"names a code", func(context.Context, task.Job) task.Outcome { return task.Outcome{Code: wire.CodeTaskForbidden} },
			wire.CodeTaskForbidden, "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			d.handle = c.handle
			began := time.Now()
			id := d.give(d.payload(wire.TaskDiagCollect, `{"timeout_seconds":5}`))
			go func() {
				time.Sleep(time.Minute)
				d.mu.Lock()
				d.handle = nil
				d.mu.Unlock()
			}()
			go func() { time.Sleep(61 * time.Second); d.diag() }()
			d.run(2 * time.Minute)
			r := d.result(id)
			if r.Status != wire.TaskFailed || r.Code != c.code || !strings.Contains(r.Error, c.says) || len(r.Error) > wire.MaxTaskError {
				t.Errorf("%s: %+v", c.name, r)
			}
			if took := r.FinishedAt.Sub(began); took < c.took || took > c.took+time.Second {
				t.Errorf("%s: it ended after %v", c.name, took)
			}
			if len(r.Output.Head) > wire.MaxTaskHead || len(r.Output.Tail) > wire.MaxTaskTail || (r.Output.Bytes > 0) != r.Output.Truncated {
				t.Errorf("%s: %d and %d of %d", c.name, len(r.Output.Head), len(r.Output.Tail), r.Output.Bytes)
			}
			if d.begun() != 2 || len(d.results) != 2 {
				t.Errorf("%s: %d began", c.name, d.begun())
			}
		})
	}
}

// TestAtTheSameTime: four tasks of different types run at the same time, the fifth waits at the gateway, and two of one type follow one
// another.
func TestAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		now := map[string]int{}
		most := map[string]int{}
		d.handle = func(_ context.Context, job task.Job) task.Outcome {
			for _, name := range []string{job.Type, "all"} {
				d.mu.Lock()
				now[name]++
				most[name] = max(most[name], now[name])
				d.mu.Unlock()
			}
			time.Sleep(5 * time.Second)
			for _, name := range []string{job.Type, "all"} {
				d.mu.Lock()
				now[name]--
				d.mu.Unlock()
			}
			return task.Outcome{}
		}
		for range 2 {
			for _, kind := range []string{wire.TaskDiagCollect, wire.TaskAgentRestart, wire.TaskWorkloadStatus, wire.TaskAgentUninstall} {
				d.give(d.payload(kind, `{}`))
			}
		}
		d.give(d.payload(wire.TaskDeprovisionUser, `{"all":true}`))
		began := time.Now()
		d.run(time.Minute)
		if most["all"] != 4 || most[wire.TaskDiagCollect] != 1 || len(d.results) != 9 {
			t.Errorf("%v at the same time, %d results", most, len(d.results))
		}
		for _, r := range d.results {
			if r.FinishedAt.Sub(began) > 20*time.Second {
				t.Errorf("ended after %v", r.FinishedAt.Sub(began))
			}
		}
	})
}

// TestStops: the agent is told to stop while a task runs. The next run reports that it was interrupted, and does not do it again. A task
// that waits for its turn has not begun, so the next run does it.
func TestStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		waiting := ""
		d.handle = func(ctx context.Context, _ task.Job) task.Outcome {
			waiting = d.diag() // not before: of two at once either may begin
			<-ctx.Done()
			return task.Failed(context.Cause(ctx))
		}
		running, began := d.diag(), time.Now()
		d.run(10 * time.Second)
		if len(d.results) != 0 || !strings.Contains(d.journal(), waiting) || time.Since(began) > 11*time.Second {
			t.Errorf("%v after %v", d.results, time.Since(began))
		}
		d.handle = nil
		d.run(10 * time.Second)
		if r := d.result(running); r.Status != wire.TaskFailed || r.Code != wire.TaskInterrupted {
			t.Errorf("%+v", r)
		}
		if r := d.result(waiting); r.Status != wire.TaskCompleted || d.begun() != 2 {
			t.Errorf("%+v, %d began", r, d.begun())
		}
	})
}

// TestStopsBesideAHang: a handler that does not end delays the agent's end for a while only.
func TestStopsBesideAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handle = func(context.Context, task.Job) task.Outcome { time.Sleep(time.Minute); return task.Outcome{} }
		id := d.diag()
		began := time.Now()
		d.run(10 * time.Second)
		if took := time.Since(began); took < 18*time.Second || took > 19*time.Second {
			t.Errorf("the agent ended after %v", took)
		}
		folder := t.TempDir()
		if err := os.CopyFS(folder, os.DirFS(d.cfg.Folder)); err != nil {
			t.Fatal(err)
		}
		d.cfg.Folder = folder // what another process would find
		d.run(10 * time.Second)
		if r := d.result(id); r.Code != wire.TaskInterrupted || d.begun() != 1 {
			t.Errorf("%+v", r)
		}
		time.Sleep(time.Hour)
	})
}

// TestUnwanted: the gateway gives a task up at any step. The node stops, and asks for the next one.
func TestUnwanted(t *testing.T) {
	for _, step := range []string{"started", "output", "result"} {
		for _, code := range []string{wire.CodeClaimMismatch, wire.CodeTaskFinished, wire.CodeNotFound} {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				d.handle = func(ctx context.Context, job task.Job) task.Outcome {
					select {
					case <-ctx.Done():
						return task.Failed(context.Cause(ctx))
					case <-time.After(10 * time.Second):
						if step == "output" && job.Type == wire.TaskDiagCollect {
							t.Errorf("%s: work that nobody wants went on", code)
						}
						return task.Outcome{}
					}
				}
				first := d.diag()
				d.refuse = func(at, id string) *gatewaytest.Reply {
					if at == step && id == first || step == "output" && at == "result" && id == first {
						return gatewaytest.Refusal(409, code)
					}
					return nil
				}
				second := d.give(d.payload(wire.TaskAgentRestart, `{}`))
				d.run(time.Minute)
				if r := d.result(second); r.Status != wire.TaskCompleted || len(d.results) != 1 {
					t.Errorf("%s, %s: %v", step, code, d.results)
				}
				n := len(d.steps)
				d.run(time.Minute)
				if strings.Contains(d.journal(), "signed") {
					t.Errorf("%s, %s: the task stays in the journal", step, code)
				}
				if len(d.steps) != n {
					t.Errorf("%s, %s: the next run does %v", step, code, d.steps[n:])
				}
			})
		}
	}
}

// TestAwayGateway: a gateway that is away for an hour gets the start and the result all the same, where they still count.
func TestAwayGateway(t *testing.T) {
	for _, c := range []struct {
		step string
		away time.Duration
		want string
	}{
		{"started", 30 * time.Minute, wire.TaskCompleted}, {"started", 2 * time.Hour, wire.TaskExpired},
		{"result", 3 * time.Hour, wire.TaskCompleted},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			id := d.diag()
			back := time.Now().Add(c.away)
			tries := map[time.Time]bool{} // one try takes several requests where several connections are open: net/http tries each
			d.refuse = func(step, _ string) *gatewaytest.Reply {
				tries[time.Now()] = true
				if step == c.step && time.Now().Before(back) {
					return &gatewaytest.Reply{Hangup: true}
				}
				return nil
			}
			d.run(c.away + 10*time.Minute)
			if r := d.result(id); r.Status != c.want || len(tries) > 200 {
				t.Errorf("%s: %+v after %d tries", c.step, r, len(tries))
			}
		})
	}
}

// TestResultThatIsNotTaken: the gateway finds the result malformed or too large. It gets one without what the task made.
func TestResultThatIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handle = func(_ context.Context, job task.Job) task.Outcome {
			fmt.Fprint(job.Output, "text")
			return task.Outcome{}
		}
		id := d.diag()
		d.refuse = func(step, _ string) *gatewaytest.Reply {
			if step == "result" && len(d.bodies[step]) == 1 {
				return gatewaytest.Refusal(413, wire.CodeBodyTooLarge)
			}
			return nil
		}
		d.run(time.Minute)
		r := d.result(id)
		if r.Status != wire.TaskFailed || !strings.Contains(r.Error, "did not take") || r.Output.Bytes != 4 || r.Output.Head != nil {
			t.Errorf("%+v", r)
		}
	})
}
