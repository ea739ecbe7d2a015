package httpserver

import "iter"

// crowd holds groups of connections, ordered by how many each has. So the group with the most is found at once, and adding or removing
// a connection takes the same time however many there are. The limiter's lock guards it.
type crowd struct {
	total int     // sum of the groups' counts
	by    []queue // by[n] has the groups with count n; by[0] is empty
	most  int     // the highest count of a group
}

// queue holds groups in the order in which they reached their count.
type queue struct{ first, last *group }

// group holds the connections of one address or of one owner, oldest first. A connection that was found busy moves to the end.
type group struct {
	in             *crowd
	owner          string // of a proven group
	count          int    // its connections, and the requests that count beside them
	oldest, newest *Conn
	before, after  *group
}

// add puts a connection at a group's end.
func (g *group) add(c *Conn) {
	c.group = g
	c.older = g.newest
	c.newer = nil
	if g.newest == nil {
		g.oldest = c
	} else {
		g.newest.newer = c
	}
	g.newest = c
	g.weigh(1)
}

// remove takes a connection out of its group, with the requests that count beside it.
func (g *group) remove(c *Conn) {
	if c.older == nil {
		g.oldest = c.newer
	} else {
		c.older.newer = c.newer
	}
	if c.newer == nil {
		g.newest = c.older
	} else {
		c.newer.older = c.older
	}
	g.weigh(-1 - c.extra)
	c.group = nil
	c.older = nil
	c.newer = nil
	c.extra = 0
}

// turn puts the oldest connection at the end.
func (g *group) turn() {
	c := g.oldest
	if c == g.newest {
		return
	}
	g.oldest = c.newer
	c.newer.older = nil
	c.older = g.newest
	c.newer = nil
	g.newest.newer = c
	g.newest = c
}

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
		w.by = append(w.by, queue{})
	}
	q := &w.by[g.count]
	g.before = q.last
	g.after = nil
	if q.last == nil {
		q.first = g
	} else {
		q.last.after = g
	}
	q.last = g
	w.total += g.count
	w.most = max(w.most, g.count)
}

func (w *crowd) take(g *group) {
	if g.count == 0 {
		return
	}
	q := &w.by[g.count]
	if g.before == nil {
		q.first = g.after
	} else {
		g.before.after = g.after
	}
	if g.after == nil {
		q.last = g.before
	} else {
		g.after.before = g.before
	}
	g.before = nil
	g.after = nil
	w.total -= g.count
	for w.most > 0 && w.by[w.most].first == nil {
		w.most--
	}
}

// turn puts a group behind those with as many connections.
func (w *crowd) turn(g *group) {
	w.take(g)
	w.put(g)
}

// heaviest is the group with the most connections; of several, the one that reached its count first; nil if there is none.
func (w *crowd) heaviest() *group {
	if w.most == 0 {
		return nil
	}
	return w.by[w.most].first
}

// all are the connections of all groups.
func (w *crowd) all() iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		for n := w.most; n > 0; n-- {
			for g := w.by[n].first; g != nil; g = g.after {
				for c := g.oldest; c != nil; c = c.newer {
					if !yield(c) {
						return
					}
				}
			}
		}
	}
}
