package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/client"
	"muster/gateway/internal/cluster"
	"muster/gateway/internal/cluster/peer"
	"muster/gateway/internal/datadir/seen"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/httpserver/daemon"
	"muster/store"
)

// rereadEvery is how often a gateway that stands by reads the CA again.
const rereadEvery = time.Minute

// passedPart is the part of the descriptors for the connections of one listener that are passed. Each has two, and there are three
// listeners.
const passedPart = 8

// standby is a gateway that is not the active one: it passes on what comes to its listeners.
type standby struct {
	*gateway
	socket  net.Listener
	key     []byte // that seals the secrets in the store
	relay   peer.Relay
	active  atomic.Pointer[peer.Gateway] // that was last said to be active; nil: none was yet
	heard   atomic.Int64                 // when it was, in Unix milliseconds
	serving sync.WaitGroup
}

// standBy returns when this gateway is the active one. Until then it passes connections to the one that is.
func (g *gateway) standBy(ctx context.Context, systemd daemon.Notifier, stdout io.Writer) error {
	socket, err := listenSocket(filepath.Join(g.settings.Data, client.SocketName))
	if err != nil {
		return err
	}
	defer socket.Close()
	b := &standby{gateway: g, socket: socket, key: g.storage.key}
	b.relay = peer.Relay{Identity: g.peers.identity, Most: httpserver.Descriptors() / passedPart, Place: g.origin.Place, Own: b.own,
		Away: away(), Logger: g.log}
	if err := b.check(ctx); err != nil {
		return err
	}
	passing, stop := context.WithCancelCause(ctx)
	defer b.relay.Follow(nil)
	defer b.serving.Wait()
	defer stop(nil)
	b.serving.Go(func() { _ = b.relay.Tell(passing, b.hello) })
	if past := newHistory(g.settings, g.log, nil); past != nil {
		g.peers.past.Store(past)
		defer g.peers.past.Store(nil)
		b.serving.Go(func() { _ = past.Run(passing) })
	}
	b.serving.Go(func() { stop(b.follow(passing)) })
	systemd.Ready()
	err = g.cluster.StandBy(passing, func(id, url string) {
		active := peer.Gateway{ID: id, URL: url}
		if before := b.active.Swap(&active); before == nil || *before != active {
			fmt.Fprintf(stdout, "muster %s stands by as %s: %s is the active gateway\n", version, g.cluster.ID, id)
		}
		b.heard.Store(time.Now().UnixMilli())
		b.relay.Follow(&active)
	})
	if err != nil && ctx.Err() == nil {
		err = cmp.Or(context.Cause(passing), err)
	}
	return err
}

// follow reads the CA again and again. It passes connections, and copies blobs, from when it has read the CA and a gateway is active. A
// wrong master key is an error: this gateway could not stand in for the active one.
func (b *standby) follow(ctx context.Context) error {
	passing := false
	for {
		wait := time.Second
		err := b.read(ctx)
		switch {
		case errors.Is(err, store.ErrWrongMasterKey):
			return b.keys.WrongShared()
		case err != nil:
			b.log.Debug("the CA cannot be read from the store", "error", err)
		case b.active.Load() != nil:
			wait = rereadEvery
			if !passing {
				b.pass(ctx)
				b.serving.Go(func() { b.mirror(ctx) })
			}
			passing = true
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// read reads the CA, and proves this gateway to the others by it.
func (b *standby) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rereadEvery)
	defer cancel()
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	a, err := authority.Read(ctx, authority.Config{Store: s})
	if err != nil {
		return err
	}
	return b.peers.prove(a)
}

func (b *standby) open(ctx context.Context) (*store.Store, error) {
	return store.Open(ctx, store.Options{Cluster: b.cluster.DB, Reads: true, MasterKey: b.key})
}

// check refuses a wrong master key, and a store that is not the one that this gateway knows, before this gateway takes a lease that nobody
// has. An empty store has none yet.
func (b *standby) check(ctx context.Context) error {
	if _, err := b.open(ctx); errors.Is(err, store.ErrWrongMasterKey) {
		return b.keys.WrongShared()
	}
	if err := b.cluster.CheckNow(ctx); errors.Is(err, seen.ErrOther) {
		return err
	}
	return nil
}

// mirror copies the blobs that the active gateway has and this one has not, again and again.
func (b *standby) mirror(ctx context.Context) {
	for {
		n, err := artifact.Mirror(ctx, store.Records{Engine: b.cluster.DB}, b.settings.registryFolder(), b.fetch(ctx))
		if err != nil && ctx.Err() == nil {
			b.log.Warn("this gateway has not all blobs that the active one has", "copied", n, "error", err)
		}
		select {
		case <-time.After(rereadEvery):
		case <-ctx.Done():
			return
		}
	}
}

func (b *standby) fetch(ctx context.Context) func(artifact.Info) (io.ReadCloser, error) {
	return func(blob artifact.Info) (io.ReadCloser, error) {
		own, err := b.peers.identity()
		if err != nil {
			return nil, err
		}
		return peer.Fetch(ctx, own, *b.active.Load(), blob)
	}
}

// own says how this gateway is, which is asked of itself: all else is for the active one.
func (b *standby) own(path string) (status int, body string, own bool) {
	switch path {
	case wire.PathHealth:
		return http.StatusOK, `{"status":"ok"}` + "\n", true
	case wire.PathReady:
		if b.cluster.Refused() {
			return http.StatusServiceUnavailable, `{"role":"` + api.RoleStandby + `","status":"the store is not the one that this gateway knows"}` +
				"\n", true
		}
		if time.Since(time.UnixMilli(b.heard.Load())) < cluster.Silent {
			return http.StatusOK, `{"role":"` + api.RoleStandby + `","status":"ready"}` + "\n", true
		}
		return http.StatusServiceUnavailable, `{"role":"` + api.RoleStandby + `","status":"no gateway is active"}` + "\n", true
	}
	return 0, "", false
}

// away is what callers hear while no gateway is the active one.
func away() string {
	text, err := json.Marshal(wire.Error{Error: *wire.Refuse(wire.CodeUnavailable, "no gateway is active now",
		"wait some seconds and ask again; if that stays so, see the logs of the gateways and of rqlite: muster help standby")})
	if err != nil {
		panic(err) // of texts alone
	}
	return string(text)
}

func (b *standby) hello() peer.Hello {
	return peer.Hello{URL: b.cluster.URL(), Nodes: b.nodeURL(), Version: version, At: time.Now(), Refuses: b.cluster.Refuses()}
}

// pass passes what comes to the listeners, until ctx ends.
func (b *standby) pass(ctx context.Context) {
	listeners := map[string]net.Listener{peer.TLS: b.tls, peer.Socket: b.socket}
	if b.plain != nil {
		listeners[peer.Plain] = b.plain
	}
	for kind, l := range listeners {
		b.serving.Go(func() {
			if err := b.relay.Serve(ctx, l, kind); err != nil {
				b.log.Error("no connections are passed to the active gateway any more", "listener", l.Addr(), "error", err)
			}
		})
	}
}
