// Package maas makes nodes of the machines of MAAS, installs and releases them, and says where the two sides disagree.
//
// Run is the one writer. It takes a complete view of MAAS again and again. After each, and when there is news, it does what the recovery
// table says, and carries on the works that are on record: several beside each other, and never two of one machine. What is to be done with
// a machine is on record before MAAS is asked, and the machine is read again before each step: so nothing is done twice, whatever answer
// was lost. Without a view of now, nothing is done.
package maas

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/maas/recovery"
	"muster/gateway/internal/maas/region"
	"muster/store"
	records "muster/store/maas"
)

const (
	// Provider is the provider of the nodes that are machines of MAAS.
	Provider = "maas"
	// Actor is the actor of what the service does by itself.
	Actor = "maas"

	usualEvery    = 30 * time.Second // between two views
	together      = time.Second      // between two looks at news
	longestEvery  = 5 * time.Minute  // while MAAS does not answer
	usualDeadline = 45 * time.Minute // of a deployment
	oldAfter      = 3                // intervals after which a view is old
	giveUpAfter   = 24 * time.Hour   // on a machine that is locked
	forgetAfter   = 30 * 24 * time.Hour
)

// Config says what a Service works with.
type Config struct {
	Store    *store.Store
	Region   *region.Client         // nil: MAAS is off
	URL      string                 // of MAAS, for people
	Tenant   string                 // of the nodes that are made; empty: the default one
	Series   string                 // that is installed, such as ubuntu/noble; empty: MAAS's default
	Deadline time.Duration          // of a deployment, until its agent is heard; 0: 45 minutes
	Every    time.Duration          // between two views; 0: 30 seconds
	Now      func() time.Time       // nil: time.Now
	Logger   *slog.Logger           // nil: nothing is logged
	Ref      func() store.StatusRef // by which nodes are online; nil: by the time alone

	// Commission makes a node in state commissioned, and returns its id. A name that is taken is refused with name_in_use.
	Commission func(ctx context.Context, name, tenant, provider, instanceID string, by store.Actor) (string, error)
	// Move moves a node: accept, deploy, redeploy, decommission, drain, retire. With force, it does so even if an allocation has a part of
	// the node.
	Move func(ctx context.Context, nodeID, verb string, force bool, by store.Actor) error
	// Mint makes a bootstrap token for a node, and returns the user-data: a script. The script can be fetched for the duration lives.
	Mint func(ctx context.Context, nodeID, profile string, lives time.Duration, by store.Actor) ([]byte, error)
	// Profiles returns all profiles. A profile says whether the disks of a machine are erased when the gateway gives it back by itself.
	Profiles func(ctx context.Context) ([]api.Profile, error)
	// Over reports whether an allocation is over and its GPUs are clean.
	Over func(ctx context.Context, allocation string) (bool, error)
	// Assign gives a node a profile.
	Assign func(ctx context.Context, nodeID, profile string, by store.Actor) error
}

// Service is safe for concurrent use.
type Service struct {
	Config
	records records.Records
	table   []recovery.Row

	patience time.Duration // for a view; of look alone
	jobs     *jobs
	wake     chan struct{} // has room for one
	soon     chan struct{} // the next view is to be taken now; has room for one

	mu    sync.Mutex // guards what follows
	state machines.State
	ended chan struct{} // closed at the end of the next view
	begun time.Time     // of the last view that has ended
	seen  known
	news  map[string]bool // machines and nodes of which there is news; empty: there was a view
	nodes map[string]bool // ids of those that are machines
	told  []Told          // nil: there was no view since the start
}

// known is what the last complete view since the start has told of MAAS as a whole. What MAAS says of a machine is judged by it.
type known struct {
	old      bool            // the view is not of now, or there was none: nothing follows from it
	user     string          // of our key; empty: there was no view
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
	if c.Ref == nil {
		c.Ref = func() store.StatusRef { return store.StatusRef{Now: c.Now()} }
	}
	s := &Service{Config: c, records: records.New(c.Store.Records()), wake: make(chan struct{}, 1), jobs: newJobs(),
		soon: make(chan struct{}, 1), ended: make(chan struct{}), table: recovery.Table(),
		news: map[string]bool{}, nodes: map[string]bool{}}
	at, err := s.records.Synced(ctx)
	s.state = machines.State{Enabled: c.Region != nil, URL: c.URL, SyncedAt: at}
	return s, err
}

