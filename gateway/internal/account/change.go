package account

import (
	"maps"
	"strings"

	"muster/store"
)

// Loses reports whether an account may do less after a change, or may do it for another tenant.
func Loses(was, next store.Account) bool {
	return next.Tenant != was.Tenant || Caller{Scopes: next.Scopes}.Lacks(was.Scopes) != ""
}

// Changed returns the events of a change; e is the event about the account as it is after the change. If the account goes to another
// tenant, both tenants get an event. A tenant does not read the other's name.
func Changed(e store.Event, was, next store.Account) []store.Event {
	e.Detail["scopes_before"] = strings.Join(was.Scopes, ",")
	if next.Tenant == was.Tenant {
		return []store.Event{e}
	}
	goes := e
	goes.Tenant = was.Tenant
	goes.Detail = maps.Clone(e.Detail)
	both := []store.Event{goes, e}
	for _, one := range both {
		if one.Tenant == next.Tenant || one.Tenant == "" {
			one.Detail["tenant"] = next.Tenant
		}
		if one.Tenant == was.Tenant || one.Tenant == "" {
			one.Detail["tenant_before"] = was.Tenant
		}
	}
	return both
}
