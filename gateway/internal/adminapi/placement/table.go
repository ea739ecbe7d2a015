// Package placement has those routes of the admin API that are about profiles, evidence, slots, SKUs, allocations and quotas. They are rows
// of the API's table: package adminapi serves them like its own. Whose allocation somebody may change is judged by the service.
package placement

import (
	"cmp"
	"net/http"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/adminapi/input"
	"muster/gateway/internal/placement"
	"muster/gateway/internal/secret"
)

// Row is one row of the API's table.
type Row struct {
	Method string
	Path   string
	Need   account.Need
	Reads  bool // a body
	Serve  func(Call) (any, error)
}

// Call is one request that the gate let in.
type Call struct {
	*placement.Service
	Request *http.Request
	Caller  account.Caller
	Body    []byte                 // of a row that reads one
	Filter  func(filter any) error // reads the parameters
	Created func()                 // the answer is about something new
}

// Table is every route about placement.
func Table() []Row {
	read := account.Need{Scopes: []string{api.ScopePlacementRead}, Reach: account.OwnTenant}
	write := account.Need{Scopes: []string{api.ScopePlacementWrite}, Reach: account.OwnTenant}
	own := account.Need{Scopes: []string{api.ScopeAllocationsWrite}, Reach: account.OwnTenant}
	readAll := account.Need{Scopes: read.Scopes, Reach: account.WholeFleet}
	writeAll := account.Need{Scopes: write.Scopes, Reach: account.WholeFleet}
	return []Row{
		{"GET", api.PathProfiles, read, false, plain(listProfiles)},
		{"POST", api.PathProfiles, writeAll, true, plain(pushProfile)},
		{"GET", api.PathProfile, read, false, plain(showProfile)},
		{"DELETE", api.PathProfile, writeAll, false, plain(removeProfile)},
		{"POST", api.PathAssign, write, true, takes(assign)},
		{"GET", api.PathCheck, read, false, plain(evidence)},
		{"POST", api.PathCheck, write, true, takes(check)},
		{"GET", api.PathSlots, read, false, asks(listSlots)},
		{"POST", api.PathSlotsDecide, write, true, takes(decide)},
		{"GET", api.PathSlotRules, readAll, false, plain(listRules)},
		{"PUT", api.PathSlotRule, writeAll, true, takes(setRule)},
		{"DELETE", api.PathSlotRule, writeAll, false, plain(removeRule)},
		{"GET", api.PathSKUs, read, false, asks(listSKUs)},
		{"GET", api.PathSKU, read, false, asks(explain)},
		{"GET", api.PathAllocations, read, false, asks(listAllocations)},
		{"POST", api.PathAllocations, own, true, takes(allocate)},
		{"GET", api.PathAllocation, read, false, plain(showAllocation)},
		{"POST", api.PathAllocationExtend, own, true, takes(extend)},
		{"POST", api.PathAllocationGiveUp, own, true, takes(release)},
		{"GET", api.PathQuotas, read, false, asks(listQuotas)},
		{"PUT", api.PathQuota, writeAll, true, takes(setQuota)},
	}
}

// plain makes a handler for a route that takes no parameters, and reads its body itself if it has one.
func plain(handler func(Call) (any, error)) func(Call) (any, error) {
	return func(c Call) (any, error) {
		if err := c.Filter(&struct{}{}); err != nil {
			return nil, err
		}
		return handler(c)
	}
}

// asks makes a handler for a route whose parameters are a Filter.
func asks[Filter any](handler func(Call, Filter) (any, error)) func(Call) (any, error) {
	return func(c Call) (any, error) {
		var f Filter
		if err := c.Filter(&f); err != nil {
			return nil, err
		}
		return handler(c, f)
	}
}

// takes makes a handler for a route whose body is a Request. An empty body is a Request without values.
func takes[Request any](handler func(Call, Request) (any, error)) func(Call) (any, error) {
	return plain(func(c Call) (any, error) {
		var q Request
		if err := c.noToken(); err != nil {
			return nil, err
		}
		if err := input.Decode(c.Body, &q); err != nil {
			return nil, err
		}
		return handler(c, q)
	})
}

// noToken refuses a body with a token in it: whoever may look at placement sees what bodies say.
func (c Call) noToken() error {
	if slices.ContainsFunc(secret.Texts(c.Body, 1), secret.HasToken) {
		return wire.Refuse(wire.CodeBadRequest, "the body holds a token of this gateway",
			"others see what it says: leave the token out, and revoke it: muster token revoke ID")
	}
	return nil
}

// who is the caller for the service. Over the socket there is no account: the owner is then the one that acts.
func (c Call) who() placement.Caller {
	return placement.Caller{Account: cmp.Or(c.Caller.Account.Name, c.Caller.Actor.Name), Tenant: c.Caller.Tenant, By: c.Caller.Actor,
		Write: c.Caller.May(api.ScopePlacementWrite)}
}

func (c Call) named(part string) string { return c.Request.PathValue(part) }
