package audit

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"muster/store"
)

const (
	tailEvery = 500 * time.Millisecond
	portion   = 1000 // events that are read at once
	kept      = 2048 // events that stay in memory at least
)

// TailConfig says what a Tail works with.
type TailConfig struct {
	Store  *store.Store
	Logger *slog.Logger // nil: nothing is logged
}

// Tail reads the log of events as it grows, and hands the events to those who look at them.
//
// It asks the database, and not the parts that write: so it also sees what another gateway on the same database writes. The newest
// events stay in memory, so that a reader who comes back after a moment goes on where it was. It is safe for concurrent use.
type Tail struct {
	TailConfig
	takers []func(context.Context, []store.Event)

	reading sync.Mutex // held while events are handed on, one portion after the other

	mu     sync.Mutex
	last   int64         // id of the last event that was read
	before int64         // id of the last event that is not in recent any more
	recent []store.Event // the newest, in their order
	news   chan struct{} // closed when there are more
}

// OpenTail finds the end of the log. Events from then on are handed on by Run.
func OpenTail(ctx context.Context, c TailConfig) (*Tail, error) {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	t := &Tail{TailConfig: c, news: make(chan struct{})}
	newest, err := c.Store.Events(ctx, store.EventQuery{Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(newest) > 0 {
		t.last = newest[0].ID
		t.before = t.last
	}
	return t, nil
}

// Add adds a taker. It gets all events in the order of the log, after the takers that were added before it. It must not wait for the disk
// or the network: it would hold up the others. Add is called before Run.
func (t *Tail) Add(take func(context.Context, []store.Event)) { t.takers = append(t.takers, take) }

// Run reads the log until ctx ends.
func (t *Tail) Run(ctx context.Context) error {
	ticker := time.NewTicker(tailEvery)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		err := t.Read(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			t.Logger.Error("the log of events cannot be read: the console and the live stream are late", "error", err)
		}
		failing = err != nil
	}
}

// Read reads what is new. Run calls it twice a second; a caller who cannot wait for that calls it too.
func (t *Tail) Read(ctx context.Context) error {
	t.reading.Lock()
	defer t.reading.Unlock()
	for {
		t.mu.Lock()
		after := t.last
		t.mu.Unlock()
		events, err := t.Store.Events(ctx, store.EventQuery{AfterID: after, Ascending: true, Limit: portion})
		if err != nil || len(events) == 0 {
			return err
		}
		for _, take := range t.takers {
			take(ctx, events)
		}
		t.keep(events)
		if len(events) < portion {
			return nil
		}
	}
}

func (t *Tail) keep(events []store.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = events[len(events)-1].ID
	t.recent = append(t.recent, events...)
	if surplus := len(t.recent) - kept; surplus > kept { // not with each event: the rest is copied
		t.before = t.recent[surplus-1].ID
		t.recent = slices.Clone(t.recent[surplus:])
	}
	close(t.news)
	t.news = make(chan struct{})
}

// Last returns the id of the last event that was handed on; 0: there was none yet.
func (t *Tail) Last() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// After returns the events after the one with this id, as far as they have been read. If lost is true, some of them are not in memory any
// more, or the id is of another log: the reader has to load again, and the events that are returned begin later. news is closed when there
// are more.
func (t *Tail) After(id int64) (events []store.Event, lost bool, news <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from, _ := slices.BinarySearchFunc(t.recent, id+1, func(e store.Event, id int64) int { return int(max(min(e.ID-id, 1), -1)) })
	return slices.Clone(t.recent[from:]), id < t.before || id > t.last, t.news
}
