// Package maas makes nodes of the machines of MAAS, installs and releases them, and says where the two sides disagree.
//
// Run is the one writer. Each round it takes a complete view of MAAS, does what the recovery table says, and carries on the works that are
// on
// record. What is to be done with a machine is on record before MAAS is asked, and the machine is read again before each step: so nothing
// is
// done twice, whatever answer was lost. Without a view of now, nothing is done.
package maas

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"muster/gateway/api/machines"
	"muster/gateway/internal/maas/region"
	"muster/store"
	records "muster/store/maas"
)

const (
	// Provider is the provider of the nodes that are machines of MAAS.
	Provider = "maas"
	// Actor is who does what the service does by itself.
	Actor = "maas"

	usualEvery    = 30 * time.Second // between two rounds
	longestEvery  = 5 * time.Minute  // while MAAS does not answer
	usualDeadline = 45 * time.Minute // of a deployment
	oldAfter      = 3                // intervals after which a view is old
	giveUpAfter   = 24 * time.Hour   // on a machine that is locked
	forgetAfter   = 30 * 24 * time.Hour
)

// Config says what a Service works with.
type Config struct {
	Store    *store.Store
	Region   *region.Client   // nil: MAAS is off
	URL      string           // of MAAS, for people
	Tenant   string           // of the nodes that are made; empty: the default one
	Series   string           // that is installed, such as ubuntu/noble; empty: MAAS's default
	Deadline time.Duration    // of a deployment, until its agent is heard; 0: 45 minutes
	Every    time.Duration    // between two rounds; 0: 30 seconds
	Now      func() time.Time // nil: time.Now
	Logger   *slog.Logger     // nil: nothing is logged

	// Commission makes a node in state commissioned, and gives its id. A name that is taken is refused with name_in_use.
	Commission func(ctx context.Context, name, tenant, provider, instanceID string, by store.Actor) (string, error)
	// Move moves a node: accept, deploy, redeploy, decommission, drain, retire. Force: although an allocation has a part of it.
	Move func(ctx context.Context, nodeID, verb string, force bool, by store.Actor) error
	// Mint makes a bootstrap token for a node, which can be fetched for so long, and gives the user-data: a script.
	Mint func(ctx context.Context, nodeID, profile string, lives time.Duration, by store.Actor) ([]byte, error)
	// Profiles are the names of all profiles.
	Profiles func(ctx context.Context) ([]string, error)
	// Over tells that an allocation is over and its GPUs are clean.
	Over func(ctx context.Context, allocation string) (bool, error)
	// Erases tells whether the disks of a machine with a profile are erased when it is given back by itself.
	Erases func(ctx context.Context, profile string) (bool, error)
	// Assign gives a node a profile.
	Assign func(ctx context.Context, nodeID, profile string, by store.Actor) error
}

// Service is safe for concurrent use.
type Service struct {
	Config
	records records.Records
	wake    chan struct{}

	mu    sync.Mutex // guards what follows
	state machines.State
	seen  known
}

// known is what the last round has learned of MAAS as a whole.
type known struct {
	user     string          // of our key; empty: not known
	defined  map[string]bool // the tags that MAAS sets itself
	tags     map[string]bool // all tags
	profiles []string        // sorted
}

// Open makes a Service that goes on with what the database has. It asks MAAS nothing.
func Open(ctx context.Context, c Config) (*Service, error) {
	c.Tenant = cmp.Or(c.Tenant, store.DefaultTenant)
	c.Deadline = cmp.Or(c.Deadline, usualDeadline)
	c.Every = cmp.Or(c.Every, usualEvery)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{Config: c, records: records.New(c.Store.Records()), wake: make(chan struct{}, 1)}
	at, err := s.records.Synced(ctx)
	s.state = machines.State{Enabled: c.Region != nil, URL: c.URL, SyncedAt: at}
	return s, err
}

// Run goes round until ctx ends. It returns at once where MAAS is off.
func (s *Service) Run(ctx context.Context) error {
	if s.Region == nil {
		return nil
	}
	for failures := 0; ; {
		if err := s.Round(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("MAAS: a round failed", "error", err)
		}
		if failures++; s.State().FailedAt == nil { // one machine that makes trouble delays no others
			failures = 0
		}
		pause := min(s.Every<<min(failures, 10), longestEvery)
		timer := time.NewTimer(pause - time.Duration(rand.Float64()*float64(pause/10)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-s.wake:
			timer.Stop()
		}
	}
}

// Round takes a view of MAAS, does what follows from it, and carries on what is on record. Run calls it; nobody else does so beside it.
func (s *Service) Round(ctx context.Context) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	all, err := s.load(ctx)
	if err != nil {
		return err
	}
	err = errors.Join(s.reconcile(ctx, all), s.giveBackAll(ctx, all))
	for _, m := range all {
		if m.work != nil && ctx.Err() == nil {
			err = errors.Join(err, s.carry(ctx, *m.work))
		}
	}
	return errors.Join(err, s.records.Forget(ctx, s.Now().Add(-forgetAfter)))
}

// State is how the gateway stands with MAAS.
func (s *Service) State() machines.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.Known = state.Enabled && state.FailedAt == nil && state.SyncedAt != nil && s.Now().Sub(*state.SyncedAt) <= oldAfter*s.Every
	return state
}

func (s *Service) whole() known {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// wakeUp has Run go round now.
func (s *Service) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// itself is the actor of what the service does by itself.
func itself() store.Actor { return store.Actor{Name: Actor} }
