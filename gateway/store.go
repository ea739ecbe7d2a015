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
	"time"

	"muster/gateway/internal/adminapi/backup"
	"muster/gateway/internal/audit"
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
	seen    *seen.Watch
	outage  *outage.Watch
	audit   *audit.Trail

	keyWithData bool // the master key is in the data directory, beside the database
}

// openStorage takes the lock first, so that no second gateway opens the database.
func openStorage(ctx context.Context, s settings, log *slog.Logger, getenv func(string) string, stdout io.Writer) (*storage, error) {
	d := &storage{started: time.Now(), info: &reply.Info{Epoch: newEpoch(), Logger: log}}
	keys := masterkey.Source{Data: s.Data, Named: s.MasterKeyFile, Getenv: getenv, Say: stdout}
	d.keyWithData = keys.WithData()
	var err error
	d.lock, err = datadir.Lock(s.Data)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w; choose another --data%s", err, keys.AtService())
	}
	if err != nil {
		return nil, err
	}
	if d.store, err = keys.Open(ctx); err != nil {
		d.lock.Close()
		return nil, err
	}
	if d.seen, err = seen.Open(ctx, s.Data, d.store, log); err != nil {
		d.close(log)
		return nil, err
	}
	d.outage = outage.Tell(d.store, log)
	d.audit = audit.New(audit.Config{Store: d.store, Logger: log})
	backup.RemoveScratch(s.Data)
	if restored, err := d.store.Restoration(ctx); err == nil && time.Now().Before(restored.AdoptUntil) {
		log.Info("restored from a backup: certificates that were issued since are taken over", "backup", restored.BackupAt, "until",
			restored.AdoptUntil)
	}
	return d, nil
}

// close closes the database before it gives the lock back: until then no other gateway may open the database.
func (d *storage) close(log *slog.Logger) {
	if err := d.store.Close(); err != nil {
		log.Error("the database did not close cleanly", "error", err)
	}
	d.lock.Close()
}

// newEpoch makes a name for this start of the gateway. Nonces of another start are refused. So no nonce can be used before a restart
// and again after it, although the gateway keeps no nonces on the disk.
func newEpoch() string {
	var random [8]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}
