package httpserver

import (
	"container/list"
	"iter"
)

// crowd holds groups of connections, ordered by how many each has. So the group with the most is found at once, and adding or removing
// a connection takes the same time however many there are. The limiter's lock guards it.
type crowd struct {
	total int          // sum of the groups' counts
	by    []*list.List // by[n] has the groups with count n, in the order in which they reached it; by[0] is empty
	most  int          // the highest count of a group
}

// group holds the connections of one address or of one owner, oldest first. A connection that was found busy moves to the end.
type group struct {
	in    *crowd
	owner string // of a proven group
	count int    // its connections, and the requests that count beside them
	conns list.List
	place *list.Element // in the crowd
}

// oldest is the first connection; nil: there is none.
func (g *group) oldest() *Conn {
	if e := g.conns.Front(); e != nil {
		return e.Value.(*Conn)
	}
	return nil
}

// add puts a connection at a group's end.
func (g *group) add(c *Conn) {
	c.group = g
	c.place = g.conns.PushBack(c)
	g.weigh(1)
}

// remove takes a connection out of its group, with the requests that count beside it.
func (g *group) remove(c *Conn) {
	g.conns.Remove(c.place)
	g.weigh(-1 - c.extra)
	c.group = nil
	c.place = nil
	c.extra = 0
}

// turn puts the oldest connection at the end.
func (g *group) turn() { g.conns.MoveToBack(g.conns.Front()) }

// weigh changes a group's count.
func (g *group) weigh(by int) {
	g.in.take(g)
	g.count += by
	g.in.put(g)
}

// join moves a group with its connections into another crowd.
func (g *group) join(w *crowd) {
	g.in.take(g)
	g.in = w
	w.put(g)
}

func (w *crowd) put(g *group) {
	if g.count == 0 {
		return
	}
	for len(w.by) <= g.count {
		w.by = append(w.by, list.New())
	}
	g.place = w.by[g.count].PushBack(g)
	w.total += g.count
	w.most = max(w.most, g.count)
}

func (w *crowd) take(g *group) {
	if g.count == 0 {
		return
	}
	w.by[g.count].Remove(g.place)
	w.total -= g.count
	for w.most > 0 && w.by[w.most].Len() == 0 {
		w.most--
	}
}

// turn puts a group behind those with as many connections.
func (w *crowd) turn(g *group) { w.by[g.count].MoveToBack(g.place) }

// heaviest is the group with the most connections; of several, the one that reached its count first; nil if there is none.
func (w *crowd) heaviest() *group {
	if w.most == 0 {
		return nil
	}
	return w.by[w.most].Front().Value.(*group)
}

// all are the connections of all groups.
func (w *crowd) all() iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		for n := w.most; n > 0; n-- {
			for g := w.by[n].Front(); g != nil; g = g.Next() {
				for c := g.Value.(*group).conns.Front(); c != nil; c = c.Next() {
					if !yield(c.Value.(*Conn)) {
						return
					}
				}
			}
		}
	}
}
