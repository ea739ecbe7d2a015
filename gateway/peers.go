package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"muster/gateway/api"
	"muster/gateway/internal/adminapi"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/cluster/nodeurl"
	"muster/gateway/internal/cluster/peer"
	"muster/gateway/internal/history"
)

// peers is this gateway towards the others on the same store, whether or not it is the active one.
type peers struct {
	*peer.Server
	id   string
	self atomic.Pointer[proof]
	past atomic.Pointer[history.Store] // keeps minutes that the active gateway gives; nil: this one is active, or keeps none
	stop context.CancelFunc
}

// proof is what a gateway proves itself with to another one, and judges the other one by.
type proof struct {
	authority *authority.Authority
	own       *authority.Serving
}

// openPeers serves the other gateways, if there can be some.
func (g *gateway) openPeers() error {
	if g.cluster == nil {
		return nil
	}
	l, err := net.Listen("tcp", g.settings.Cluster.PeerListen)
	if err != nil {
		return fmt.Errorf("%w; choose another address with --peer-listen", err)
	}
	p := &peers{id: g.cluster.ID}
	folder := g.settings.registryFolder()
	p.Server = peer.NewServer(l, p.identity, peer.Copies{
		Keep: func(blob artifact.Info, content io.Reader) error { return artifact.Import(nil, folder, blob, content) },
		Open: func(blob artifact.Info) (io.ReadCloser, error) { return artifact.File(folder, blob) },
		Note: p.keepMinutes,
	}, g.log)
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	g.peers = p
	go func() {
		if err := p.Run(ctx); err != nil {
			g.log.Error("the other gateways are not served any more", "error", err)
		}
	}()
	return nil
}

// prove has this gateway prove itself with a certificate of the CA, as it is now.
func (p *peers) prove(a *authority.Authority) error {
	own, err := authority.NewGateway(a, peer.URI(a.TrustDomain(), p.id))
	if err == nil {
		p.self.Store(&proof{a, own})
	}
	return err
}

// openActive is what the active gateway of several begins with: it proves itself to the others, and tells nodes of all of them.
func (g *gateway) openActive(ctx context.Context) (err error) {
	if err = g.peers.prove(g.authority); err != nil {
		return err
	}
	g.nodeURLs, err = nodeurl.Open(ctx, nodeurl.Config{
		Store: g.store, ID: g.cluster.ID, URL: g.nodeURL(), Standing: g.peers.Standing, Logger: g.log,
		Changed: g.cover,
	})
	return err
}

// cover has the certificate be for the hosts of all gateways: TLS ends here, whichever one a node comes to. Behind a proxy it may end at
// the proxy.
func (g *gateway) cover(hosts []string) {
	if err := g.serving.Cover(hosts); err != nil && !g.reach.Proxied {
		g.log.Warn("the gateway's certificate is not for the hosts of all gateways: nodes that come to the others do not believe it",
			"error", err)
	}
}

// nodeURL is where nodes reach this gateway itself; empty: the operator gave no URL, and one that is made up may lead nowhere.
func (g *gateway) nodeURL() string {
	if !g.reach.PublicGiven {
		return ""
	}
	return g.reach.PublicURL
}

func (p *peers) identity() (peer.Identity, error) {
	now := p.self.Load()
	if now == nil {
		return peer.Identity{}, errors.New("the CA was not read from the store yet")
	}
	certificate, err := now.own.GetCertificate(nil)
	return peer.Identity{ID: p.id, Domain: now.authority.TrustDomain(), Certificate: certificate, Roots: now.authority.Roots()}, err
}

// copyMinutes gives minutes of the history to all gateways that stand by; nil: there are no others. It is not for concurrent use.
func (p *peers) copyMinutes() func(ctx context.Context, minutes []history.Minute) error {
	if p == nil {
		return nil
	}
	return func(ctx context.Context, minutes []history.Minute) error { return p.NoteAll(ctx, minutes) }
}

// keepMinutes keeps minutes that the active gateway gives.
func (p *peers) keepMinutes(in io.Reader) error {
	past := p.past.Load()
	if past == nil {
		return errors.New("this gateway keeps no history now")
	}
	var minutes []history.Minute
	if err := json.NewDecoder(in).Decode(&minutes); err != nil {
		return err
	}
	return past.Put(minutes)
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
					ClockOffMillis: &off, Refuses: one.Refuses})
			}
			return all
		},
		HandOver: func(to string) {
			g.cluster.HandTo(to)
			g.leave()
		},
	}
}
