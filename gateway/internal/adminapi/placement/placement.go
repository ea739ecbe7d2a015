package placement

import "muster/gateway/api"

func listProfiles(c Call) (any, error) {
	profiles, err := c.Profiles(c.Context())
	return api.ProfileList{Profiles: append([]api.Profile{}, profiles...)}, err
}

// pushProfile answers 201 where the profile is new, or is another one now.
func pushProfile(c Call) (any, error) {
	body, err := c.Clean()
	if err != nil {
		return nil, err
	}
	p, changed, err := c.PushProfile(c.Context(), body, c.Caller.Actor)
	if changed {
		c.Created()
	}
	return p, err
}

func showProfile(c Call) (any, error) { return c.Profile(c.Context(), c.Named("profile")) }

func removeProfile(c Call) (any, error) {
	name := c.Named("profile")
	return api.Done{ID: name, Status: "deleted"}, c.RemoveProfile(c.Context(), name, c.Caller.Actor)
}

func assign(c Call, q api.AssignRequest) (any, error) { return c.Assign(c.Context(), c.who(), q) }

func evidence(c Call) (any, error) { return c.Evidence(c.Context(), c.Caller.Tenant, c.Named("node")) }

// check starts a check. What it runs on the node needs the rights that a task of that type needs.
func check(c Call, q api.CheckRequest) (any, error) {
	return c.Check(c.Context(), c.who(), c.Named("node"), q, c.mayTask)
}

func (c Call) mayTask(taskType string) error { return c.Caller.Part(api.ScopeTasksWrite, taskType) }

func listSlots(c Call, f api.SlotFilter) (any, error) { return c.Slots(c.Context(), f.Tenant, f) }

func decide(c Call, q api.SlotDecision) (any, error) { return c.Decide(c.Context(), c.who(), q) }

func listRules(c Call) (any, error) { return c.SlotRules(c.Context()) }

func setRule(c Call, q api.SlotRuleRequest) (any, error) {
	return c.SetSlotRule(c.Context(), c.who(), c.Named("rule"), q)
}

func removeRule(c Call) (any, error) {
	name := c.Named("rule")
	return api.Done{ID: name, Status: "deleted"}, c.RemoveSlotRule(c.Context(), c.who(), name)
}

// ofTenant is the filter of routes that have no other.
type ofTenant struct {
	Tenant string `json:"tenant"`
}

func listSKUs(c Call, f ofTenant) (any, error) { return c.SKUs(c.Context(), f.Tenant) }

func explain(c Call, f ofTenant) (any, error) {
	return c.Explain(c.Context(), f.Tenant, c.Named("sku"))
}

func listAllocations(c Call, f api.AllocationFilter) (any, error) {
	return c.Allocations(c.Context(), f.Tenant, f)
}

// allocate answers 201 for a new allocation, and 200 where the same request has made it before.
func allocate(c Call, q api.NewAllocation) (any, error) {
	tenant, err := c.Caller.Within(q.Tenant)
	if err != nil {
		return nil, err
	}
	q.Tenant = tenant
	if q.Rent {
		if err := c.Caller.Needs(api.ScopeProvidersSpend); err != nil {
			return nil, err
		}
	}
	a, created, err := c.Allocate(c.Context(), c.who(), q, c.mayTask)
	if created {
		c.Created()
	}
	return a, err
}

func showAllocation(c Call) (any, error) {
	return c.Allocation(c.Context(), c.Caller.Tenant, c.Named("allocation"))
}

func extend(c Call, q api.ExtendRequest) (any, error) {
	return c.Extend(c.Context(), c.who(), c.Named("allocation"), q)
}

func release(c Call, _ struct{}) (any, error) {
	return c.Release(c.Context(), c.who(), c.Named("allocation"))
}

func listQuotas(c Call, f ofTenant) (any, error) { return c.Quotas(c.Context(), f.Tenant) }

func setQuota(c Call, q api.QuotaRequest) (any, error) {
	return c.SetQuota(c.Context(), c.who(), c.Named("tenant"), q)
}
