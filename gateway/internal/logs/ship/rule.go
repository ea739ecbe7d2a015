package ship

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/httpserver/post"
	"muster/store"
)

const (
	mostRules   = 50
	mostSources = 32
	longestAuth = 4096
	longestCA   = 256 << 10
	longestOrg  = 150 // characters of a tenant in Loki

	// DefaultRate is how many bytes a node may ship per second if the rule does not say.
	DefaultRate = 64 << 10
	leastRate   = 1 << 10
	mostRate    = 64 << 20
)

// secretPrefix begins the names of the sealed secrets that rules are. A rule holds how a sink lets the gateway in.
const secretPrefix = "log-shipping/"

// sealed is a rule as it is kept.
type sealed struct {
	Name string
	api.LogShippingRequest
	CreatedAt time.Time
	CreatedBy string
}

// pushPath is where Loki takes lines.
const pushPath = "/loki/api/v1/push"

func bad(why, next string) error { return wire.Refuse(wire.CodeBadRequest, why, next) }

// check refuses a rule that could not work, and completes it.
func (q *sealed) check() error {
	slices.Sort(q.Sources)
	q.Sources = slices.Compact(q.Sources)
	if q.BytesPerSecond == 0 {
		q.BytesPerSecond = DefaultRate
	}
	switch {
	case wire.CheckName(q.Name) != nil || q.Name[0] == '.':
		return wire.Refuse(wire.CodeBadName, "this is not a rule's name",
			"a name has 1 to 63 letters, digits, dots, dashes or underscores, and a letter or digit at both ends")
	case q.Tenant != "" && wire.CheckTenant(q.Tenant) != nil:
		return wire.CheckTenant(q.Tenant)
	case len(q.Sources) == 0 || len(q.Sources) > mostSources:
		return bad(fmt.Sprintf("a rule has 1 to %d sources", mostSources), "such as --source agent,kernel")
	case q.BytesPerSecond < leastRate || q.BytesPerSecond > mostRate:
		return bad("this is no rate", "write what a node may send in a second, from 1KiB to 64MiB")
	}
	for _, source := range q.Sources {
		if err := wire.CheckLogSource(source); err != nil {
			return err
		}
	}
	if err := q.checkURL(); err != nil {
		return err
	}
	return q.checkAuth()
}

// checkURL refuses an address to which nothing can be pushed, or over which a secret would go in plain text. It adds Loki's path.
func (q *sealed) checkURL() error {
	u, err := post.CheckURL(q.To, "say where the logs go, --to https://loki.example, and give USER:PASSWORD in a file, --auth-file FILE",
		q.Basic+q.Bearer != "")
	switch {
	case err != nil:
		return err
	case u.RawQuery != "" || u.ForceQuery:
		return bad("this is no URL to which logs can go", "write it as https://HOST or https://HOST/PATH"+pushPath)
	case q.Tenant != "" && post.IsLoopback(u.Hostname()):
		return bad("a rule of a tenant goes to no address of the gateway's own machine", "name the sink by the address that others use")
	}
	if !strings.HasSuffix(u.Path, pushPath) {
		u.Path = strings.TrimSuffix(u.Path, "/") + pushPath
		u.RawPath = ""
	}
	q.To = u.String()
	return nil
}

func (q *sealed) checkAuth() error {
	text := func(s string, most int) bool {
		return len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
	}
	switch {
	case q.Basic != "" && q.Bearer != "":
		return bad("there are two secrets", "give --auth-file or --bearer-file")
	case q.Basic != "" && (!text(q.Basic, longestAuth) || strings.Index(q.Basic, ":") < 1):
		return bad("this is no USER:PASSWORD", "write both on one line, with a colon between")
	case !text(q.Bearer, longestAuth) || strings.Contains(q.Bearer, " "):
		return bad("this is no token", "a token is one word")
	case !text(q.TenantID, longestOrg) || strings.Contains(q.TenantID, " "):
		return bad("this is no tenant of Loki", "it goes into the header X-Scope-OrgID, and is one word")
	case len(q.CA) > longestCA:
		return bad("there are too many certificates", "give the one root that vouches for the sink")
	}
	return nil
}

