package usage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"muster/gateway/api"
	records "muster/store/placement"
)

// Of returns the uses of a node's GPUs that were seen since a time, at most limit of them: first those that go on, then the others, the
// last seen first.
func (s *Service) Of(ctx context.Context, nodeID string, since time.Time, limit int) (api.GPUUseList, error) {
	written, err := s.Records.Uses(ctx, nodeID, since)
	if err != nil {
		return api.GPUUseList{}, err
	}
	index := map[string]*int{}
	if row, known := s.Node(nodeID); known {
		for i := range row.GPUs {
			index[row.GPUs[i].UUID] = &row.GPUs[i].Index
		}
	}
	list := api.GPUUseList{Uses: []api.GPUUse{}}
	add := func(u records.Use, isNow bool) {
		list.Uses = append(list.Uses, api.GPUUse{GPU: u.GPU, Index: index[u.GPU], User: u.User, Program: u.Program, Container: u.Container,
			Allocation: u.Allocation, Owner: u.Owner, From: u.Since.UTC(), Until: u.Until.UTC(), Now: isNow, MemoryMiB: u.MemoryMiB})
	}
	newer := s.kept(nodeID)
	for _, u := range written {
		if now, there := newer[u.UseKey]; !there || !now.Since.Equal(u.Since) {
			add(u, false)
		}
	}
	for _, u := range newer {
		if !u.Until.Before(since) {
			add(u.Use, !u.gone && s.Now().Sub(u.Until) <= Gap)
		}
	}
	slices.SortFunc(list.Uses, newestFirst)
	list.Total = len(list.Uses)
	list.Uses = list.Uses[:min(limit, len(list.Uses))]
	return list, nil
}

// kept are copies of what memory has of a node: it is newer than the database.
func (s *Service) kept(nodeID string) map[records.UseKey]use {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[records.UseKey]use{}
	if n := s.nodes[nodeID]; n != nil {
		for key, u := range n.uses {
			all[key] = *u
		}
	}
	return all
}

func newestFirst(a, b api.GPUUse) int {
	if a.Now != b.Now {
		if a.Now {
			return -1
		}
		return 1
	}
	return cmp.Or(b.Until.Compare(a.Until), b.From.Compare(a.From), cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.User, b.User),
		cmp.Compare(a.Program, b.Program), cmp.Compare(a.Container, b.Container))
}
