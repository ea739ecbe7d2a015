package adminapi

import (
	"math"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/audit"
	"muster/store"
)

// listEvents lists the newest events first. With the parameter after, a reader follows the log, so it lists the oldest first.
func (s *server) listEvents(c *call) (any, error) {
	p, err := c.query("node", "kind", "since", "after", "before", "limit", "security", "tenant")
	if err != nil {
		return nil, err
	}
	q, err := eventQuery(p, s.now())
	if err != nil {
		return nil, err
	}
	if q.Tenant, err = c.caller.Within(p.text("tenant")); err != nil {
		return nil, err
	}
	events, err := s.Store.Events(c.r.Context(), q)
	return api.EventList{Events: api.Each(events, audit.Shown)}, err
}

func eventQuery(p parameters, now time.Time) (store.EventQuery, error) {
	q := store.EventQuery{Node: p.text("node"), Kind: p.text("kind"), Ascending: p.has("after")}
	var err error
	if q.Security, err = p.flag("security"); err != nil {
		return q, err
	}
	if q.Since, err = p.time("since", now); err != nil {
		return q, err
	}
	if q.AfterID, err = p.number("after", 0, math.MaxInt64); err != nil {
		return q, err
	}
	if q.BeforeID, err = p.number("before", 1, math.MaxInt64); err != nil {
		return q, err
	}
	q.Limit, err = p.limit()
	return q, err
}
