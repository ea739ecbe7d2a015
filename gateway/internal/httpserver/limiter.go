// Package httpserver stands between the listeners and the servers: it decides who may hold a connection, and for how long.
//
// Anyone can open connections, and each costs a descriptor and memory. So the number of connections without a proof is bounded, in all
// and for one address. If there is no room, such a connection is closed for a newer one. A connection is proven once a request on
// it has shown who sent it: a node by its key, an account by its token. It is never closed to let a stranger in. The operator's
// socket has room of its own.
//
// The oldest connection of the address with the most connections is closed first. Addresses from which something was proven come
// last. Between addresses with equally many, a connection is closed only if it has waited for its peer for longer than Grace: an
// honest peer proves itself within that time, and nobody is closed because this machine is slow.
//
// Nothing here decides about trust. A peer without a proof may do everything but stay.
package httpserver

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	sweepEvery = time.Second
	tellEvery  = time.Minute
	remembered = 24 * time.Hour // how long an address is known after the last proof from it
	mostKnown  = 1 << 18        // addresses in memory without a connection
	fewest     = 4              // connections that each owner keeps, however full the gateway is
	looks      = 64             // connections to look at, at most, for one that may be closed
)

// Config says what a Limiter works with.
type Config struct {
	Limits Limits
	// Place gives the address under which a peer's connections are counted. A peer may carry many clients, as a proxy does: then
	// each of its connections counts by itself.
	Place  func(net.Addr) (address netip.Addr, many bool)
	Logger *slog.Logger // nil: none
}

// Limiter admits connections. It is safe for concurrent use.
type Limiter struct {
	limits Limits
	place  func(net.Addr) (netip.Addr, bool)
	log    *slog.Logger
	start  time.Time
	cuts   [reasons]atomic.Int64 // since the start
	told   [reasons]int64        // of cuts; only tell uses it

	mu        sync.Mutex
	open      int // connections from the network
	addresses map[netip.Addr]*address
	owners    map[string]*group
	strangers crowd // without a proof, by address
	known     crowd // without a proof too, but something was proven from their address before
	proven    crowd // by owner
	local     crowd // on the socket
	socket    *group
}

// New makes a Limiter.
func New(c Config) *Limiter {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Limiter{
		limits: c.Limits, place: c.Place, log: c.Logger, start: time.Now(),
		addresses: map[netip.Addr]*address{}, owners: map[string]*group{},
	}
	d.socket = &group{in: &d.local}
	return d
}

// now is the time since the limiter was made, by the monotonic clock. It is never 0.
func (d *Limiter) now() int64 { return int64(time.Since(d.start)) + 1 }

// Run looks for connections that nothing else would end, and closes them, until ctx ends. Once a minute it says what was closed.
func (d *Limiter) Run(ctx context.Context) error {
	sweep := time.NewTicker(sweepEvery)
	tell := time.NewTicker(tellEvery)
	defer sweep.Stop()
	defer tell.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			d.sweep(&d.strangers, &d.known, &d.local)
		case <-tell.C:
			d.sweep(&d.proven)
			d.tell(ctx)
			d.forgetAddresses()
		}
	}
}

// sweep closes connections without a proof that have had no request for too long, and those with a request that no handler has.
func (d *Limiter) sweep(crowds ...*crowd) {
	var over [reasons][]*Conn
	now := d.now()
	d.mu.Lock()
	for _, w := range crowds {
		for c := range w.all() {
			switch {
			case c.stuck(now):
				over[slowRequest] = append(over[slowRequest], c)
			case c.quiet(now):
				over[idleUnproven] = append(over[idleUnproven], c)
			}
		}
	}
	d.mu.Unlock()
	for why, list := range over {
		for _, c := range list {
			c.cut(reason(why))
		}
	}
}

// forgetAddresses drops addresses without connections: those from which nothing was proven for long, and all where there are too many.
func (d *Limiter) forgetAddresses() {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.addresses {
		if a.count == 0 && a.open == 0 && (now-a.provenAt > int64(remembered) || len(d.addresses) > mostKnown) {
			delete(d.addresses, a.key)
		}
	}
}

// address is where connections come from. Its group holds those without a proof.
type address struct {
	group
	key      netip.Addr
	open     int   // proven ones
	provenAt int64 // when one was last proven, or a proven one closed; 0: never
}

// from finds or makes a peer's address. The lock is held.
func (d *Limiter) from(key netip.Addr, many bool) *address {
	if many {
		return &address{group: group{in: &d.strangers}}
	}
	a := d.addresses[key]
	if a == nil {
		a = &address{group: group{in: &d.strangers}, key: key}
		d.addresses[key] = a
	}
	return a
}

// leaves drops an address that has no connections and never had a proven one. The lock is held.
func (d *Limiter) leaves(a *address) {
	if a.count == 0 && a.open == 0 && a.provenAt == 0 && d.addresses[a.key] == a {
		delete(d.addresses, a.key)
	}
}
