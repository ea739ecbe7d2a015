package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory"
	"muster/store"
	records "muster/store/placement"
)

// Allocations lists allocations, the newest first.
func (s *Service) Allocations(ctx context.Context, tenant string, f api.AllocationFilter) (api.AllocationList, error) {
	out := api.AllocationList{Allocations: []api.Allocation{}}
	if f.State != "" && !slices.Contains(api.AllocationStates(), f.State) {
		return out, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.40q is no state of an allocation", f.State),
			"the states are "+strings.Join(api.AllocationStates(), ", "))
	}
	q := records.AllocationQuery{Owner: f.Owner, Tenant: cmp.Or(tenant, f.Tenant), State: f.State, All: f.All, Limit: f.Limit,
		Cursor: f.Cursor}
	if f.Node != "" {
		row, err := s.Row(ctx, tenant, f.Node)
		if err != nil {
			return out, err
		}
		q.NodeID = row.ID
	}
	rows, next, total, err := s.Records.Allocations(ctx, q)
	if errors.Is(err, store.ErrBadCursor) {
		return out, wire.Refuse(wire.CodeBadRequest, "the cursor is not one of this list", "start again without one")
	}
	if err != nil {
		return out, err
	}
	out.Next, out.Total = next, total
	for _, row := range rows {
		a, err := s.shownAllocation(ctx, row, false)
		if err != nil {
			return out, err
		}
		out.Allocations = append(out.Allocations, a)
	}
	return out, nil
}

// Allocation returns one allocation of a tenant ("": of any).
func (s *Service) Allocation(ctx context.Context, tenant, id string) (api.Allocation, error) {
	row, err := s.allocation(ctx, tenant, id)
	if err != nil {
		return api.Allocation{}, err
	}
	return s.shownAllocation(ctx, row, true)
}

func (s *Service) allocation(ctx context.Context, tenant, id string) (records.Allocation, error) {
	row, err := s.Records.Allocation(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && tenant != "" && row.Tenant != tenant {
		return row, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no allocation %.40q", id), "muster alloc ls --all")
	}
	return row, err
}

// shownAllocation is an allocation as the API shows it; whole with its tasks.
func (s *Service) shownAllocation(ctx context.Context, row records.Allocation, whole bool) (api.Allocation, error) {
	asked := askOf(row)
	a := api.Allocation{ID: row.ID, Owner: row.Owner, Tenant: row.Tenant, SKU: row.SKU, Wish: asked.wish, Priority: row.Priority,
		Note:  row.Note,
		State: row.State, Slots: []api.AllocatedSlot{}, TTLSeconds: int(row.TTL / time.Second), CreatedAt: row.CreatedAt.UTC(),
		ClaimedAt: api.UTC(row.ClaimedAt), EndsAt: api.UTC(row.EndsAt), EndedAt: api.UTC(row.EndedAt), EndedWhy: row.EndedWhy, User: asked.user,
		Launch: asked.launch, Tasks: []api.AllocationTask{}, Warned: row.Warned}
	s.mu.Lock()
	if row.State == records.Waiting {
		a.WaitsFor = cmp.Or(s.rents[row.ID], s.waits[row.ID], "the gateway to look")
		a.Ahead = s.ahead(row)
	}
	s.mu.Unlock()
	s.fillSlots(&a, row)
	if !whole {
		return a, nil
	}
	return a, s.fillTasks(ctx, &a)
}

// fillSlots adds the slots of an allocation, and what they cost together.
func (s *Service) fillSlots(a *api.Allocation, row records.Allocation) {
	at := map[string]int{}
	var sum float64
	known := len(row.Holds) > 0
	for _, h := range row.Holds {
		if h.FreedAt != nil && row.State != records.Released {
			continue
		}
		i, there := at[h.SlotID]
		if !there {
			i = len(a.Slots)
			at[h.SlotID] = i
			one := api.AllocatedSlot{Slot: h.SlotID, Node: h.NodeID, NodeID: h.NodeID, GPUs: []string{}, State: inventory.HoldState(h.State)}
			if n, ok := s.Node(h.NodeID); ok {
				one.Node = n.Name
				_, price := s.Slot(n, h.SlotID)
				if known = known && price != nil; known {
					sum += *price
				}
			}
			a.Slots = append(a.Slots, one)
		}
		a.Slots[i].GPUs = append(a.Slots[i].GPUs, h.UUID)
		if h.State == records.Blocked {
			a.Slots[i].State, a.Slots[i].Reason, a.Slots[i].Next = api.SlotBlocked, h.Reason, h.Next
		}
	}
	if known {
		a.PerHour = &sum
	}
}

// fillTasks adds the tasks of an allocation.
func (s *Service) fillTasks(ctx context.Context, a *api.Allocation) error {
	tasks, err := s.Records.Tasks(ctx, a.ID)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		known, err := s.Store.Task(ctx, "", t.Task)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		a.Tasks = append(a.Tasks, api.AllocationTask{ID: t.Task, Node: known.NodeName, Type: known.Type, Status: known.Status,
			Error: cmp.Or(known.Error, known.Code)})
	}
	return nil
}

// own refuses a caller who may not change an allocation.
func own(who Caller, a records.Allocation) error {
	if who.Write || a.Owner == who.Account {
		return nil
	}
	return wire.Refuse(wire.CodeForbidden, "the allocation "+a.ID+" belongs to "+a.Owner,
		"ask its owner, or use an account with "+api.ScopePlacementWrite)
}

