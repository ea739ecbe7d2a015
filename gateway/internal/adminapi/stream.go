package adminapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/task"
	"muster/gateway/internal/view/livestream"
)

// liveStream tells one reader what changes, as server-sent events, until the reader leaves, the account ends or the gateway stops.
func (c *call) liveStream(f api.StreamFilter) (any, error) {
	q, err := fleetQuery(api.FleetFilter{Selector: f.Selector, Tenant: f.Tenant, All: f.All})
	if err != nil {
		return nil, err
	}
	kinds, err := c.streamKinds(f.Kinds)
	if err != nil {
		return nil, err
	}
	from := livestream.Source{Tail: c.Tail, Overview: c.Overview, Task: c.taskNow}
	to := livestream.Reader{Account: c.Caller.Account.ID, Nodes: q, Kinds: kinds}
	to.Still = func() bool { return c.mayStillStream(kinds) }
	return streamed{}, c.Streams.Serve(c.W, c.Request, from, to)
}

func (s *server) taskNow(ctx context.Context, tenant, id string) (api.Task, error) {
	t, err := s.Tasks.Task(ctx, tenant, id)
	if err != nil {
		return api.Task{}, err
	}
	return task.Shown(t), nil
}

// mayStillStream has the gate look at the request once more.
func (c *call) mayStillStream(kinds []string) bool {
	who, err := c.again()
	if err != nil {
		return false
	}
	c.Caller = who
	return c.mayStream(kinds) == nil
}

// streamKinds refuses a kind that the caller may not read. Nodes are open to everybody who may call the route.
func (c *call) streamKinds(kinds []string) ([]string, error) {
	if len(kinds) == 0 {
		kinds = []string{api.StreamNode}
	}
	for _, kind := range kinds {
		if !slices.Contains(api.StreamKinds(), kind) {
			return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the stream has no kind %.40q", kind),
				"it has "+strings.Join(api.StreamKinds(), ", "))
		}
	}
	return kinds, c.mayStream(kinds)
}

func (c *call) mayStream(kinds []string) error {
	var scopes []string
	if slices.Contains(kinds, api.StreamTask) {
		scopes = append(scopes, api.ScopeTasksRead)
	}
	if slices.Contains(kinds, api.StreamEvent) {
		scopes = append(scopes, api.ScopeEventsRead)
	}
	return c.Caller.Needs(scopes...)
}
