package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory"
	"muster/store"
	records "muster/store/placement"
)

// Kinds of the tasks of an allocation.
const (
	kindUser   = "user"
	kindLaunch = "launch"
	kindClean  = "clean"
)

// equipTime is until when a node must have begun with what the owner of an allocation gets.
const equipTime = time.Hour

// equip makes what the owner of a placed allocation gets on its nodes: an account, and a workload.
func (s *Service) equip(ctx context.Context, a *ask) error {
	for _, id := range slices.Sorted(maps.Keys(a.gpus)) {
		if a.user != nil {
			o := inventory.Order{Type: wire.TaskProvisionUser, Params: wire.ProvisionUser{Username: a.user.Name, Keys: a.user.Keys,
				Sudo: a.user.Sudo, Allocation: a.ID}}
			if err := s.order(ctx, a, kindUser, id, o); err != nil {
				return err
			}
		}
		if a.launch != nil {
			params, err := launchParams(*a.launch, a.ID, a.gpus[id])
			if err == nil {
				err = s.order(ctx, a, kindLaunch, id, inventory.Order{Type: a.launch.Type, Params: params})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// order notes a task of an allocation, and then makes it: one that is noted and was not made is seen.
func (s *Service) order(ctx context.Context, a *ask, kind, nodeID string, o inventory.Order) error {
	o.ID, o.NodeID, o.By, o.Expires = inventory.Named(kind, a.ID, nodeID), nodeID, store.Actor{Name: a.Owner}, equipTime
	err := s.Records.AddTask(ctx, records.AllocationTask{Allocation: a.ID, Task: o.ID, NodeID: nodeID, Kind: kind})
	if err == nil {
		err = s.Send(ctx, o)
	}
	if _, is := errors.AsType[*wire.ErrorDetail](err); is {
		s.Logger.Warn("a task of an allocation was refused", "allocation", a.ID, "type", o.Type, "error", err)
		return nil
	}
	return err
}

// launchParams are the params of a workload on the GPUs of an allocation.
func launchParams(l api.Launch, allocation string, gpus []string) (json.RawMessage, error) {
	var given map[string]any
	if err := sign.DecodeStrict(l.Params, &given); err != nil {
		return nil, wire.Refuse(wire.CodeTaskParamsInvalid, "the params of the workload are no JSON object", "muster task types shows them")
	}
	for _, ours := range []string{"gpus", "gpu_count", "allocation"} {
		if _, there := given[ours]; there {
			return nil, wire.Refuse(wire.CodeTaskParamsInvalid, "the workload names "+ours+" itself", "it gets the GPUs of the allocation")
		}
	}
	given["allocation"] = allocation
	if len(gpus) > 0 {
		given["gpus"] = gpus
	}
	return json.Marshal(given)
}

// checkLaunch refuses a workload that the gateway would refuse once it has its GPUs. A tag gets its digest only then.
func checkLaunch(l api.Launch) error {
	kind, err := wire.FindTaskType(l.Type)
	if err != nil {
		return err
	}
	raw, err := launchParams(l, strings.Repeat("a", 16), []string{"GPU-00000000-0000-0000-0000-000000000000"})
	if err != nil {
		return err
	}
	params := kind.New()
	if err := sign.DecodeStrict(raw, params); err != nil {
		return wire.Refuse(wire.CodeTaskParamsInvalid, fmt.Sprintf("these are not the params of %s: %v", kind.Name, err),
			"muster task types shows the params of each type")
	}
	if launch, is := params.(*wire.WorkloadLaunch); is {
		if image, tagged := launch.Tagged(); tagged {
			image.Digest = "sha256:" + strings.Repeat("0", 64)
			launch.Image = image.String()
		}
	}
	return params.Check()
}

// endOverdue ends the allocations whose time is over.
func (s *Service) endOverdue(ctx context.Context) error {
	now := s.Now()
	rows, err := s.Records.Ending(ctx, now)
	for _, row := range rows {
		r := records.Release{ID: row.ID, Why: "its time was over", At: now, Expired: true}
		if failed := s.release(ctx, row, r, store.Actor{}); failed != nil && !errors.Is(failed, store.ErrConflict) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// warnOwners tells owners of an end, once.
func (s *Service) warnOwners(ctx context.Context) error {
	rows, err := s.Records.Warnable(ctx, s.Now(), warnBefore)
	for _, row := range rows {
		e := s.about("allocation.ending", row, store.Actor{}, map[string]string{"ends": row.EndsAt.UTC().Format(time.RFC3339)})
		if failed := s.Records.Warned(ctx, row.ID, *row.EndsAt, e); failed != nil && !errors.Is(failed, store.ErrConflict) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// Ending returns one hold of each allocation that ends soon, since when it does: from its beginning at the earliest.
func (s *Service) Ending() (soon []inventory.Hold) {
	now := s.Now()
	seen := map[string]bool{}
	for _, h := range s.Holds() {
		if h.State == records.Held && h.EndsAt.Sub(now) <= warnBefore && !seen[h.Allocation] {
			seen[h.Allocation] = true
			if warned := h.EndsAt.Add(-warnBefore); warned.After(h.Since) {
				h.Since = warned
			}
			soon = append(soon, h)
		}
	}
	return soon
}

// losses are the events of what allocations lose with a node, one for each.
func (s *Service) losses(nodeID string) (events []store.Event) {
	seen := map[string]bool{}
	for _, h := range s.Holds(nodeID) {
		if !seen[h.Allocation] {
			seen[h.Allocation] = true
			a := records.Allocation{ID: h.Allocation, Owner: h.Owner, Tenant: h.Tenant}
			e := s.about("allocation.lost", a, store.Actor{}, map[string]string{"why": "its machine was given back"})
			e.NodeID = nodeID
			events = append(events, e)
		}
	}
	return events
}

// forgetGone frees what nodes have that were given back, or taken back by force.
func (s *Service) forgetGone(ctx context.Context) error {
	gone, err := s.Records.Stranded(ctx)
	for _, id := range gone {
		err := s.Records.FreeNode(ctx, id, "its machine was given back", s.Now(), s.losses(id)...)
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
		if err := s.Reread(ctx, id); err != nil {
			return err
		}
	}
	return err
}
