package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/adminapi"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/client"
	"muster/gateway/internal/cluster/peer"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/httpserver/daemon"
	"muster/store"
)

// rereadEvery is how often a gateway that stands by reads the CA again.
const rereadEvery = time.Minute

// standby is a gateway that is not the active one: it passes on what comes to its listeners.
type standby struct {
	*gateway
	key     []byte // that seals the secrets in the store
	relay   peer.Relay
	self    atomic.Pointer[proof]
	read    time.Time // when self was
	active  string    // the gateway that was last said to be active
	serving sync.WaitGroup
}

// proof is what a gateway proves itself with to another one, and judges the other one by.
type proof struct {
	authority *authority.Authority
	own       *authority.Serving
}

// standBy returns when this gateway is the active one. Until then it passes connections to the one that is.
func (g *gateway) standBy(ctx context.Context, systemd daemon.Notifier, stdout io.Writer) error {
	socket, err := listenSocket(filepath.Join(g.settings.Data, client.SocketName))
	if err != nil {
		return err
	}
	defer socket.Close()
	b := &standby{gateway: g, key: g.storage.key}
	b.relay = peer.Relay{Identity: b.identity, Most: int64(httpserver.Descriptors() / 4), Logger: g.log}
	passing, stop := context.WithCancel(ctx)
	defer b.serving.Wait()
	defer stop()
	b.serving.Go(func() { _ = b.relay.Tell(passing, b.hello) })
	systemd.Ready()
	return g.cluster.StandBy(ctx, func(id, url string) error {
		if id != b.active {
			b.active = id
			fmt.Fprintf(stdout, "muster %s stands by as %s: %s is the active gateway\n", version, g.cluster.ID, id)
		}
		b.relay.Follow(&peer.Active{ID: id, URL: url})
		return b.follow(passing, socket)
	})
}

// follow reads the CA, now and then again, and passes connections from the first time on that it could. A wrong master key is an error:
// this gateway could not stand in for the active one.
func (b *standby) follow(ctx context.Context, socket net.Listener) error {
	if time.Since(b.read) < rereadEvery {
		return nil
	}
	first := b.self.Load() == nil
	next, err := b.prove(ctx)
	if err != nil {
		b.log.Debug("the CA cannot be read from the store", "error", err)
		if errors.Is(err, store.ErrWrongMasterKey) {
			return b.keys.WrongShared()
		}
		return nil
	}
	b.read = time.Now()
	b.self.Store(next)
	if !first {
		return nil
	}
	b.pass(ctx, b.tls, peer.TLS)
	b.pass(ctx, socket, peer.Socket)
	if b.plain != nil {
		b.pass(ctx, b.plain, peer.Plain)
	}
	return nil
}

func (b *standby) hello() peer.Hello {
	return peer.Hello{URL: b.cluster.URL(), Version: version, At: time.Now()}
}

func (b *standby) pass(ctx context.Context, l net.Listener, kind string) {
	b.serving.Go(func() {
		if err := b.relay.Serve(ctx, l, kind); err != nil {
			b.log.Error("no connections are passed to the active gateway any more", "listener", l.Addr(), "error", err)
		}
	})
}

func (b *standby) prove(ctx context.Context) (*proof, error) {
	s, err := store.Open(ctx, store.Options{Cluster: b.cluster.DB, Reads: true, MasterKey: b.key})
	if err != nil {
		return nil, err
	}
	a, err := authority.Read(ctx, authority.Config{Store: s})
	if err != nil {
		return nil, err
	}
	own, err := authority.NewGateway(a, peer.URI(a.TrustDomain(), b.cluster.ID))
	return &proof{a, own}, err
}

func (b *standby) identity() (peer.Identity, error) {
	p := b.self.Load()
	if p == nil {
		return peer.Identity{}, errors.New("nothing was read from the store yet")
	}
	return p.identity()
}

func (p *proof) identity() (peer.Identity, error) {
	certificate, err := p.own.GetCertificate(nil)
	return peer.Identity{Domain: p.authority.TrustDomain(), Certificate: certificate, Roots: p.authority.Roots()}, err
}

// openPeers serves the gateways that stand by, if there can be some: what they pass on comes to this gateway's own listeners.
func (g *gateway) openPeers() error {
	if g.cluster == nil {
		return nil
	}
	l, err := net.Listen("tcp", g.settings.Cluster.PeerListen)
	if err != nil {
		return fmt.Errorf("%w; choose another address with --peer-listen", err)
	}
	own, err := authority.NewGateway(g.authority, peer.URI(g.authority.TrustDomain(), g.cluster.ID))
	if err != nil {
		l.Close()
		return err
	}
	g.peers = peer.NewServer(l, (&proof{g.authority, own}).identity, g.log)
	g.tls = g.peers.Joined(g.tls, peer.TLS)
	if g.plain != nil {
		g.plain = g.peers.Joined(g.plain, peer.Plain)
	}
	return nil
}

// gateways is what the admin API knows of the gateways on this store.
func (g *gateway) gateways() adminapi.Cluster {
	if g.cluster == nil {
		return adminapi.Cluster{List: func() []api.MemberGateway {
			return []api.MemberGateway{{Role: api.RoleActive, URL: g.reach.PublicURL, Version: version}}
		}}
	}
	return adminapi.Cluster{
		List: func() []api.MemberGateway {
			all := []api.MemberGateway{{ID: g.cluster.ID, Role: api.RoleActive, URL: g.cluster.URL(), Version: version}}
			for _, one := range g.peers.Standing() {
				off := one.At.Sub(one.Heard).Milliseconds()
				all = append(all, api.MemberGateway{ID: one.ID, Role: api.RoleStandby, URL: one.URL, Version: one.Version, HeardAt: &one.Heard,
					ClockOffMillis: &off})
			}
			return all
		},
		HandOver: func(to string) {
			g.cluster.HandTo(to)
			g.leave()
		},
	}
}
