package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
)

// TestTaskOldProcess is the incident for which claims are bound to an identity, with real processes: an old agent with a certificate that
// is still valid has a task, and meanwhile its machine is replaced. What the old one says is not believed, and the new one can do the
// task.
func TestTaskOldProcess(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	h := c.hands[slices.IndexFunc(c.hands, func(h *hand) bool { return h.name == "finished" })]
	c.hire(h, c.token())
	c.until("the old agent is online", func() bool { return c.online(h.name) })
	c.order(h)
	c.arrive(h)
	c.muster("node", "allow-recovery", h.name)
	start(t, "replacement", []string{"PATH=" + c.engine, "MUSTER_TOKEN=" + c.token()}, agentBinary(t), "run", "--gateway", c.url,
		"--name", h.name, "--state", filepath.Join(c.data, "replacement"), "--interval", "2s", "--no-gpu")
	c.until("the task is lost", func() bool { return c.show(h).Status == wire.TaskLost })
	close(h.check.opened)
	c.until("the old agent is told", func() bool { return strings.Contains(h.agent.text(), "superseded") })
	if got := c.show(h); got.Status != wire.TaskLost {
		t.Errorf("the old process has ended the task: %+v", got)
	}
	c.touch("up." + h.name)
	c.until("the replacement is online", func() bool { return c.online(h.name) })
	c.order(h)
	c.until("the replacement has done it", func() bool { return c.show(h).Status == wire.TaskCompleted })
	if n := c.runs(h); n != 2 {
		t.Errorf("it was done %d times, want once by each machine", n)
	}
}