// Run goes on until ctx ends. It returns at once if MAAS is off.
func (s *Service) Run(ctx context.Context) error {
	if s.Region == nil {
		return nil
	}
	var views sync.WaitGroup
	views.Go(func() { s.watch(ctx) })
	for {
		select {
		case <-ctx.Done():
			views.Wait()
			_ = s.jobs.wait() // each was logged
			return nil
		case <-s.wake:
		}
		if err := s.step(ctx); err != nil && ctx.Err() == nil { // one machine that makes trouble delays no others
			s.Logger.Warn("MAAS: not all could be done", "error", err)
		}
		sleep(ctx, together, nil)
	}
}

// watch takes views, until ctx ends.
func (s *Service) watch(ctx context.Context) {
	for failures := 0; ; {
		err := s.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failures++
			s.Logger.Warn("MAAS: its machines cannot be seen", "error", err)
		default:
			failures = 0
			s.wakeUp("")
		}
		pause := min(s.Every<<min(failures, 10), longestEvery)
		pause -= time.Duration(rand.Float64() * float64(pause/10))
		s.mu.Lock()
		next := s.Now().Add(pause)
		s.state.NextAt = &next
		s.mu.Unlock()
		sleep(ctx, pause, s.soon)
	}
}

// sleep waits, and ends with ctx or when something comes; nil: nothing can.
func sleep(ctx context.Context, d time.Duration, comes <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-comes:
	case <-timer.C:
	}
}

// Round takes a view, does what follows from it, and waits until that is done. It is what Run does, once, and nobody calls it while Run
// runs.
func (s *Service) Round(ctx context.Context) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	s.wakeUp("")
	return errors.Join(s.step(ctx), s.jobs.wait())
}

// step does what follows from the records, and has the works carried on of which there is news; after a view, all.
func (s *Service) step(ctx context.Context) error {
	select { // what comes from now on is for the next one
	case <-s.wake:
	default:
	}
	s.mu.Lock()
	news := s.news
	s.news = map[string]bool{}
	s.mu.Unlock()
	if !s.State().Known {
		return nil
	}
	since := s.jobs.now()
	all, err := s.load(store.Fresh(ctx))
	if err != nil {
		return err
	}
	err = errors.Join(s.reconcile(ctx, all, since), s.giveBackAll(ctx, all))
	for _, m := range all {
		if m.work != nil && ctx.Err() == nil && (news[""] || news[m.SystemID] || news[m.NodeID]) {
			s.do(ctx, m.SystemID, func(ctx context.Context) error { return s.carry(ctx, m.SystemID) })
		}
	}
	if news[""] {
		err = errors.Join(err, s.records.Forget(ctx, s.Now().Add(-forgetAfter)))
	}
	return err
}

// do starts a job. Its end, and what it has changed, are news where others came meanwhile.
func (s *Service) do(ctx context.Context, name string, do func(context.Context) error) {
	s.jobs.start(ctx, name, do, func(err error, again bool) {
		if err != nil && ctx.Err() == nil {
			s.Logger.Warn("MAAS: it is tried again", "machine", name, "error", err)
		}
		if again {
			s.wakeUp(name)
		}
	})
}

// Take takes events: what happens to a node that is a machine is news.
func (s *Service) Take(_ context.Context, events []store.Event) {
	for _, e := range events {
		s.mu.Lock()
		ours := s.nodes[e.NodeID]
		s.mu.Unlock()
		if ours || e.Kind == "allocation.released" {
			s.wakeUp(e.NodeID)
		}
	}
}

// State returns how the gateway stands with MAAS.
func (s *Service) State() machines.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.Restored = state.SyncedAt != nil && s.seen.user == ""
	state.Known = state.Enabled && state.FailedAt == nil && s.seen.user != "" && s.Now().Sub(*state.SyncedAt) <= oldAfter*s.Every
	return state
}

func (s *Service) whole() known {
	isKnown := s.State().Known
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.seen
	k.old = !isKnown
	return k
}

// wakeUp has Run look now. of is a machine or a node of which there is news; empty: all.
func (s *Service) wakeUp(of string) {
	s.mu.Lock()
	s.news[of] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// itself is the actor of what the service does by itself.
func itself() store.Actor { return store.Actor{Name: Actor} }
