package task_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/task"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// TestAfter: what ends the agent happens once the gateway and the journal have the result, and not where they do not.
func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		did := ""
		d.handle = func(context.Context, task.Job) task.Outcome {
			return task.Outcome{After: func(context.Context) error { did = d.did(); return errors.New("no way") }}
		}
		d.diag()
		w := d.run(time.Minute)
		if did != "started result" || len(w.Notices()) != 1 || !strings.Contains(w.Notices()[0], "no way") {
			t.Errorf("%q, %q", did, w.Notices())
		}
		did = ""
		d.refuse = func(step, _ string) *gatewaytest.Reply {
			if step == "result" {
				return gatewaytest.Refusal(503, wire.CodeUnavailable)
			}
			return nil
		}
		d.diag()
		d.run(time.Minute)
		if did != "" {
			t.Errorf("after %s", did)
		}
	})
}

// TestAfterWithoutTheResult: a gateway that refuses the result for good has given the task up, so nothing follows. If the agent ends
// before the gateway has the result, the next run does not say that all was done.
func TestAfterWithoutTheResult(t *testing.T) {
	for _, code := range []string{wire.CodeTaskFinished, wire.CodeClaimMismatch, wire.CodeBadRequest, wire.CodeUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			followed := false
			d.handle = func(context.Context, task.Job) task.Outcome {
				return task.Outcome{After: func(context.Context) error { followed = true; return nil }}
			}
			refused := false
			d.refuse = func(step, _ string) *gatewaytest.Reply {
				if step != "result" || refused && code == wire.CodeBadRequest {
					return nil
				}
				refused = true
				return gatewaytest.Refusal(503, code)
			}
			id := d.diag()
			d.run(time.Minute)
			if followed {
				t.Errorf("%s: it followed", code)
			}
			d.refuse = nil
			d.run(time.Minute)
			r, sent := d.results[id]
			interrupted := r.Code == wire.TaskInterrupted && r.Status == wire.TaskFailed
			if code == wire.CodeUnavailable && !interrupted || followed || d.begun() != 1 {
				t.Errorf("%s: %v %+v, %d begun", code, sent, r, d.begun())
			}
			n := len(d.steps)
			d.run(time.Minute)
			if len(d.steps) != n || followed {
				t.Errorf("%s: the next run does %v", code, d.steps[n:])
			}
		})
	}
}

// TestOutputWhileTheGatewayFails: a task that writes all the time does not make the node ask a failing gateway all the time.
func TestOutputWhileTheGatewayFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.handle = func(ctx context.Context, job task.Job) task.Outcome {
			for range 1200 {
				fmt.Fprintln(job.Output, "more")
				time.Sleep(100 * time.Millisecond)
			}
			return task.Outcome{}
		}
		d.refuse = func(step, _ string) *gatewaytest.Reply {
			if step == "output" {
				return gatewaytest.Refusal(500, wire.CodeInternal)
			}
			return nil
		}
		id := d.diag()
		d.run(3 * time.Minute)
		if n := len(d.bodies["output"]); n < 5 || n > 40 || d.result(id).Output.Bytes != 6000 {
			t.Errorf("%d requests in two minutes", n)
		}
	})
}

// TestManyUntakenResults: a gateway that gives work and takes no results does not fill the node's memory and disk. Once it takes them, the
// node asks for work again.
func TestManyUntakenResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.refuse = func(step, _ string) *gatewaytest.Reply {
			if step == "result" {
				return gatewaytest.Refusal(500, wire.CodeInternal)
			}
			return nil
		}
		const all = 30
		for range all {
			d.diag()
		}
		d.run(2 * time.Minute)
		if n := d.begun(); n != 16 {
			t.Errorf("%d tasks were begun", n)
		}
		d.refuse = nil
		d.run(10 * time.Minute)
		if d.begun() != all || len(d.results) != all {
			t.Errorf("%d of %d tasks were begun, %d have a result", d.begun(), all, len(d.results))
		}
	})
}
