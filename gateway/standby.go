package main

import (
	"context"
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

// standby is a gateway that is not the active one: it passes on what comes to its listeners.
type standby struct {
	*gateway
	key     []byte // that seals the secrets in the store
	relay   peer.Relay
	copying atomic.Bool  // blobs are being copied
	read    time.Time    // when the CA was
	active  string       // the gateway that was last said to be active
	heard   atomic.Int64 // when it was, in Unix milliseconds
	serving sync.WaitGroup
}

// standBy returns when this gateway is the active one. Until then it passes connections to the one that is.
func (g *gateway) standBy(ctx context.Context, systemd daemon.Notifier, stdout io.Writer) error {
	socket, err := listenSocket(filepath.Join(g.settings.Data, client.SocketName))
	if err != nil {
		return err
	}
	defer socket.Close()
	b := &standby{gateway: g, key: g.storage.key}
	b.relay = peer.Relay{Identity: g.peers.identity, Most: int64(httpserver.Descriptors() / 4), Own: b.own, Logger: g.log}
	if err := b.check(ctx); err != nil {
		return err
	}
	passing, stop := context.WithCancel(ctx)
	defer b.relay.Follow(nil)
	defer b.serving.Wait()
	defer stop()
	b.serving.Go(func() { _ = b.relay.Tell(passing, b.hello) })
	systemd.Ready()
	return g.cluster.StandBy(ctx, func(id, url string) error {
		if id != b.active {
			b.active = id
			fmt.Fprintf(stdout, "muster %s stands by as %s: %s is the active gateway\n", version, g.cluster.ID, id)
		}
		b.heard.Store(time.Now().UnixMilli())
		active := peer.Gateway{ID: id, URL: url}
		b.relay.Follow(&active)
		return b.follow(passing, socket, active)
	})
}

// follow reads the CA, now and then again, and copies the blobs that are missing here. It passes connections from the first time on that it
// could. A wrong master key is an error: this gateway could not stand in for the active one.
func (b *standby) follow(ctx context.Context, socket net.Listener, active peer.Gateway) error {
	if time.Since(b.read) < rereadEvery {
		return nil
	}
	first := b.read.IsZero()
	s, err := store.Open(ctx, store.Options{Cluster: b.cluster.DB, Reads: true, MasterKey: b.key})
	if err == nil {
		err = b.prove(ctx, s)
	}
	if errors.Is(err, store.ErrWrongMasterKey) {
		return b.keys.WrongShared()
	}
	if err != nil {
		b.log.Debug("the CA cannot be read from the store", "error", err)
		return nil
	}
	b.read = time.Now()
	b.copyBlobs(ctx, s.Records(), active)
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

// check refuses a wrong master key, and a store that is not the one that this gateway knows, before this gateway takes a lease that nobody has. An empty store has none yet.
func (b *standby) check(ctx context.Context) error {
	_, err := store.Open(ctx, store.Options{Cluster: b.cluster.DB, Reads: true, MasterKey: b.key})
	if errors.Is(err, store.ErrWrongMasterKey) {
		return b.keys.WrongShared()
	}
	if err := b.cluster.CheckNow(ctx); errors.Is(err, seen.ErrOther) {
		return err
	}
	return nil
}

func (b *standby) prove(ctx context.Context, s *store.Store) error {
	a, err := authority.Read(ctx, authority.Config{Store: s})
	if err != nil {
		return err
	}
	return b.peers.prove(a)
}

// copyBlobs has the blobs copied that the active gateway has and this one has not, unless that goes on already.
func (b *standby) copyBlobs(ctx context.Context, records store.Records, active peer.Gateway) {
	if b.copying.Swap(true) {
		return
	}
	b.serving.Go(func() {
		defer b.copying.Store(false)
		n, err := artifact.Mirror(ctx, records, b.settings.registryFolder(), func(blob artifact.Info) (io.ReadCloser, error) {
			own, err := b.peers.identity()
			if err != nil {
				return nil, err
			}
			return peer.Fetch(ctx, own, active, blob)
		})
		if err != nil && ctx.Err() == nil {
			b.log.Warn("not all blobs of the registry could be copied from the active gateway", "copied", n, "error", err)
		}
	})
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
