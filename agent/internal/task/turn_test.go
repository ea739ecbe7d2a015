package task_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/task"
	"muster/agent/wire"
)

// TestTurns: tasks that could undo each other are done one after the other, whatever their types. Others do not wait.
func TestTurns(t *testing.T) {
	const (
		image = `"image":"r.example/a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`
		ada   = `{"username":"ada"}`
		all   = `{"all":true}`
	)
	for name, c := range map[string]struct {
		first, firstParams   string
		second, secondParams string
		waits                bool
	}{
		"one account":          {wire.TaskProvisionUser, ada, wire.TaskDeprovisionUser, ada, true},
		"all accounts":         {wire.TaskProvisionUser, ada, wire.TaskDeprovisionUser, all, true},
		"another account":      {wire.TaskProvisionUser, ada, wire.TaskDeprovisionUser, `{"username":"bob"}`, false},
		"one workload":         {wire.TaskWorkloadLaunch, `{"name":"ada",` + image + `}`, wire.TaskWorkloadStop, `{"name":"ada"}`, true},
		"all workloads":        {wire.TaskWorkloadLaunch, `{"name":"ada",` + image + `}`, wire.TaskWorkloadStop, all, true},
		"an account, workload": {wire.TaskProvisionUser, ada, wire.TaskWorkloadStop, `{"name":"ada"}`, false},
		"one type":             {wire.TaskDiagCollect, `{}`, wire.TaskDiagCollect, `{}`, true},
		"nothing":              {wire.TaskDiagCollect, `{}`, wire.TaskAgentRestart, `{}`, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			began := map[string]time.Time{}
			d.handle = func(_ context.Context, job task.Job) task.Outcome {
				d.mu.Lock()
				began[job.ID] = time.Now()
				d.mu.Unlock()
				time.Sleep(10 * time.Second)
				return task.Outcome{}
			}
			first := d.give(d.payload(c.first, c.firstParams))
			given := make(chan string, 1)
			go func() { time.Sleep(time.Second); given <- d.give(d.payload(c.second, c.secondParams)) }()
			d.run(time.Minute)
			second := <-given
			if r := []string{d.result(first).Status, d.result(second).Status}; !slices.Equal(r, []string{"completed", "completed"}) {
				t.Errorf("%s: %q", name, r)
			}
			if after := began[second].Sub(began[first]); (after >= 10*time.Second) != c.waits {
				t.Errorf("%s: the second began %v after the first", name, after)
			}
		})
	}
}
