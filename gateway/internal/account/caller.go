package account

import (
	"context"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account/secret"
	"muster/store"
)

// Caller is who makes a request, after the gate has checked that.
type Caller struct {
	Actor   store.Actor
	Account store.Account // zero on the socket
	Tenant  string        // empty: all tenants
	Scopes  []string
	Pass    *Pass // that the caller showed, in the place of an API token; nil: none
}

// owner is under which name the caller's connections are counted.
func (c Caller) owner() string {
	if c.Account.ID == "" && c.Pass != nil {
		return c.Pass.ID
	}
	return c.Account.ID
}

// ActorName returns an account's name as events and records have it.
func ActorName(a store.Account) string { return "account:" + a.Name }

// May reports whether a caller has a scope, or one that the scope is a part of: tasks:write has tasks:write:TYPE in it.
func (c Caller) May(scope string) bool {
	return slices.ContainsFunc(api.ScopesWith(scope), func(with string) bool { return slices.Contains(c.Scopes, with) })
}

// MayPart reports whether a caller has a scope or any part of it.
func (c Caller) MayPart(scope string) bool { return c.hasParts([]string{scope}) }

// Part refuses a caller who has neither a scope nor this part of it.
func (c Caller) Part(scope, part string) error {
	if wanted := api.ScopePart(scope, part); !c.May(wanted) {
		return c.lacks(wanted, []string{wanted}, "")
	}
	return nil
}

// Needs refuses a caller who lacks one of the scopes, for what only a part of a route's requests needs.
func (c Caller) Needs(scopes ...string) error {
	if missing := c.Lacks(scopes); missing != "" {
		return c.lacks(missing, scopes, "")
	}
	return nil
}

// lacks is the refusal of a caller without a scope, with what else helps.
func (c Caller) lacks(missing string, wanted []string, more string) error {
	return wire.Refuse(wire.CodeForbidden, "this account lacks the scope "+missing, c.remedy(wanted)+more)
}

// remedy says which roles have all these scopes, and how the caller's account gets them. If a role would give it much more, it gets the
// scopes alone.
func (c Caller) remedy(wanted []string) string {
	var with []string
	for _, r := range api.Roles() {
		if (Caller{Scopes: r.Scopes}).Lacks(wanted) == "" {
			with = append(with, r.Name)
		}
	}
	text := "the role " + strings.Join(with, ", ") + " has it"
	if len(with) > 1 {
		text = "the roles " + strings.Join(with, ", ") + " have it"
	}
	if c.Account.Name == "" {
		return text
	}
	missing := slices.DeleteFunc(slices.Clone(wanted), c.May)
	grant := "--role " + with[0]
	switch role := api.RoleOf(c.Scopes); {
	case role == "":
		grant = "--scope " + strings.Join(slices.Concat(c.Scopes, missing), ",")
	case len(with) == 1: // it can do everything
		grant = "--role " + role + " --scope " + strings.Join(missing, ",")
	}
	return text + "; an admin can: muster account update " + c.Account.Name + " " + grant
}

// Lacks returns the first of the scopes that a caller does not have; empty: it has all of them.
func (c Caller) Lacks(scopes []string) string {
	for _, scope := range scopes {
		if !c.May(scope) {
			return scope
		}
	}
	return ""
}

// Within returns the tenant that a request is about; empty: all tenants. A caller that belongs to one tenant may ask for no other one.
func (c Caller) Within(asked string) (string, error) {
	if asked != c.Tenant && secret.TokenLike(asked) {
		return "", wire.Refuse(wire.CodeBadRequest, "the tenant looks like a token",
			"a tenant is shown to everybody: choose another, and revoke the token if it is one: muster token revoke ID")
	}
	switch {
	case c.Tenant == "":
		return asked, nil
	case asked == "" || asked == c.Tenant:
		return c.Tenant, nil
	}
	return "", wire.Refuse(wire.CodeForbidden, "this account is for the tenant "+c.Tenant+" only",
		"leave the tenant out, or use an account of all tenants")
}

// meets returns nil if the caller has what a route needs, and otherwise the refusal.
func (c Caller) meets(need Need) error {
	if need.Reach == WholeFleet && c.Tenant != "" { // first: no scope would help
		return wire.Refuse(wire.CodeForbidden, "this concerns the whole fleet, and this account is for the tenant "+c.Tenant+" only",
			"use an account of all tenants")
	}
	if missing := c.Lacks(need.Scopes); missing != "" && !(need.Parts && c.hasParts(need.Scopes)) {
		if need.Parts {
			return c.lacks(missing, []string{missing}, "; a part of "+missing+" may be enough: muster help accounts lists them")
		}
		return c.lacks(missing, need.Scopes, "")
	}
	return nil
}

// hasParts is true if the caller has each of the scopes or a part of it.
func (c Caller) hasParts(scopes []string) bool {
	for _, scope := range scopes {
		within := func(s string) bool { return strings.HasPrefix(s, api.ScopePart(scope, "")) }
		if !c.May(scope) && !slices.ContainsFunc(c.Scopes, within) {
			return false
		}
	}
	return true
}

// Still refuses an account that may not have a session with a node of a tenant any more. opener is the part of the scope that it needs.
func Still(ctx context.Context, db *store.Store, id, tenant, opener string) error {
	a, err := db.Account(ctx, id)
	if err != nil {
		return err
	}
	if status := Status(a, time.Now()); status != api.StatusLive {
		return wire.Refuse(wire.CodeUnauthorized, "the account is "+status, "use another one")
	}
	if a.Tenant != "" && a.Tenant != tenant {
		return wire.Refuse(wire.CodeForbidden, "the account is for the tenant "+a.Tenant+" only", "use another one")
	}
	return Caller{Scopes: a.Scopes}.Part(api.ScopeSessions, opener)
}
