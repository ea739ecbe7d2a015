// Package usage keeps who has worked on which GPU, from when to when, and for which allocation.
//
// Agents look at the processes on their GPUs every few minutes. What they name is put together by user, program and container, so that the
// many processes of one job are one use. A use that is not seen for longer than Gap has ended. It is written when it is new, when it ends,
// and now and then while it goes on; so a database that takes no writes for a while loses little, and an idle fleet writes nothing.
package usage

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory"
	"muster/gateway/internal/view"
	"muster/store"
	records "muster/store/placement"
)

// Gap is for how long a use may be unseen and still be the same: three looks of an agent.
const Gap = 15 * time.Minute

const (
	writeEvery = time.Minute
	stepLeast  = 5 * time.Minute // by which a use must have gone on before that is written
)

// Config says what a Service works with.
type Config struct {
	Records records.Records
	Holds   func(nodes ...string) []inventory.Hold   // who has what of these nodes; must not wait
	Node    func(nodeID string) (*api.NodeRow, bool) // as it is known now
	Now     func() time.Time                         // nil: time.Now
	Logger  *slog.Logger                             // nil: nothing is logged
}

// Service is safe for concurrent use.
type Service struct {
	Config
	failing bool // the last write failed; Run's alone

	mu    sync.Mutex
	nodes map[string]*node
}

// node is what is kept of one that has, or had, processes on its GPUs.
type node struct {
	listed time.Time // when its processes were looked at last, by its own clock
	uses   map[records.UseKey]*use
}

// use is one that has not ended, or is not written to its end.
type use struct {
	records.Use
	written time.Time // Until as the database has it; zero: it has nothing of the use
	gone    bool      // the last look did not see it
}

// isDue reports whether a use is to be written; all: also one that has gone on for a short time only.
func (u *use) isDue(all bool) bool {
	step := u.Until.Sub(u.written)
	return u.written.IsZero() || step >= stepLeast || step > 0 && (all || u.gone)
}

// Open makes a Service that goes on with the uses in the database that were seen a short time ago.
func Open(ctx context.Context, c Config) (*Service, error) {
	s := &Service{Config: c, nodes: map[string]*node{}}
	if s.Now == nil {
		s.Now = time.Now
	}
	s.Logger = cmp.Or(s.Logger, slog.New(slog.DiscardHandler))
	recent, err := s.Records.RecentUses(ctx, s.Now().Add(-Gap))
	for _, u := range recent {
		s.node(u.NodeID).uses[u.UseKey] = &use{Use: u, written: u.Until}
	}
	return s, err
}

// node gives what is kept of a node. The caller holds the lock, or is alone.
func (s *Service) node(id string) *node {
	n := s.nodes[id]
	if n == nil {
		n = &node{uses: map[records.UseKey]*use{}}
		s.nodes[id] = n
	}
	return n
}

// Take looks at heartbeats. It keeps in memory what they change, for Run to write.
func (s *Service) Take(_ context.Context, samples []view.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range samples {
		if h := samples[i].Hardware; h != nil {
			s.look(&samples[i], h.GPUs)
		}
	}
}

// look takes one look at a node. Many heartbeats repeat one list of processes: it says nothing of now, and GPUs may have changed hands
// since. The caller holds the lock.
func (s *Service) look(sample *view.Sample, gpus []wire.GPU) {
	var listed time.Time // zero: there is no process
	for i := range gpus {
		if p := gpus[i].Processes; p != nil {
			listed = latest(listed, p.At)
		}
	}
	if s.nodes[sample.NodeID] == nil && listed.IsZero() {
		return
	}
	n := s.node(sample.NodeID)
	if !listed.IsZero() && listed.Equal(n.listed) {
		return
	}
	n.listed = listed
	seen := map[records.UseKey]records.Use{}
	known := map[string]bool{} // GPUs whose processes are all known
	holds := s.Holds(sample.NodeID)
	for i := range gpus {
		g := &gpus[i]
		if p := g.Processes; g.UUID != "" && p != nil && p.Count != nil {
			known[g.UUID] = *p.Count <= len(p.List)
			gather(seen, sample, g, holds)
		}
	}
	n.see(seen, known, sample.At)
}

