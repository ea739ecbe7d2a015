package alert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/store"
	records "muster/store/alerts"
)

const (
	longestSilence = 90 * 24 * time.Hour
	longestReason  = 500 // bytes
)

// silence is one in use.
type silence struct {
	records.Silence
	terms []label.Term
}

func (d *Service) readSilences(ctx context.Context) error {
	rows, err := d.records.Silences(ctx, d.Now())
	if err != nil {
		return err
	}
	for _, row := range rows {
		terms, err := label.ParseSelector(row.Selector)
		if err != nil {
			return err
		}
		d.silences = append(d.silences, silence{row, terms})
	}
	return nil
}

// silenced is true while a silence keeps an alert from being told. The caller holds the lock.
func (d *Service) silenced(a *alert, now time.Time) bool { return d.silenceOf(a, now) != nil }

func (d *Service) silenceOf(a *alert, now time.Time) *silence {
	for i := range d.silences {
		if s := &d.silences[i]; now.Before(s.EndsAt) && d.covers(s, a) {
			return s
		}
	}
	return nil
}

func (d *Service) covers(s *silence, a *alert) bool {
	switch {
	case s.Tenant != "" && s.Tenant != a.Tenant, s.Cause != "" && s.Cause != a.Cause, s.NodeID != "" && s.NodeID != a.NodeID:
		return false
	case len(s.terms) == 0:
		return true
	case a.NodeID == "":
		return false
	}
	return d.matches(s.terms, a)
}

// Silence keeps alerts from being told. They stay in the list.
func (d *Service) Silence(ctx context.Context, q api.AlertSilenceRequest, by store.Actor) (api.AlertSilence, error) {
	now := d.Now().UTC()
	s := silence{Silence: records.Silence{ID: newID("si-"), Selector: q.Selector, Cause: q.Cause, Tenant: q.Tenant,
		Reason: strings.TrimSpace(q.Reason), CreatedAt: now, CreatedBy: by.Name, EndsAt: now.Add(time.Duration(q.For))}}
	var err error
	if s.terms, err = d.checkSilence(&q); err != nil {
		return api.AlertSilence{}, err
	}
	if q.Node != "" {
		n := d.named(q.Node, q.Tenant)
		if n == nil {
			return api.AlertSilence{}, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no node %.80q", q.Node), "muster node ls shows them")
		}
		s.NodeID = n.ID
		s.NodeName = n.Name
		s.Tenant = n.Tenant
	}
	e := d.event("alert.silenced", by, map[string]string{"silence": s.ID, "selector": s.Selector, "cause": s.Cause, "reason": s.Reason,
		"until": s.EndsAt.Format(time.RFC3339)})
	e.NodeID = s.NodeID
	e.NodeName = s.NodeName
	e.Tenant = s.Tenant
	err = d.records.AddSilence(ctx, s.Silence, e)
	if errors.Is(err, store.ErrConflict) {
		return api.AlertSilence{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("there are %d silences already, or %d of this tenant",
			records.MostSilences, records.MostOfTenant), "end some; one selector can name many nodes")
	}
	if err != nil {
		return api.AlertSilence{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silences = append(slices.DeleteFunc(d.silences, func(old silence) bool { return !now.Before(old.EndsAt) }), s)
	return d.shownSilence(s.Silence), nil
}

// checkSilence refuses a silence that says nothing, or lasts too long.
func (d *Service) checkSilence(q *api.AlertSilenceRequest) ([]label.Term, error) {
	terms, err := label.ParseSelector(q.Selector)
	err = cmp.Or(err, label.CheckSelector("", "", terms), d.CheckCause(q.Cause))
	length := time.Duration(q.For)
	switch {
	case err != nil:
		return nil, err
	case q.Node == "" && q.Selector == "" && q.Cause == "":
		return nil, refuse("the silence names nothing", "name a node, a selector, a cause, or several of these")
	case length < time.Minute || length > longestSilence:
		return nil, refuse("the silence is too short or too long", "it lasts from 1m to 90d")
	case strings.TrimSpace(q.Reason) == "" || len(q.Reason) > longestReason:
		return nil, refuse("the silence has no reason, or a very long one", "say in one sentence why, for those who wonder later")
	}
	return terms, nil
}

// named finds a node by its name or id, in a tenant where there is one.
func (d *Service) named(name, tenant string) *api.NodeRow {
	for _, n := range d.Nodes() {
		if (n.Name == name || n.ID == name) && (tenant == "" || n.Tenant == tenant) {
			return n
		}
	}
	return nil
}

// Silences returns the silences that have not ended; those that end soonest come first. With a tenant, only that tenant's own.
func (d *Service) Silences(tenant string) []api.AlertSilence {
	now := d.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []api.AlertSilence{}
	for i := range d.silences {
		if s := &d.silences[i]; now.Before(s.EndsAt) && (tenant == "" || s.Tenant == tenant) {
			all = append(all, d.shownSilence(s.Silence))
		}
	}
	slices.SortStableFunc(all, func(a, b api.AlertSilence) int { return a.EndsAt.Compare(b.EndsAt) })
	return all
}

// Unsilence ends a silence; with a tenant, only a silence of that tenant. Then people are told of what is still wrong.
func (d *Service) Unsilence(ctx context.Context, id, tenant string, by store.Actor) error {
	e := d.event("alert.unsilenced", by, map[string]string{"silence": id})
	e.Tenant = tenant
	err := d.records.DropSilence(ctx, id, tenant, d.Now(), e)
	if errors.Is(err, store.ErrNotFound) {
		return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no silence %.40q", id), "muster alert silences shows them")
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silences = slices.DeleteFunc(d.silences, func(s silence) bool { return s.ID == id })
	return nil
}

// shownSilence shows the name that the node has now.
func (d *Service) shownSilence(s records.Silence) api.AlertSilence {
	if n, known := d.Node(s.NodeID); known {
		s.NodeName = n.Name
	}
	return api.AlertSilence{ID: s.ID, Node: s.NodeName, Selector: s.Selector, Cause: s.Cause, Tenant: s.Tenant, Reason: s.Reason,
		CreatedAt: s.CreatedAt.UTC(), CreatedBy: s.CreatedBy, EndsAt: s.EndsAt.UTC()}
}
