package adminapi

import (
	"muster/gateway/api"
	"muster/gateway/internal/audit"
	"muster/store"
)

// listEvents lists the newest events first. With the parameter after, a reader follows the log, so it lists the oldest first.
func (c *call) listEvents(f api.EventFilter) (any, error) {
	q := store.EventQuery{Node: f.Node, Actor: f.Actor, Kind: f.Kind, Tenant: f.Tenant, Security: f.Security, Since: f.Since,
		BeforeID: f.Before, Limit: f.Limit}
	if q.Ascending = f.After != nil; q.Ascending {
		q.AfterID = *f.After
	}
	events, err := c.Store.Events(c.Context(), q)
	return api.EventList{Events: api.Each(events, audit.Shown)}, err
}
