package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/gateway/internal/placement/inventory/profile"
	"muster/store"
	records "muster/store/placement"
)

// readProfiles reads the profiles that were pushed.
func (s *Service) readProfiles(ctx context.Context) error {
	rows, err := s.Records.Profiles(ctx)
	if err != nil {
		return err
	}
	pushed := map[string]api.Profile{}
	for _, row := range rows {
		p, err := profile.Read([]byte(row.Body))
		if err != nil {
			s.Logger.Error("a profile cannot be read any more: push it again", "profile", row.Name, "error", err)
			continue
		}
		p.UpdatedAt, p.UpdatedBy = api.UTC(&row.UpdatedAt), row.UpdatedBy
		pushed[row.Name] = p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pushed = pushed
	return nil
}

// profile finds a profile by its name. The caller holds the lock, or is alone.
func (s *Service) profile(name string) (api.Profile, bool) {
	if p, ok := profile.Find(name); ok {
		return p, true
	}
	p, ok := s.pushed[name]
	return p, ok
}

// Profiles returns all profiles, those that are built in first.
func (s *Service) Profiles(context.Context) ([]api.Profile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for id, n := range s.nodes {
		if row, known := s.Node(id); known && row.State != wire.StateRetired {
			counts[n.profile]++
		}
	}
	all := profile.BuiltIn()
	for _, name := range slices.Sorted(maps.Keys(s.pushed)) {
		all = append(all, s.pushed[name])
	}
	for i := range all {
		all[i].Nodes = counts[all[i].Name]
	}
	return all, nil
}

// Profile returns one profile.
func (s *Service) Profile(ctx context.Context, name string) (api.Profile, error) {
	all, err := s.Profiles(ctx)
	for _, p := range all {
		if p.Name == name {
			return p, err
		}
	}
	if err == nil {
		err = noProfile(name)
	}
	return api.Profile{}, err
}

func noProfile(name string) error {
	return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no profile %.80q", name), "muster profile ls")
}

// PushProfile stores a profile in the place of an earlier one of its name. The nodes that have it are checked again.
func (s *Service) PushProfile(ctx context.Context, body []byte, by store.Actor) (p api.Profile, changed bool, err error) {
	if p, err = profile.Read(body); err != nil {
		return p, false, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return p, false, err
	}
	if earlier, err := s.Records.Profile(ctx, p.Name); err == nil && earlier.Body == string(text) {
		p, err = s.Profile(ctx, p.Name)
		return p, false, err
	}
	err = s.Records.PutProfile(ctx, records.Profile{Name: p.Name, Body: string(text), UpdatedAt: s.Now(), UpdatedBy: by.Name},
		s.Event("profile.pushed", nil, by, map[string]string{"profile": p.Name}))
	if err == nil {
		err = s.readProfiles(ctx)
	}
	if err == nil {
		err = s.rereadWith(ctx, p.Name)
	}
	if err != nil {
		return p, false, err
	}
	s.Wake()
	p, err = s.Profile(ctx, p.Name)
	return p, true, err
}

// rereadWith reads the nodes with a profile again.
func (s *Service) rereadWith(ctx context.Context, name string) error {
	s.mu.Lock()
	var ids []string
	for id, n := range s.nodes {
		if n.profile == name {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	return s.Reread(ctx, ids...)
}

// RemoveProfile removes a profile that no node has.
func (s *Service) RemoveProfile(ctx context.Context, name string, by store.Actor) error {
	p, err := s.Profile(ctx, name)
	switch {
	case err != nil:
		return err
	case p.BuiltIn:
		return wire.Refuse(wire.CodeBadRequest, name+" is built in", "it stays; nodes need not have it")
	}
	err = s.Records.RemoveProfile(ctx, name, s.Event("profile.removed", nil, by, map[string]string{"profile": name}))
	if errors.Is(err, store.ErrConflict) {
		return wire.Refuse(wire.CodeIllegalMove, "nodes have the profile "+name, "give them another one first: muster profile show "+name)
	}
	if err != nil {
		return err
	}
	return s.readProfiles(ctx)
}

// Assign gives nodes a profile. Each node is judged by itself.
func (s *Service) Assign(ctx context.Context, who Caller, q api.AssignRequest) (api.Assigned, error) {
	out := api.Assigned{Nodes: []api.AssignedNode{}}
	if q.Profile != "" {
		if _, err := s.Profile(ctx, q.Profile); err != nil {
			return out, err
		}
	}
	rows, err := s.named(ctx, who.Tenant, q.Nodes, q.Selector)
	if err != nil {
		return out, err
	}
	for _, row := range rows {
		one, err := s.assign(ctx, row, q.Profile, who.By)
		if err != nil {
			return out, err
		}
		out.Nodes = append(out.Nodes, one)
	}
	s.Wake()
	return out, nil
}

// named are nodes by their names, or those that a selector chooses.
func (s *Service) named(ctx context.Context, tenant string, names []string, selector string) (rows []*api.NodeRow, err error) {
	if len(names) == 0 && selector == "" {
		return nil, wire.Refuse(wire.CodeBadRequest, "no node is named", "give names, or a selector: -l provider=vast_ai")
	}
	for _, name := range names {
		row, err := s.Row(ctx, tenant, name)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	if selector == "" {
		return rows, nil
	}
	picks, err := label.ParseSelector(selector)
	if err != nil {
		return nil, err
	}
	for _, row := range s.Nodes() {
		if (tenant == "" || row.Tenant == tenant) && label.Matches(picks, row) && !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// assign gives one node a profile.
func (s *Service) assign(ctx context.Context, row *api.NodeRow, name string, by store.Actor) (out api.AssignedNode, err error) {
	s.mu.Lock()
	n := s.at(row.ID)
	out = api.AssignedNode{Node: row.Name, Before: n.profile, Profile: name}
	holds := slices.Collect(maps.Values(n.holds))
	s.mu.Unlock()
	switch {
	case out.Before == name:
		return out, nil
	case len(holds) > 0:
		out.Profile = out.Before
		if h := holds[0]; h.State == records.Held || h.State == claiming {
			out.Refused = "it has allocations: release them first (muster alloc release " + h.Allocation + ")"
		} else {
			out.Refused = "it is not clean yet after the allocation " + h.Allocation + ": muster alloc show " + h.Allocation
		}
		return out, nil
	case profile.Conflict(out.Before, name) && store.HasAgent(row.State): // what is to be installed has neither
		out.Profile = out.Before
		out.Refused = "it has " + out.Before + ", and a host never has both: take that away first (muster profile assign none " + row.Name + ")"
		return out, nil
	}
	detail := map[string]string{"profile": name, "before": out.Before}
	err = s.Records.Assign(ctx, records.Assignment{NodeID: row.ID, From: out.Before, To: name, Pushed: s.isPushed(name)},
		s.Event("profile.assigned", row, by, detail))
	if errors.Is(err, store.ErrConflict) {
		if err = s.Reread(ctx, row.ID); err != nil {
			return out, err
		}
		out.Profile, out.Refused = out.Before, "it has changed meanwhile: look at it, and try again"
		return out, nil
	}
	if err != nil {
		return out, err
	}
	s.mu.Lock()
	s.at(row.ID).check = check{} // what is under way was asked for another profile
	s.mu.Unlock()
	return out, s.Reread(ctx, row.ID)
}

func (s *Service) isPushed(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, pushed := s.pushed[name]
	return pushed
}
