package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"muster/gateway/internal/datadir"
	"muster/store"
	"muster/store/rqlite"
)

// seizedBy stands in the lease in place of a gateway while a command has the store.
const seizedBy = "a command of an operator"

// seizeTries is how often the lease is asked for: its holder may renew it between the look and the try.
const seizeTries = 10

// Seized is a shared store in the hands of a command: from Take to Close no gateway is the active one, and none writes.
type Seized struct {
	DB    *rqlite.DB
	claim rqlite.Claim
	say   io.Writer
	over  chan error         // gets what ended the lease
	stop  context.CancelFunc // ends the renewals; nil: there are none
	next  string             // who shall have the lease after Close; "": anybody
}

// Attach opens a shared store. It writes to say what it waits for. through is nil for the network, and another way in tests.
func Attach(ctx context.Context, at datadir.SharedStore, say io.Writer, through http.RoundTripper) (*Seized, error) {
	flags := Settings{Store: at.Store, StoreCA: at.StoreCA, StoreCert: at.StoreCert, StoreKey: at.StoreKey,
		StorePasswordFile: at.StorePasswordFile}
	if err := flags.checkStore(func(flag string) string { return "--" + flag }); err != nil {
		return nil, err
	}
	o, err := flags.options()
	if err != nil {
		return nil, err
	}
	o.Transport = through
	_, schema, err := store.Schema(ctx, "")
	if err != nil {
		return nil, err
	}
	db, err := rqlite.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Seized{DB: db, claim: rqlite.Claim{Gateway: seizedBy, Schema: schema}, say: say, over: make(chan error, 1)}, nil
}

// Take takes the lease. While a gateway is active, it does so only with force: that gateway ends because it has lost the lease, and Take
// waits until it has surely fallen silent.
func (s *Seized) Take(ctx context.Context, force bool) error {
	seen, err := s.DB.Lease(store.Fresh(ctx))
	if err != nil {
		return err
	}
	active := seen.Holder
	if active != "" {
		fmt.Fprintf(s.say, "%s was the active gateway: waiting until it is surely silent ...\n", active)
	}
	if active != "" && !force {
		if err := s.silent(ctx, seen); err != nil {
			return err
		}
	}
	if err := s.take(ctx); err != nil {
		return err
	}
	s.hold()
	if active != "" && force {
		return pause(ctx, rqlite.TakeAfter)
	}
	return nil
}

// silent waits as long as a gateway does that stands by.
func (s *Seized) silent(ctx context.Context, seen rqlite.Lease) error {
	if err := pause(ctx, rqlite.TakeAfter); err != nil {
		return err
	}
	now, err := s.DB.Lease(store.Fresh(ctx))
	if err == nil && (now.Beat != seen.Beat || now.Fence != seen.Fence) {
		err = fmt.Errorf("%s is the active gateway on this store: stop all gateways on it first (systemctl stop muster on each machine)",
			now.Holder)
	}
	return err
}

func (s *Seized) take(ctx context.Context) error {
	for range seizeTries {
		seen, err := s.DB.Lease(store.Fresh(ctx))
		if err != nil {
			return err
		}
		if err := s.DB.Take(ctx, seen, s.claim); !errors.Is(err, rqlite.ErrDeposed) {
			return err
		}
	}
	return rqlite.ErrDeposed
}

func (s *Seized) hold() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.over <- s.DB.Hold(ctx) }()
}

// letGo ends the renewals, and says what had ended them before.
func (s *Seized) letGo() error {
	if s.stop == nil {
		return nil
	}
	s.stop()
	s.stop = nil
	return <-s.over
}

// Empty reports whether the store holds nothing.
func (s *Seized) Empty(ctx context.Context) (bool, error) {
	counts, err := rqlite.Counts(ctx, s.DB)
	return len(counts) == 0, err
}

// Furnish prepares a database for Load. Its fence is above seen and above every fence that this store has had.
func (s *Seized) Furnish(ctx context.Context, db *store.Store, seen int64) (fence int64, err error) {
	return rqlite.Furnish(ctx, db.Records(), max(s.DB.Fence(), seen), s.claim)
}

// Load replaces the store's database by the one in a file, which Furnish has prepared, and makes sure that the rows are there. No gateway
// takes the store until Close.
func (s *Seized) Load(ctx context.Context, path string, fence int64, counts map[string]int64) error {
	if !s.DB.Holds() {
		return errors.Join(errors.New("another one has taken the store meanwhile: give the command again"), s.letGo())
	}
	if err := s.DB.Load(ctx, path, fence); err != nil {
		return err
	}
	_ = s.letGo() // of the lease that is gone
	s.hold()
	return rqlite.SameRows(ctx, s.DB, counts)
}

// MoveOut makes sure that no gateway takes the store after Close: its database works in a directory from now on.
func (s *Seized) MoveOut() { s.next = rqlite.Moved }

// Close gives the lease back, and closes the store.
func (s *Seized) Close() error {
	held := s.stop != nil
	lost := s.letGo()
	if held && lost == nil {
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		if lost = s.DB.Release(ctx, s.next); errors.Is(lost, rqlite.ErrDeposed) { // perhaps by a copy of this release
			lost = nil
		}
	}
	return errors.Join(lost, s.DB.Close())
}

// Counts returns the number of rows of each table of a database, without those of the lease.
func Counts(ctx context.Context, db store.Records) (map[string]int64, error) {
	return rqlite.Counts(ctx, db)
}

// Same returns nil if a database is sound and its tables have as many rows as counts says.
func Same(ctx context.Context, db store.Records, counts map[string]int64) error {
	return rqlite.Same(ctx, db, counts)
}

// SameRows returns nil if the tables of a database have as many rows as counts says.
func SameRows(ctx context.Context, db store.Records, counts map[string]int64) error {
	return rqlite.SameRows(ctx, db, counts)
}

// Strip takes the lease out of a copy that is not to be a shared store.
func Strip(ctx context.Context, db store.Records) error { return rqlite.Strip(ctx, db) }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
