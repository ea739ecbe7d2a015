package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/view/hardware"
	"muster/store"
)

// figures are the newest figures of a node, and the kind of node that they compare with.
type figures struct {
	kind string // its GPUs, such as 8 x h100-sxm
	all  []wire.Figure
}

// loadFigures reads the newest acceptance of each node.
func (s *Service) loadFigures(ctx context.Context) error {
	for after := ""; ; {
		some, err := s.Records.AcceptedOfAll(ctx, after, store.Piece)
		if err != nil {
			return err
		}
		for _, e := range some {
			var seen wire.Evidence
			if json.Unmarshal([]byte(e.Body), &seen) == nil {
				s.accepted[e.NodeID] = figuresOf(seen)
			}
			after = e.NodeID
		}
		if len(some) < store.Piece {
			return nil
		}
	}
}

func figuresOf(e wire.Evidence) figures {
	return figures{kind: seen(hardware.GPUs(e.Facts)), all: e.Figures}
}

// Evidence returns the newest evidence of a node, and what follows from it.
func (s *Service) Evidence(ctx context.Context, tenant, name string) (api.NodeEvidence, error) {
	row, err := s.Row(ctx, tenant, name)
	if err != nil {
		return api.NodeEvidence{}, err
	}
	newest, err := s.Records.Newest(ctx, row.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return api.NodeEvidence{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.at(row.ID)
	out := api.NodeEvidence{Node: row.Name, NodeID: row.ID, Profile: n.profile, Missing: []string{}, Pending: n.check.task, Tags: []api.Tag{},
		Figures: s.beside(row.ID)}
	var e wire.Evidence
	if err != nil || json.Unmarshal([]byte(newest.Body), &e) != nil {
		return out, nil
	}
	out.Evidence, out.At, out.Digest = &e, api.UTC(&newest.At), newest.Digest
	out.Current = newest.Current && newest.Profile == n.profile
	out.Tags = append(out.Tags, hardware.Tags(e.Facts)...)
	if p, ok := s.profile(n.profile); ok {
		out.Missing = append(out.Missing, missing(p, e)...)
	}
	return out, nil
}

// beside puts the figures of a node beside those of the nodes with the same GPUs. The caller holds the lock.
func (s *Service) beside(id string) []api.FigureBeside {
	own := s.accepted[id]
	out := make([]api.FigureBeside, 0, len(own.all))
	for _, f := range own.all {
		var values []float64
		for other, theirs := range s.accepted {
			if other == id || theirs.kind != own.kind {
				continue
			}
			for _, g := range theirs.all {
				if g.Name == f.Name && g.Unit == f.Unit {
					values = append(values, g.Value)
				}
			}
		}
		b := api.FigureBeside{Figure: f, Of: len(values)}
		if len(values) > 0 {
			slices.Sort(values)
			b.Median = new((values[(len(values)-1)/2] + values[len(values)/2]) / 2)
		}
		out = append(out, b)
	}
	return out
}

// Row finds a node of a tenant by its name or id.
func (s *Service) Row(ctx context.Context, tenant, name string) (*api.NodeRow, error) {
	n, err := s.Store.Node(ctx, tenant, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no node %.80q", name), "muster node ls")
	}
	if err != nil {
		return nil, err
	}
	row, known := s.Node(n.ID)
	if !known {
		return nil, wire.Refuse(wire.CodeUnavailable, "node "+n.Name+" is not loaded yet", "try again in some seconds")
	}
	return row, nil
}
