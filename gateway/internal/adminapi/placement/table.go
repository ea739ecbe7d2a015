// Package placement has the routes of the admin API that are about profiles, evidence, slots, SKUs, allocations and quotas. They are rows
// of the API's table: package adminapi serves them like its own. The service decides who may change an allocation.
package placement

import (
	"cmp"

	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/adminapi/row"
	"muster/gateway/internal/placement"
)

// Call is one request that the gate let in.
type Call struct {
	*placement.Service
	*row.Call
}

// Table returns every route about placement.
func Table() []row.Row[Call] {
	read := account.Need{Scopes: []string{api.ScopePlacementRead}, Reach: account.OwnTenant}
	write := account.Need{Scopes: []string{api.ScopePlacementWrite}, Reach: account.OwnTenant}
	own := account.Need{Scopes: []string{api.ScopeAllocationsWrite}, Reach: account.OwnTenant}
	readAll := account.Need{Scopes: read.Scopes, Reach: account.WholeFleet}
	writeAll := account.Need{Scopes: write.Scopes, Reach: account.WholeFleet}
	return []row.Row[Call]{
		row.Of("GET", api.PathProfiles, read, false, row.Plain(listProfiles)),
		row.Of("POST", api.PathProfiles, writeAll, true, row.Plain(pushProfile)),
		row.Of("GET", api.PathProfile, read, false, row.Plain(showProfile)),
		row.Of("DELETE", api.PathProfile, writeAll, false, row.Plain(removeProfile)),
		row.Of("POST", api.PathAssign, write, true, row.Takes(assign)),
		row.Of("GET", api.PathCheck, read, false, row.Plain(evidence)),
		row.Of("POST", api.PathCheck, write, true, row.Takes(check)),
		row.Of("GET", api.PathSlots, read, false, row.Asks(listSlots)),
		row.Of("POST", api.PathSlotsDecide, write, true, row.Takes(decide)),
		row.Of("GET", api.PathSlotRules, readAll, false, row.Plain(listRules)),
		row.Of("PUT", api.PathSlotRule, writeAll, true, row.Takes(setRule)),
		row.Of("DELETE", api.PathSlotRule, writeAll, false, row.Plain(removeRule)),
		row.Of("GET", api.PathSKUs, read, false, row.Asks(listSKUs)),
		row.Of("GET", api.PathSKU, read, false, row.Asks(explain)),
		row.Of("GET", api.PathAllocations, read, false, row.Asks(listAllocations)),
		row.Of("POST", api.PathAllocations, own, true, row.Takes(allocate)),
		row.Of("GET", api.PathAllocation, read, false, row.Plain(showAllocation)),
		row.Of("POST", api.PathAllocationExtend, own, true, row.Takes(extend)),
		row.Of("POST", api.PathAllocationGiveUp, own, true, row.Takes(release)),
		row.Of("GET", api.PathQuotas, read, false, row.Asks(listQuotas)),
		row.Of("PUT", api.PathQuota, writeAll, true, row.Takes(setQuota)),
	}
}

// who is the caller for the service. Over the socket there is no account: the owner is then the one that acts.
func (c Call) who() placement.Caller {
	return placement.Caller{Account: cmp.Or(c.Caller.Account.Name, c.Caller.Actor.Name), Tenant: c.Caller.Tenant, By: c.Caller.Actor,
		Write: c.Caller.May(api.ScopePlacementWrite)}
}
