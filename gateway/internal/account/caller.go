package account

import (
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/gateway/internal/secret"
	"muster/store"
)

// Caller is who makes a request, after the gate has checked that.
type Caller struct {
	Actor   store.Actor
	Account store.Account // zero on the socket
	Tenant  string        // empty: all tenants
	Scopes  []string
}

// ActorName is an account's name as events and records have it.
func ActorName(a store.Account) string { return "account:" + a.Name }

// May is true where a caller has a scope.
func (c Caller) May(scope string) bool {
	return slices.Contains(c.Scopes, client.ScopeAll) || slices.Contains(c.Scopes, scope)
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
	if missing := c.Lacks(need.Scopes); missing != "" {
		return wire.Refuse(wire.CodeForbidden, "this account lacks the scope "+missing,
			"use an account that has "+strings.Join(need.Scopes, " and ")+"; this one has "+strings.Join(c.Scopes, ", "))
	}
	if need.Reach == WholeFleet && c.Tenant != "" {
		return wire.Refuse(wire.CodeForbidden, "this concerns the whole fleet, and this account is for the tenant "+c.Tenant+" only",
			"use an account of all tenants; for a PSK, mint an enrollment token instead")
	}
	return nil
}
