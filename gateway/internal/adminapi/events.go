package adminapi

import (
	"math"

	"muster/gateway/internal/client"
	"muster/store"
)

func (s *server) listEvents(c *call) (any, error) {
	p, err := c.query("node", "kind", "since", "after", "before", "limit", "security", "tenant")
	if err != nil {
		return nil, err
	}
	q, err := eventQuery(p)
	if err != nil {
		return nil, err
	}
	if q.Tenant, err = c.caller.within(p.text("tenant")); err != nil {
		return nil, err
	}
	events, err := s.Store.Events(c.r.Context(), q)
	answer := client.EventList{Events: make([]client.Event, 0, len(events))}
	for _, e := range events {
		answer.Events = append(answer.Events, eventShape(e))
	}
	return answer, err
}

func eventQuery(p parameters) (q store.EventQuery, err error) {
	q = store.EventQuery{Node: p.text("node"), Kind: p.text("kind"), Ascending: p.has("after")}
	if q.Security, err = p.flag("security"); err != nil {
		return q, err
	}
	if q.Since, err = p.time("since"); err != nil {
		return q, err
	}
	if q.AfterID, err = p.number("after", 0, math.MaxInt64); err != nil {
		return q, err
	}
	if q.BeforeID, err = p.number("before", 1, math.MaxInt64); err != nil {
		return q, err
	}
	limit, err := p.number("limit", 1, largestPage)
	if q.Limit = int(limit); limit == 0 {
		q.Limit = usualPage
	}
	return q, err
}

func eventShape(e store.Event) client.Event {
	out := client.Event{ID: e.ID, At: e.At.UTC(), Kind: e.Kind, Actor: e.Actor, NodeID: e.NodeID, Node: e.NodeName, Tenant: e.Tenant,
		Address: e.Address, Outcome: e.Outcome, Detail: e.Detail, Security: e.Security}
	if out.Detail == nil {
		out.Detail = map[string]string{}
	}
	return out
}

func (s *server) whoami(c *call) (any, error) {
	who := c.caller
	answer := client.Identity{Actor: who.actor.Name, AccountID: who.account.ID, Tenant: who.tenant, Scopes: who.scopes}
	if answer.Scopes == nil {
		answer.Scopes = []string{}
	}
	if at := who.account.ExpiresAt; at != nil {
		expires := at.UTC()
		answer.ExpiresAt = &expires
	}
	return answer, nil
}

func (s *server) showGateway(*call) (any, error) {
	answer := s.Gateway
	if s.Authority != nil {
		answer.RootPin = s.Authority.RootPin()
	}
	if answer.PublicURLs == nil {
		answer.PublicURLs = []string{}
	}
	return answer, nil
}
