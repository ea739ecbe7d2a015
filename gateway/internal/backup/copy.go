package backup

import (
	"context"
	"errors"
	"fmt"

	"muster/gateway/internal/cluster"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/seen"
	"muster/store"
	"muster/store/instance"
)

// Copy copies a database from a data directory into a shared store, or back. No gateway may be active on either side. The copy becomes a
// database of its own. The original stays as it is.
func (o Offline) Copy(ctx context.Context, c datadir.Copy) (done datadir.Copied, err error) {
	from, to := cluster.IsStore(c.From), cluster.IsStore(c.To)
	if from == to {
		return done, errors.New("one of the two is a data directory, and the other one a shared store: " +
			"write muster store copy DIR rqlite://HOST:PORT,... " +
			"or muster store copy rqlite://HOST:PORT,... DIR")
	}
	files := datadir.Files{Data: c.From, MasterKeyFile: c.MasterKeyFile}
	c.Way.Store = c.To
	run := (*site).copyIn
	if from {
		files.Data = c.To
		c.Way.Store = c.From
		run = (*site).copyOut
	} else if err := hasDatabase(c.From); err != nil {
		return done, err
	}
	if !exists(files.Data) {
		if err := keyThere(o.source(files)); err != nil { // before the directory is made
			return done, err
		}
	}
	s, err := o.enter(files)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, s.leave()) }()
	if err := keyThere(s.keys); err != nil {
		return done, err
	}
	key, err := s.keys.Key()
	if err != nil {
		return done, err
	}
	copied, remove, err := s.work()
	if err != nil {
		return done, err
	}
	defer remove()
	return run(s, ctx, c, key, copied)
}

// copyIn copies this directory's database into a shared store.
func (s *site) copyIn(ctx context.Context, c datadir.Copy, key []byte, copied string) (done datadir.Copied, err error) {
	if err := seen.LookAgain(ctx, s.keys.Data); err != nil {
		return done, err
	}
	held, there, err := s.attach(ctx, c.Way, key)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if err := held.Take(ctx, false); err != nil {
		return done, err
	}
	fmt.Fprintf(s.keys.Say, "copying the database of %s ...\n", s.keys.Data)
	if err := s.snapshot(ctx, copied); err != nil {
		return done, err
	}
	var next state
	err = edit(ctx, copied, key, func(copied *store.Store) (err error) {
		next, err = s.become(ctx, held, copied)
		return err
	})
	done = copiedRows(next.counts)
	if err != nil {
		return done, err
	}
	if there {
		_, pulse, err := instance.New(store.Records{Engine: held.DB}).Read(ctx)
		if err == nil && pulse == next.pulse && cluster.SameRows(ctx, store.Records{Engine: held.DB}, next.counts) == nil {
			done.Already = true
			return done, seen.Leave(s.keys.Data)
		}
		if err != nil || !c.Force {
			return done, errors.Join(err, fmt.Errorf("there is a database at %s already: add --force, which keeps a copy of it in %s", c.To, c.From))
		}
		if done.Aside, _, err = s.keepShared(ctx, held); err != nil {
			return done, err
		}
	}
	if err := same(ctx, copied, next.counts); err != nil {
		return done, err
	}
	fmt.Fprintln(s.keys.Say, "loading it into the nodes of rqlite ...")
	if err := held.Load(ctx, copied, next.fence, next.counts); err != nil {
		return done, err
	}
	return done, seen.Leave(s.keys.Data)
}

// snapshot copies this directory's database as it is now.
func (s *site) snapshot(ctx context.Context, to string) error {
	from, err := s.keys.Open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(from.Backup(ctx, to), from.Close())
}

// copyOut copies a shared store into this directory.
func (s *site) copyOut(ctx context.Context, c datadir.Copy, key []byte, copied string) (done datadir.Copied, err error) {
	held, there, err := s.attach(ctx, c.Way, key)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if !there {
		return done, fmt.Errorf("there is no database at %s", c.From)
	}
	if err := held.Take(ctx, false); err != nil {
		return done, err
	}
	fmt.Fprintf(s.keys.Say, "copying the database at %s ...\n", c.From)
	if err := held.DB.Backup(ctx, copied); err != nil {
		return done, err
	}
	counts, err := cluster.Counts(ctx, store.Records{Engine: held.DB})
	if err != nil {
		return done, err
	}
	if err := same(ctx, copied, counts); err != nil {
		return done, err
	}
	done = copiedRows(counts)
	if err := edit(ctx, copied, key, func(copied *store.Store) error { return s.own(ctx, copied) }); err != nil {
		return done, err
	}
	if err := s.free(c.Force, "copy into another directory"); err != nil {
		return done, err
	}
	at, err := s.place(copied, key, func() error { return nil })
	if err == nil {
		held.MoveOut()
	}
	done.Aside, done.KeyFile, done.KeyAside, done.KeyToName = at.aside, at.keyFile, at.keyAside, at.keyToName
	return done, err
}

// same is cluster.Same of a file that nobody has open.
func same(ctx context.Context, file string, counts map[string]int64) error {
	db, err := instance.Still(file)
	if err != nil {
		return err
	}
	defer db.Close()
	return cluster.Same(ctx, db, counts)
}

// edit does on a copy what makes it a database of its own. It leaves one file: a log beside it would stay behind when the copy is renamed.
func edit(ctx context.Context, file string, key []byte, do func(*store.Store) error) error {
	copied, err := store.Open(ctx, store.Options{Path: file, MasterKey: key})
	if err != nil {
		return err
	}
	err = errors.Join(do(copied), copied.Close())
	if err == nil && exists(file+logEnd) {
		err = errors.New("the copy could not be completed: try again")
	}
	return err
}

func copiedRows(counts map[string]int64) (done datadir.Copied) {
	done.Tables = len(counts)
	for _, rows := range counts {
		done.Rows += int(rows)
	}
	return done
}
