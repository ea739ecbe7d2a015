package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"time"

	"muster/gateway/internal/adminapi/backup"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/cluster"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/masterkey"
	"muster/gateway/internal/datadir/seen"
	"muster/gateway/internal/httpserver/outage"
	"muster/gateway/internal/reply"
	"muster/store"
)

// storage is the data directory with its database. It is the first phase.
type storage struct {
	started time.Time   // of this run
	info    *reply.Info // with this run's name
	lock    *os.File
	store   *store.Store
	keys    masterkey.Source
	key     []byte          // that seals the secrets in the database
	cluster *cluster.Member // among the gateways on a shared store; nil: the database is in the data directory
	shared  *seen.Shared    // what this gateway knows of the shared store; nil: there is none
	seen    *seen.Watch     // of the database
	outage  *outage.Watch
	audit   *audit.Trail

	keyWithData bool // the master key is in the data directory, beside the database
}

// openStorage takes the lock first, so that no second gateway opens the database.
func openStorage(ctx context.Context, s settings, log *slog.Logger, getenv func(string) string, stdout io.Writer) (d *storage, err error) {
	d = &storage{started: time.Now(), keys: masterkey.Source{Data: s.Data, Named: s.MasterKeyFile, Getenv: getenv, Say: stdout}}
	d.keyWithData = d.keys.WithData()
	d.lock, err = datadir.Lock(s.Data)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w; choose another --data%s", err, d.keys.AtService())
	}
	if err != nil {
		return nil, err
	}
	if s.Cluster.Shared() {
		err = d.join(ctx, s, log)
	}
	if err == nil {
		d.key, err = d.keys.Key()
	}
	if err != nil {
		d.close(log)
		return nil, err
	}
	return d, nil
}

// join makes this gateway one of those on a shared store.
func (d *storage) join(ctx context.Context, s settings, log *slog.Logger) error {
	_, schema, err := store.Schema(ctx, "") // of no file: what this program knows
	if err != nil {
		return err
	}
	if d.cluster, err = cluster.Join(ctx, s.Cluster, schema, log); err != nil {
		return err
	}
	d.keys.Shared = d.cluster.DB
	d.shared = seen.Share(s.Data, d.cluster.DB, log)
	d.cluster.Judge = d.shared.Judge
	return nil
}

// open opens the database. On a shared store this gateway is the active one.
func (d *storage) open(ctx context.Context, s settings, log *slog.Logger) (err error) {
	d.info = &reply.Info{Epoch: d.newEpoch(), Logger: log}
	if d.shared == nil {
		if d.seen, err = seen.Look(ctx, s.Data, log); err != nil {
			return err
		}
	}
	if d.store, err = d.keys.Open(ctx); err != nil {
		return err
	}
	if d.shared == nil {
		err = d.seen.Begin(ctx, d.store)
	} else {
		d.seen, err = d.shared.Begin(ctx, d.store, d.cluster.Seen)
	}
	if err != nil {
		return err
	}
	if d.cluster != nil {
		err = d.store.AddEvents(ctx, store.Event{At: time.Now(), Kind: "gateway.active", Actor: "gateway", Outcome: store.OutcomeOK, Security: true,
			Detail: map[string]string{"gateway": d.cluster.ID, "in_place_of": d.cluster.After()}})
		if err != nil {
			return err
		}
	}
	d.outage = outage.Tell(d.store, log)
	d.audit = audit.New(audit.Config{Store: d.store, Logger: log})
	backup.RemoveScratch(s.Data)
	if restored, err := d.store.Restoration(ctx); err == nil && time.Now().Before(restored.AdoptUntil) {
		log.Info("restored from a backup: certificates that were issued since are taken over", "backup", restored.BackupAt, "until",
			restored.AdoptUntil)
	}
	return nil
}

// close closes the database before it gives the lock back: until then no other gateway may open the database.
func (d *storage) close(log *slog.Logger) {
	if d.store != nil {
		if err := d.store.Close(); err != nil {
			log.Error("the database did not close cleanly", "error", err)
		}
	}
	if d.cluster != nil {
		if err := d.cluster.Close(); err != nil {
			log.Error("the shared store did not close cleanly", "error", err)
		}
	}
	d.lock.Close()
}

// newEpoch makes a name for this start of the gateway. Nonces of another start are refused. So no nonce can be used before a restart
// and again after it, although the gateway keeps no nonces on the disk. On a shared store it begins with the fence of the lease: two
// gateways never have the same.
func (d *storage) newEpoch() string {
	var random [8]byte
	rand.Read(random[:])
	epoch := hex.EncodeToString(random[:])
	if d.cluster != nil {
		epoch = strconv.FormatInt(d.cluster.DB.Fence(), 16) + "-" + epoch
	}
	return epoch
}
