package view

import (
	"context"
	"time"

	"muster/gateway/api"
)

// pace is the least time between two answers of a watch.
const pace = time.Second

// Watch tells one reader what changes. It is for one goroutine.
type Watch struct {
	fleet   *Fleet
	query   Query
	retired bool
	seen    uint64    // version of the view that the reader knows
	shown   places    // of the nodes that it has
	last    time.Time // when it was answered last
}

// Watch begins with what the view has now. A reader first makes a watch and then asks for the rows: so nothing falls between the two.
// A change that is in the rows already may come again.
func (p *Fleet) Watch(q Query) *Watch {
	w := &Watch{fleet: p, query: q, retired: q.retired()}
	p.mu.RLock()
	defer p.mu.RUnlock()
	w.seen = p.version
	for _, n := range p.order {
		if q.picks(n.row, w.retired) {
			w.shown.add(n.place)
		}
	}
	return w
}

// Changes are the nodes that have changed. Each is there once, as it is now, however often it changed.
type Changes struct {
	Nodes []*api.NodeRow
	Alive []*api.NodeRow // nothing of their api.Brief has changed but the api.Live
	Gone  []string       // ids of nodes that the query picks no more
}

func (c *Changes) empty() bool { return len(c.Nodes)+len(c.Alive)+len(c.Gone) == 0 }

// Next waits until something has changed that the query picks. It returns once in a second at most. The error is that of ctx.
func (w *Watch) Next(ctx context.Context) (Changes, error) {
	for {
		if err := wait(ctx, pace-time.Since(w.last)); err != nil {
			return Changes{}, err
		}
		changes, news := w.look()
		w.last = time.Now() // also if nothing is for this reader: looking costs something too
		if !changes.empty() {
			return changes, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return Changes{}, ctx.Err()
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look collects what is newer than the reader knows. news is closed when there is more.
func (w *Watch) look() (c Changes, news <-chan struct{}) {
	p := w.fleet
	p.mu.RLock()
	defer p.mu.RUnlock()
	for e := p.changes.Front(); e != nil && e.Value.(*node).version > w.seen; e = e.Next() {
		n := e.Value.(*node)
		g := n.row
		switch {
		case !w.query.picks(g, w.retired):
			if !w.shown.has(n.place) {
				continue
			}
			c.Gone = append(c.Gone, g.ID)
			w.shown.remove(n.place)
		case n.reshaped > w.seen: // so is a node that the query picks from now on
			c.Nodes = append(c.Nodes, g)
			w.shown.add(n.place)
		default:
			c.Alive = append(c.Alive, g)
		}
	}
	w.seen = p.version
	return c, p.news
}

// places is a set of nodes, a bit for each: a fleet has many readers, and each of them may look at all nodes.
type places []uint64

func (p *places) add(place int) {
	for place/64 >= len(*p) {
		*p = append(*p, 0)
	}
	(*p)[place/64] |= 1 << (place % 64)
}

func (p places) has(place int) bool { return place/64 < len(p) && p[place/64]&(1<<(place%64)) != 0 }

// remove takes out one that is in the set.
func (p places) remove(place int) { p[place/64] &^= 1 << (place % 64) }
