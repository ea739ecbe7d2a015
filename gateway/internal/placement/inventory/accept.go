package inventory

import (
	"context"
	"errors"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// Accept makes a node prove what it is. Accepted says how that went. The same id again asks nothing new.
func (s *Service) Accept(ctx context.Context, nodeID, id string) error {
	o := Order{ID: Named("accept", nodeID, id), NodeID: nodeID, Type: wire.TaskNodeCheck, Expires: checkTime, By: store.Actor{Name: ByGateway}}
	if _, err := s.Store.Task(ctx, "", o.ID); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	s.mu.Lock()
	n := s.at(nodeID)
	o.Params = s.params(n.profile, api.CheckRequest{Accept: true})
	n.check.sent(o.ID, s.Now())
	s.mu.Unlock()
	return s.Send(ctx, o)
}

// Accepted says how an acceptance has ended. It has ended well if nothing has failed, and if the number and the model of the GPUs are as
// paid for: in a container little else can be seen.
func (s *Service) Accepted(ctx context.Context, nodeID, id string) (ok, done bool, why string) {
	task := Named("accept", nodeID, id)
	t, err := s.Store.Task(ctx, "", task)
	switch {
	case err != nil || t.FinishedAt == nil:
		return false, false, "its acceptance runs"
	}
	seen, err := evidenceOf(t)
	if err != nil {
		return false, true, "its acceptance " + task + " has shown nothing: " + err.Error()
	}
	row, known := s.Node(nodeID)
	if !known || s.judge(ctx, row, &seen, true) != nil {
		return false, false, "what its acceptance has found is read"
	}
	var bad []string
	for _, c := range seen.Checks {
		mustKnow := c.Name == wire.CheckAsPaid || c.Name == wire.CheckGPUs
		if slices.Contains(wire.AcceptChecks(), c.Name) && (c.State == wire.CheckFailed || mustKnow && c.State != wire.CheckOK) {
			bad = append(bad, c.Name+" "+c.State+": "+c.Saw)
		}
	}
	return len(bad) == 0, true, strings.Join(bad, "; ")
}
