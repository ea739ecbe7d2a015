package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"muster/gateway/internal/cluster"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/seen"
	"muster/store"
	"muster/store/instance"
)

// restoreShared brings a backup back into a store that several gateways share. They may run: those that do end as ones that have lost the
// lease, and their services start them again. The data directory is that of the gateway on this machine.
func (o Offline) restoreShared(ctx context.Context, r datadir.Restore) (done datadir.Restored, err error) {
	s, err := o.beside(r.Files)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, s.leave()) }()
	if err := keyThere(s.keys); err != nil {
		return done, err
	}
	copied, remove, err := s.work()
	if err != nil {
		return done, err
	}
	defer remove()
	b, err := take(s.disk, r.File, copied)
	if err != nil {
		return done, fmt.Errorf("the backup %s cannot be used: %w", r.File, err)
	}
	key, err := s.keys.Key()
	if err != nil {
		return done, err
	}
	held, there, err := s.attach(ctx, r.Shared, key)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if there && !r.Force {
		return done, fmt.Errorf("there is a database at %s already: add --force, which keeps a copy of it in %s", r.Shared.Store, s.keys.Data)
	}
	if err := held.Take(ctx, r.Force); err != nil {
		return done, err
	}
	before := ""
	if there {
		if done.Aside, before, err = s.keepShared(ctx, held); err != nil {
			return done, err
		}
	}
	aside := done.Aside
	var next state
	done, err = s.prepare(ctx, copied, key, r, b, before, func(copied *store.Store) error {
		next, err = s.become(ctx, held, copied)
		return err
	})
	done.Aside = aside
	if err != nil {
		return done, err
	}
	if err := b.place(s.disk, folderOf(s.keys.Data)); err != nil {
		return done, fmt.Errorf("the blobs of the registry: %w", err)
	}
	fmt.Fprintln(o.Say, "loading it into the nodes of rqlite ...")
	return done, held.Load(ctx, copied, next.fence, next.counts)
}

// beside is enter for a directory whose gateway may run: its database is not touched.
func (o Offline) beside(files datadir.Files) (*site, error) {
	s, err := o.enter(files)
	var runs *runsError
	if errors.As(err, &runs) {
		s = &site{keys: o.source(files), disk: o.disk, way: o.way}
		s.keys.ServiceKey = serviceKey(s.keys)
		return s, nil
	}
	return s, err
}

// attach opens a shared store, and refuses a key that does not open what is there.
func (s *site) attach(ctx context.Context, at datadir.SharedStore, key []byte) (held *cluster.Seized, there bool, err error) {
	if held, err = cluster.Attach(ctx, at, s.keys.Say, s.way); err != nil {
		return nil, false, err
	}
	empty, err := held.Empty(ctx)
	if err == nil && !empty {
		_, err = store.Open(ctx, store.Options{Cluster: held.DB, Reads: true, MasterKey: key})
		if errors.Is(err, store.ErrWrongMasterKey) {
			err = s.keys.WrongShared()
		}
		if errors.Is(err, store.ErrNotFound) { // a gateway ended in its first start
			err = nil
		}
	}
	if err != nil {
		return nil, false, errors.Join(err, held.Close())
	}
	return held, !empty, nil
}

// keepShared keeps a copy of what a shared store has, and this directory's blobs of the registry.
func (s *site) keepShared(ctx context.Context, held *cluster.Seized) (folder, file string, err error) {
	folder = filepath.Join(s.keys.Data, "before-restore-"+time.Now().UTC().Format(asideTime))
	file = filepath.Join(folder, datadir.Database)
	if err := s.disk.MakeFolders(folder, 0o700); err != nil {
		return "", "", err
	}
	fmt.Fprintf(s.keys.Say, "keeping a copy of what is there in %s ...\n", folder)
	if err := keepBlobs(s.disk, folderOf(s.keys.Data), folderOf(folder)); err != nil {
		return "", "", err
	}
	return folder, file, held.DB.Backup(ctx, file)
}

// state is what a copy is that becomes the next state of a shared store.
type state struct {
	fence  int64
	pulse  int64
	counts map[string]int64
}

// become makes a copy the next state of a shared store. Gateways that have seen the store take it by its name, which stays, and its fence,
// which is above all.
func (s *site) become(ctx context.Context, held *cluster.Seized, copied *store.Store) (next state, err error) {
	name, _, err := instance.New(store.Records{Engine: held.DB}).Find(ctx)
	if err != nil {
		return next, err
	}
	known, fence := seen.Last(s.keys.Data)
	records := instance.New(copied.Records())
	if err := records.Fork(ctx, 0); err != nil {
		return next, err
	}
	if name = cmp.Or(name, known); name != "" {
		if err := records.Name(ctx, name); err != nil {
			return next, err
		}
	}
	if next.fence, err = held.Furnish(ctx, copied, fence); err != nil {
		return next, err
	}
	if _, next.pulse, err = records.Read(ctx); err != nil {
		return next, err
	}
	next.counts, err = cluster.Counts(ctx, copied.Records())
	return next, err
}

// rotateShared seals a shared store under another key, which goes into a new file.
func (o Offline) rotateShared(ctx context.Context, files datadir.Files, at datadir.SharedStore, out string) (file string, err error) {
	s, err := o.beside(files)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.leave()) }()
	if out == "" {
		return "", errors.New("all gateways on a shared store need the new key: have it written with --master-key-out FILE, and put it on each " +
			"gateway's machine")
	}
	held, err := cluster.Attach(ctx, at, s.keys.Say, s.way)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if err := held.Take(ctx, false); err != nil {
		return "", err
	}
	s.keys.Shared = held.DB
	return out, s.keys.RotateShared(ctx, out)
}