// gather puts the processes of one GPU together.
func gather(seen map[records.UseKey]records.Use, sample *view.Sample, g *wire.GPU, holds []inventory.Hold) {
	at := sample.LookedAt(g.Processes)
	for _, p := range g.Processes.List {
		of := func(h inventory.Hold) bool { return h.Allocation == p.Allocation }
		if p.Allocation == "" { // then it counts for whoever had the GPU
			of = func(h inventory.Hold) bool { return h.UUID == g.UUID && !h.Since.After(at) }
		}
		key := records.UseKey{NodeID: sample.NodeID, GPU: g.UUID, User: p.User, Program: p.Program, Container: p.Container,
			Allocation: p.Allocation}
		u := records.Use{UseKey: key, Since: at, Until: at, MemoryMiB: p.MemoryMiB}
		if i := slices.IndexFunc(holds, of); i >= 0 {
			u.Allocation, u.Owner = holds[i].Allocation, holds[i].Owner
		}
		if before, again := seen[u.UseKey]; again {
			u.MemoryMiB = sum(before.MemoryMiB, u.MemoryMiB)
		}
		seen[u.UseKey] = u
	}
}

// sum is not known if one of the two is not.
func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}

// see takes what one look has seen. known are the GPUs of whose processes it has seen all.
func (n *node) see(seen map[records.UseKey]records.Use, known map[string]bool, at time.Time) {
	for key, u := range n.uses {
		if known[key.GPU] {
			_, there := seen[key]
			u.gone = !there
		}
		if at.Sub(u.Until) > Gap && !u.isDue(true) {
			delete(n.uses, key)
		}
	}
	for key, now := range seen {
		u := n.uses[key]
		if u != nil && now.Until.Sub(u.Until) <= Gap {
			u.Until = latest(u.Until, now.Until) // the clock may have been set back
			u.MemoryMiB = most(u.MemoryMiB, now.MemoryMiB)
			continue
		}
		if u != nil || len(n.uses) < records.MostUses { // one that ended, and that the database did not take for so long, is given up
			n.uses[key] = &use{Use: now}
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func most(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// Run writes until ctx ends, and then what is left.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(writeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.said(ctx, s.write(ctx, false))
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			s.said(last, s.write(last, true))
			return nil
		}
	}
}

// said logs once that writes fail, and once that they go on.
func (s *Service) said(ctx context.Context, err error) {
	switch failing := err != nil; {
	case failing == s.failing || ctx.Err() != nil:
		return
	case failing:
		s.Logger.Error("who uses GPUs is not written: it waits in memory", "error", err)
	default:
		s.Logger.Info("who uses GPUs is written again")
	}
	s.failing = err != nil
}

// write writes what is due, one statement for many uses; all: also what has gone on for a short time only.
func (s *Service) write(ctx context.Context, all bool) error {
	for _, piece := range slices.Collect(slices.Chunk(s.due(all), store.Piece)) {
		var fresh []string
		uses := make([]records.Use, 0, len(piece))
		for _, u := range piece {
			uses = append(uses, u.Use)
			if u.written.IsZero() && !slices.Contains(fresh, u.NodeID) {
				fresh = append(fresh, u.NodeID)
			}
		}
		if err := s.Records.SaveUses(ctx, uses, fresh); err != nil {
			return err
		}
		s.wrote(uses)
	}
	return nil
}

// due are copies of the uses that are to be written, and forgets nodes of which nothing is kept.
func (s *Service) due(all bool) (due []use) {
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.nodes {
		for key, u := range n.uses {
			if u.isDue(all) {
				due = append(due, *u)
			} else if now.Sub(u.Until) > Gap {
				delete(n.uses, key)
			}
		}
		if len(n.uses) == 0 {
			delete(s.nodes, id)
		}
	}
	slices.SortFunc(due, func(a, b use) int { return cmp.Compare(a.NodeID, b.NodeID) })
	return due
}

// wrote notes what the database has.
func (s *Service) wrote(uses []records.Use) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range uses {
		if n := s.nodes[w.NodeID]; n != nil {
			if u := n.uses[w.UseKey]; u != nil && u.Since.Equal(w.Since) {
				u.written = w.Until
			}
		}
	}
}
