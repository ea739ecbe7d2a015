package main

import (
	"strings"
	"testing"
)

// TestRenameReachesTheAgent: a real agent hears of its new name, and enrols under that name when it has to enrol again, though its own
// flags say the old one.
func TestRenameReachesTheAgent(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	agent := h.agent("old", h.token())
	h.until("the agent is online", func() bool { return h.online("old") })
	before, _ := h.node("old")
	if out := h.muster("node", "rename", "old", "new"); out != "old: its name is new\n" {
		t.Errorf("got %s", out)
	}
	h.until("the agent knows its new name", func() bool { return strings.Contains(h.agentStatus("old"), `"name": "new"`) })
	if n, ok := h.node("new"); !ok || n.ID != before.ID || !h.online("new") {
		t.Errorf("got %+v", n)
	}
	h.muster("node", "retire", "new", "--yes")
	h.until("the agent is refused", func() bool { return strings.Contains(h.agentStatus("old"), `"phase": "refused"`) })
	agent.stop()
	h.agent("old", h.token())
	h.until("the agent is there again under its new name", func() bool { return h.online("new") })
	if n, ok := h.node("old"); ok {
		t.Errorf("there is a second node %+v", n)
	}
}

// TestRenamedWhileOff: a machine that is off while its node is renamed, and until its certificate is too old to be renewed, comes back as
// that node. It does not know the new name.
func TestRenamedWhileOff(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--cert-ttl", "5s", "--renew-grace", "0s")
	agent := h.agent("old", h.token())
	h.until("the agent is online", func() bool { return h.online("old") })
	before, _ := h.node("old")
	agent.stop()
	h.muster("node", "rename", "old", "new")
	h.until("the certificate has expired", func() bool { return h.shown("new").State == "unavailable" })
	agent = h.agent("old", "")
	h.until("the agent is refused", func() bool { return strings.Contains(h.agentStatus("old"), `"phase": "refused"`) })
	agent.stop()
	h.agent("old", h.token())
	h.until("the agent is back under its new name", func() bool { return h.online("new") })
	if n, ok := h.node("new"); !ok || n.ID != before.ID {
		t.Errorf("got %+v, it was %s", n, before.ID)
	}
	if n, ok := h.node("old"); ok {
		t.Errorf("there is a second node %+v", n)
	}
}