// Put stores a rule, in the place of a rule of the same name, which keeps its buffer. tenant is the caller's; "": all.
func (d *Service) Put(ctx context.Context, name string, q api.LogShippingRequest, tenant string, by store.Actor) error {
	s := sealed{Name: name, LogShippingRequest: q, CreatedAt: d.Now().UTC(), CreatedBy: by.Name}
	if err := s.check(); err != nil {
		return err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	before := d.find(name)
	if before != nil && tenant != "" && before.Tenant != tenant {
		return wire.Refuse(wire.CodeAlreadyThere, "this name is taken", "choose another")
	}
	if before != nil && s.Tenant != "" && before.Tenant != s.Tenant { // who has the tenant may send the buffer elsewhere
		return bad("the rule of this name is of another tenant, and its lines that wait may be too",
			"delete it and create it anew: muster logs ship delete "+name)
	}
	if before == nil && len(*d.rules.Load()) >= mostRules {
		return bad(fmt.Sprintf("there are %d rules already", mostRules), "delete one: muster logs ship delete NAME")
	}
	if before != nil {
		s.keep(&before.sealed)
	}
	r, err := d.make(s)
	if err != nil {
		return err
	}
	value, err := json.Marshal(r.sealed)
	if err != nil {
		return err
	}
	e := d.event("shipping.set", by, name)
	e.Detail["host"] = r.sink.host
	e.Detail["selector"] = s.Selector
	e.Detail["sources"] = strings.Join(s.Sources, ",")
	if err := d.Store.SetSecret(ctx, secretPrefix+name, value, e); err != nil {
		return err
	}
	if before == nil {
		r.box = d.open(name)
		r.state = newState()
	} else {
		before.halt()
		r.box = before.box
		r.state = before.state
	}
	d.swap(before, r)
	return nil
}

// keep takes over what the operator did not say again. To another address no secret goes by itself.
func (s *sealed) keep(before *sealed) {
	s.CreatedAt = before.CreatedAt
	s.CreatedBy = before.CreatedBy
	if s.Basic+s.Bearer == "" && s.To == before.To {
		s.Basic = before.Basic
		s.Bearer = before.Bearer
	}
}

// Drop deletes a rule and what is in its buffer.
func (d *Service) Drop(ctx context.Context, name, tenant string, by store.Actor) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	r := d.find(name)
	if r == nil || tenant != "" && r.Tenant != tenant {
		return noRule(name)
	}
	if err := d.Store.DropSecret(ctx, secretPrefix+name, d.event("shipping.removed", by, name)); err != nil {
		return err
	}
	d.swap(r, nil)
	r.halt()
	if err := r.box.Remove(); err != nil {
		d.Logger.Warn("the buffer of a deleted rule stays on the disk", "rule", name, "error", err)
	}
	return nil
}

func noRule(name string) error {
	if wire.CheckName(name) != nil {
		name = "of that name"
	}
	return wire.Refuse(wire.CodeNotFound, "there is no rule "+name, "muster logs ship ls shows them")
}

func (d *Service) event(kind string, by store.Actor, name string) store.Event {
	return store.Event{At: d.Now(), Kind: kind, Actor: by.Name, Address: by.Address, Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{"rule": name}}
}

// Rules returns the rules of a tenant, by name; "": all.
func (d *Service) Rules(tenant string) []api.LogShipping {
	all := []api.LogShipping{}
	for _, r := range *d.rules.Load() {
		if tenant == "" || r.Tenant == tenant {
			all = append(all, d.view(r))
		}
	}
	return all
}

func (d *Service) view(r *rule) api.LogShipping {
	box := r.box.Stats()
	r.state.mu.Lock()
	out := r.state.is
	out.Dropped = maps.Clone(out.Dropped)
	oldest := r.state.oldest
	r.state.mu.Unlock()
	out.Dropped[ReasonBuffer] += box.Dropped
	out.Waiting = box.Next - 1 - box.Confirmed
	out.BufferBytes = box.Bytes
	if oldest != nil && out.Waiting > 0 {
		out.LagSeconds = max(d.Now().Sub(*oldest), 0).Seconds()
	}
	out.Name, out.Tenant, out.Selector, out.Sources = r.Name, r.Tenant, r.Selector, slices.Clone(r.Sources)
	out.To, out.TenantID, out.BytesPerSecond = r.To, r.TenantID, r.BytesPerSecond
	out.CreatedAt, out.CreatedBy = r.CreatedAt, r.CreatedBy
	out.Nodes = d.Count(r.picks)
	out.Withheld, out.WithheldWhy = d.withheld(r)
	switch {
	case r.Basic != "":
		out.Auth = "basic"
	case r.Bearer != "":
		out.Auth = "bearer"
	default:
		out.Auth = "none"
	}
	return out
}
