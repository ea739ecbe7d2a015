package main

import (
	"context"
	"testing"

	"muster/agent/internal/command"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/update"
	"muster/agent/wire"
)

// TestChannelLearnt: an agent that was given no channel when it enrolled learns it from a heartbeat, and can update itself from its next
// start on.
func TestChannelLearnt(t *testing.T) {
	t.Parallel()
	var out, errs screen
	base := t.TempDir()
	a := newForeground(outside(t, &out, &errs), command.Options{State: base, Way: "auto"}, nil)
	state := identity.State{NodeID: "n-1"}
	a.settleIn(state)
	if current := (service.Layout{Base: base}).Current(); current != "" {
		t.Fatalf("without a channel it is %s", current)
	}
	u := update.New(update.Config{Folder: base, State: state, Digest: a.AgentInfo().Digest})
	u.Heard(state, nil, wire.HeartbeatAnswer{Channel: "stable"})
	ended, end := context.WithCancel(t.Context())
	end()
	if err := u.Run(ended); err != nil {
		t.Fatal(err)
	}
	a.settleIn(state)
	if current := (service.Layout{Base: base}).Current(); current == "" {
		t.Errorf("it has not installed itself: %s", errs.String())
	}
}
