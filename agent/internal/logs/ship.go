package logs

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"muster/agent/internal/service"
	"muster/agent/spool"
	"muster/agent/wire"
)

const (
	bound = 64 << 20 // of the spool

	linger  = time.Second      // from a line to its batch, so that more lines go with it
	grace   = 10 * time.Minute // a gateway that asks for nothing any more may be one that has just started
	saving  = time.Second      // between two records of how far the sources were read
	leastNo = 10 * time.Second // before a source that failed is followed again
	mostNo  = 5 * time.Minute
	asking  = time.Minute // between two looks at what the owner allows, while a source is followed
)

// Shipping says what a Shipper works with.
type Shipping struct {
	Node   string // its id
	Folder string // the state directory

	// Call posts in to the gateway and reads its proven answer into out.
	Call func(ctx context.Context, path string, in, out any) error
	// May asks whether the node's owner allows shipping: the error says why nothing is shipped; nil: everything may be.
	May func() error
	// Follow calls take with the lines of a source, oldest first, with their secrets masked, until ctx ends. It begins behind the position
	// in from, or, if that is empty or gone, at the time in from. An error from take ends it.
	Follow func(ctx context.Context, source string, from Place, take func(line wire.LogLine, position string) error) error
	Logger *slog.Logger
}

// Shipper is safe for concurrent use.
type Shipper struct {
	Shipping
	news chan struct{} // the gateway has asked for something else

	mu    sync.Mutex
	want  *wire.LogShipping
	since time.Time         // when the gateway began to ask for nothing
	held  map[string]string // why a source is not followed
}

// NewShipper makes a Shipper. It does nothing before Run.
func NewShipper(c Shipping) *Shipper {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return &Shipper{Shipping: c, news: make(chan struct{}, 1), held: map[string]string{}}
}

// Heard takes what a proven answer to a heartbeat asks for. It returns at once.
func (s *Shipper) Heard(want *wire.LogShipping) {
	want = usable(want)
	s.mu.Lock()
	defer s.mu.Unlock()
	if reflect.DeepEqual(s.want, want) {
		return
	}
	s.want = want
	s.since = time.Now()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// usable is what is wanted without sources that this agent does not know, because it may be older than the gateway; nil: nothing is left.
func usable(want *wire.LogShipping) *wire.LogShipping {
	if want == nil {
		return nil
	}
	sources := slices.DeleteFunc(slices.Clone(want.Sources), func(one string) bool { return wire.CheckLogSource(one) != nil })
	slices.Sort(sources)
	if len(sources) == 0 {
		return nil
	}
	return &wire.LogShipping{Sources: slices.Compact(sources), BytesPerSecond: max(want.BytesPerSecond, 0)}
}

func (s *Shipper) wanted() (want *wire.LogShipping, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.want, s.since
}

// Run ships until ctx is done. It goes on with what the last run was asked for, because the gateway may be away.
func (s *Shipper) Run(ctx context.Context) error {
	s.goOn(s.load())
	for ctx.Err() == nil {
		want, since := s.wanted()
		if want == nil {
			s.rest(ctx, since)
			continue
		}
		s.ship(ctx, want)
	}
	return nil
}

// goOn wants what the last run was asked for, unless the gateway has said something meanwhile.
func (s *Shipper) goOn(before *progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Now()
	if before != nil && s.want == nil {
		s.want = usable(&before.LogShipping)
	}
}

// rest waits until there is something to ship. What is left of an earlier time goes after a while.
func (s *Shipper) rest(ctx context.Context, since time.Time) {
	var over <-chan time.Time
	if s.left() {
		timer := time.NewTimer(time.Until(since.Add(grace)))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-s.news:
	case <-over:
		s.forget()
	}
}

func (s *Shipper) path(name string) string {
	return filepath.Join(s.Folder, service.ShippingFolder, name)
}

// ship follows and sends until something else is wanted.
func (s *Shipper) ship(ctx context.Context, want *wire.LogShipping) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	box := spool.Open(spool.Config{Dir: s.path("spool"), Bound: bound})
	places := s.places(want)
	var all sync.WaitGroup
	for _, source := range want.Sources {
		all.Go(func() { s.follow(ctx, source, box, places) })
	}
	all.Go(func() { s.save(ctx, places, box) })
	all.Go(func() { (&sender{Shipper: s, box: box, rate: want.BytesPerSecond}).run(ctx) })
	select {
	case <-ctx.Done():
	case <-s.news:
	}
	cancel()
	all.Wait()
	s.release()
	if err := box.Close(); err != nil {
		s.Logger.Warn("the last log lines are read again, because they may not be on the disk", "error", err)
		return
	}
	s.store(places, box)
}
