package httpserver

import (
	"errors"
	"net"
	"syscall"
)

// Network returns a listener whose connections the limiter admits.
func (d *Limiter) Network(l net.Listener) net.Listener {
	return &listener{Listener: l, limiter: d, admit: d.admit}
}

// Local returns a listener for the operator's socket, which has room of its own. Who can open the socket needs no other proof.
func (d *Limiter) Local(l net.Listener) net.Listener {
	return &listener{Listener: l, limiter: d, admit: d.admitLocal}
}

type listener struct {
	net.Listener
	limiter *Limiter
	admit   func(net.Conn) *Conn
}

// Accept returns the next connection that is let in. Other parts of the process need descriptors too: if none is left, a connection
// without a proof is closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && l.limiter.yield() {
			continue
		}
		if err != nil {
			return nil, err
		}
		if c := l.admit(raw); c != nil {
			return c, nil
		}
	}
}

// admit finds room for a connection. It gives nil if there is none. A connection that was closed for the new one is closed when
// admit returns, so the descriptors in use never exceed the limit.
func (d *Limiter) admit(raw net.Conn) *Conn {
	keepLittle(raw)
	key, many := d.place(raw.RemoteAddr())
	c := &Conn{Conn: raw, limiter: d, many: many}
	c.idle.Store(d.now())
	d.mu.Lock()
	c.from = d.from(key, many)
	victim, why := d.room(c.from)
	if victim == nil && why != fine {
		d.leaves(c.from)
		d.mu.Unlock()
		c.cut(why)
		return nil
	}
	c.from.add(c)
	d.open++
	d.mu.Unlock()
	victim.cut(why)
	return c
}

// room says which connection has to be closed for one more of an address, and why. A reason without a victim means that there is no
// room. The order is that of the package comment: strangers give way first, then known addresses, then owners with many connections.
// The lock is held.
func (d *Limiter) room(a *address) (victim *Conn, why reason) {
	if a.count >= d.limits.PerAddress {
		return a.firstIdle(d.now()), crowdedAddress
	}
	if d.strangers.total+d.known.total < d.limits.Unproven && d.open < d.limits.Network {
		return nil, fine
	}
	if g := d.strangers.heaviest(); g != nil {
		if a.in == &d.known || g.count > a.count+1 {
			return g.oldest(), crowded
		}
		return d.strangers.firstIdle(d.now()), crowded
	}
	if g := d.known.heaviest(); g != nil {
		if a.in == &d.known && g.count > a.count+1 {
			return g.oldest(), crowded
		}
		return d.known.firstIdle(d.now()), crowded
	}
	if g := d.proven.heaviest(); g != nil && g.count > fewest {
		return g.oldest(), crowdedOwner
	}
	return nil, full
}

// firstIdle is the first connection of a group that has waited for its peer for longer than Grace. The others that it looks at go to
// the group's end, so that the next look finds different ones. So nobody can hold all places by keeping a few connections busy.
func (g *group) firstIdle(now int64) *Conn {
	begin := g.oldest()
	for range looks {
		c := g.oldest()
		if c == nil || c.idles(now) {
			return c
		}
		if g.turn(); g.oldest() == begin {
			return nil
		}
	}
	return nil
}

// firstIdle does the same for all groups with the most connections, one after another.
func (w *crowd) firstIdle(now int64) *Conn {
	begin := w.heaviest().oldest()
	for range looks {
		g := w.heaviest()
		c := g.oldest()
		if c.idles(now) {
			return c
		}
		g.turn()
		w.turn(g)
		if w.heaviest().oldest() == begin {
			return nil
		}
	}
	return nil
}

// first is the first of a group's oldest connections that a test takes; nil: none of those that it looks at.
func (g *group) first(takes func(*Conn) bool) *Conn {
	e := g.conns.Front()
	for range looks {
		if e == nil {
			return nil
		}
		if c := e.Value.(*Conn); takes(c) {
			return c
		}
		e = e.Next()
	}
	return nil
}

// yield closes one connection without a proof, and tells whether there was one.
func (d *Limiter) yield() bool {
	d.mu.Lock()
	g := d.strangers.heaviest()
	if g == nil {
		g = d.known.heaviest()
	}
	var victim *Conn
	if g != nil {
		victim = g.oldest()
	}
	d.mu.Unlock()
	victim.cut(full)
	return victim != nil
}

// admitLocal lets a connection on the socket in. If there are too many, one that is between two requests or never had a request is
// closed. One with a request in progress never is.
func (d *Limiter) admitLocal(raw net.Conn) *Conn {
	c := &Conn{Conn: raw, limiter: d}
	d.mu.Lock()
	var victim *Conn
	if d.socket.count >= d.limits.Local {
		now := d.now()
		victim = d.socket.first(func(c *Conn) bool { return c.rests() || c.requests.Load() == 0 && !c.answered.Load() && c.idles(now) })
		if victim == nil {
			d.mu.Unlock()
			c.cut(crowdedSocket)
			return nil
		}
	}
	d.socket.add(c)
	d.mu.Unlock()
	victim.cut(crowdedSocket)
	return c
}

// prove moves a connection to those of its owner. The number for one owner is bounded: beyond it the owner's oldest is closed.
func (d *Limiter) prove(c *Conn, owner string) {
	d.mu.Lock()
	if c.group == nil || c.from == nil || c.group.in == &d.proven {
		d.mu.Unlock()
		return
	}
	a := c.from
	a.remove(c)
	if a.in == &d.strangers && !c.many {
		a.join(&d.known)
	}
	a.open++
	a.provenAt = d.now()
	g := d.owner(c, owner)
	g.add(c)
	var victim *Conn
	if g.count > d.limits.PerOwner {
		victim = g.oldest()
	}
	c.proven.Store(true)
	d.mu.Unlock()
	victim.cut(crowdedOwner)
}

// owner finds or makes the group of an owner's connections. A proxy's connections carry many nodes, so each is a group by itself.
func (d *Limiter) owner(c *Conn, name string) *group {
	if c.many {
		return &group{in: &d.proven}
	}
	g := d.owners[name]
	if g == nil {
		g = &group{in: &d.proven, owner: name}
		d.owners[name] = g
	}
	return g
}

// forget stops counting a connection, because it closes.
func (d *Limiter) forget(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := c.group
	if g == nil {
		return
	}
	g.remove(c)
	if c.from == nil { // of the socket
		return
	}
	d.open--
	if g.in == &d.proven {
		c.from.open--
		c.from.provenAt = d.now()
		if g.count == 0 && d.owners[g.owner] == g {
			delete(d.owners, g.owner)
		}
	}
	d.leaves(c.from)
}