// Extend moves the end of an allocation.
func (s *Service) Extend(ctx context.Context, who Caller, id string, q api.ExtendRequest) (api.Allocation, error) {
	row, err := s.allocation(ctx, who.Tenant, id)
	if err == nil {
		err = own(who, row)
	}
	if err != nil {
		return api.Allocation{}, err
	}
	if row.State != records.Allocated {
		return api.Allocation{}, wire.Refuse(wire.CodeIllegalMove, "the allocation is "+row.State, "only one that has its GPUs can be extended")
	}
	now := s.Now()
	more, known := seconds(q.Seconds)
	if !known {
		return api.Allocation{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%d seconds are too many", q.Seconds),
			"at most "+inWords(s.longest)+" from now")
	}
	to := row.EndsAt.Add(more)
	if q.Until != nil {
		to = *q.Until
	}
	if (q.Seconds > 0) == (q.Until != nil) || !to.After(now) || to.After(now.Add(s.longest)) {
		return api.Allocation{}, wire.Refuse(wire.CodeBadRequest, "the allocation cannot end at "+to.UTC().Format(time.RFC3339),
			"at most "+inWords(s.longest)+" from now, and not in the past")
	}
	e := s.about("allocation.extended", row, who.By, map[string]string{"ends": to.UTC().Format(time.RFC3339)})
	if err := s.Records.Extend(ctx, id, *row.EndsAt, to, e); errors.Is(err, store.ErrConflict) {
		return api.Allocation{}, wire.Refuse(wire.CodeIllegalMove, "the allocation has changed meanwhile", "muster alloc show "+id)
	} else if err != nil {
		return api.Allocation{}, err
	}
	if err := s.rereadOf(ctx, id); err != nil {
		return api.Allocation{}, err
	}
	return s.Allocation(store.Fresh(ctx), who.Tenant, id)
}

// Release ends an allocation. A second call only has the GPUs that could not be cleaned looked at again at once.
func (s *Service) Release(ctx context.Context, who Caller, id string) (api.Allocation, error) {
	row, err := s.allocation(ctx, who.Tenant, id)
	if err == nil {
		err = own(who, row)
	}
	if err == nil && (row.State == records.Waiting || row.State == records.Allocated) {
		err = s.release(ctx, row, records.Release{ID: id, Why: "released by " + who.By.Name, At: s.Now()}, who.By)
	}
	if err == nil && row.State == records.Releasing {
		err = s.Records.Hasten(ctx, id, s.Now())
	}
	if err != nil && !errors.Is(err, store.ErrConflict) { // it has ended meanwhile
		return api.Allocation{}, err
	}
	s.Wake()
	return s.Allocation(store.Fresh(ctx), who.Tenant, id)
}

// release ends an allocation in the database and in memory.
func (s *Service) release(ctx context.Context, row records.Allocation, r records.Release, by store.Actor) error {
	kind := "allocation.released"
	if r.Expired {
		kind = "allocation.expired"
	}
	if err := s.Records.Release(ctx, r, s.about(kind, row, by, map[string]string{"why": r.Why})); err != nil {
		return err
	}
	s.leave(row.ID)
	return s.rereadOf(ctx, row.ID)
}

// rereadOf reads the nodes of an allocation again, as it is now: it may have got its GPUs since somebody looked.
func (s *Service) rereadOf(ctx context.Context, id string) error {
	row, err := s.Records.Allocation(store.Fresh(ctx), id)
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, h := range row.Holds {
		ids[h.NodeID] = true
	}
	return s.Reread(ctx, slices.Collect(maps.Keys(ids))...)
}

// about is an event of an allocation.
func (s *Service) about(kind string, a records.Allocation, by store.Actor, detail map[string]string) store.Event {
	detail["allocation"], detail["owner"] = a.ID, a.Owner
	e := s.Event(kind, nil, by, detail)
	e.Tenant = a.Tenant
	return e
}

// Quotas lists the tenants with a quota, and those that have GPUs.
func (s *Service) Quotas(ctx context.Context, tenant string) (api.QuotaList, error) {
	rows, err := s.Records.Quotas(ctx)
	out := api.QuotaList{Quotas: []api.Quota{}}
	for _, row := range rows {
		if tenant == "" || row.Tenant == tenant {
			out.Quotas = append(out.Quotas, shownQuota(row))
		}
	}
	return out, err
}

func shownQuota(q records.Quota) api.Quota {
	out := api.Quota{Tenant: q.Tenant, Used: int(q.Used)}
	if q.GPUs != nil {
		out.GPUs = new(int(*q.GPUs))
	}
	return out
}

// SetQuota says how many GPUs a tenant may have at once. A tenant that has more keeps them.
func (s *Service) SetQuota(ctx context.Context, who Caller, tenant string, q api.QuotaRequest) (api.Quota, error) {
	if err := wire.CheckTenant(tenant); err != nil {
		return api.Quota{}, err
	}
	said := "none"
	var most *int64
	if q.GPUs != nil {
		if *q.GPUs < 0 || *q.GPUs > 1<<20 {
			return api.Quota{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%d is no number of GPUs", *q.GPUs),
				"0 or more; muster quota rm ends the quota")
		}
		said = fmt.Sprint(*q.GPUs)
		most = new(int64(*q.GPUs))
	}
	e := s.Event("quota.set", nil, who.By, map[string]string{"gpus": said})
	e.Tenant, e.Security = tenant, true
	if err := s.Records.SetQuota(ctx, tenant, most, s.Now(), who.By.Name, e); err != nil {
		return api.Quota{}, err
	}
	s.Wake()
	row, err := s.Records.Quota(store.Fresh(ctx), tenant)
	return shownQuota(row), err
}
