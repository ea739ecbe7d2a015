// Package session is the service of live sessions: an operator at one end, a node at the other, and bytes that go between them in both
// directions. Both ends reach the gateway by requests of their own.
//
// A session lives in memory: what passes is forgotten as soon as it has arrived. What stays is a row that says who opened what, for how
// long, and how much went over it. A session ends with the identity of its node, with the account that opened it, and with the gateway.
package session

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/session/recording"
	"muster/store"
	"muster/store/sessions"
)

// Bounds of all sessions together.
const (
	most          = 2000      // that live
	mostOfOne     = 1000      // of one account; all who use the socket are one
	mostKept      = 256 << 20 // bytes of all sessions that wait to be fetched; beyond it a channel keeps little
	mostKeptOfOne = 64 << 20  // the same, of one session
	little        = 16 << 10  // bytes
)

const (
	sweepEvery = time.Second
	giveAgain  = 5 * time.Second  // from a document that a node has taken to the next time, while it says nothing
	lookEvery  = 15 * time.Second // at the accounts of live sessions, beside the looks after events
	remembered = 2 * time.Minute  // how long an ended session is known to late requests
)

// Config says what a Service works with.
type Config struct {
	Store *store.Store
	Sign  func(payload []byte) (wire.SignedTask, error) // with the gateway's own task key
	Keys  func() []ed25519.PublicKey                    // the task keys that nodes believe now
	Ref   func() store.StatusRef                        // by which nodes are online
	Still func(ctx context.Context, account, tenant, opener string) error
	Ring  func(nodeID string) // wakes the node's wait for work; nil: nothing does
	// Heard returns when a node was heard last; nil: the time on record is used, which may be a little older.
	Heard  func(ctx context.Context, nodeID string) (*time.Time, error)
	Idle   time.Duration    // longest; 0: as long as a session can last
	Limit  time.Duration    // longest; 0: as long as a session can last
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: none
	// Record begins the recording of a shell. Its error ends the session. Nil: no shell is recorded.
	Record func(recording.Meta) (Tape, error)
	// CountAgain counts an event that comes too often, and then returns true: the Service does not record it. Nil: it records every event.
	CountAgain func(context.Context, store.Event) bool
}

// Service is safe for concurrent use.
type Service struct {
	Config
	records sessions.Records
	kept    atomic.Int64 // bytes that wait to be fetched

	mu      sync.Mutex // guards all below; a session's own lock is never held around it
	live    map[string]*live
	stopped bool
	looked  time.Time       // when the accounts were looked at
	nodes   map[string]bool // to be looked at
	changed bool            // accounts have
	news    chan struct{}   // holds one token when there is something to look at
}

// New makes a Service. Sessions on record that have no end died with an earlier gateway: New writes their end.
func New(ctx context.Context, c Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Ring == nil {
		c.Ring = func(string) {}
	}
	if c.Heard == nil {
		c.Heard = func(ctx context.Context, nodeID string) (*time.Time, error) {
			node, err := c.Store.Node(ctx, "", nodeID)
			return node.LastSeen, err
		}
	}
	c.Idle = cmp.Or(c.Idle, wire.MaxSession)
	c.Limit = cmp.Or(c.Limit, wire.MaxSession)
	d := &Service{Config: c, records: sessions.New(c.Store.Records()), live: map[string]*live{},
		nodes: map[string]bool{}, news: make(chan struct{}, 1)}
	return d, d.buryOld(ctx)
}

// buryOld ends the rows of an earlier gateway.
func (d *Service) buryOld(ctx context.Context) error {
	open, err := d.records.Open(ctx)
	if err != nil {
		return err
	}
	now := d.Now().UTC()
	for _, row := range open {
		row.EndedAt = &now
		row.End = "the gateway was restarted"
		row.Uncounted = true
		err := d.records.End(ctx, row, endEvent(row, "session.ended", gatewayItself()))
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

func gatewayItself() store.Actor { return store.Actor{Name: "gateway"} }

// Run keeps the limits of all sessions until ctx ends. Then it ends them, and nobody opens one any more.
func (d *Service) Run(ctx context.Context) error {
	defer d.stop()
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			d.Sweep(ctx)
		case <-d.news:
			d.look(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func (d *Service) stop() {
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.endAll(d.all(), func(*live) (ending, bool) {
		return ending{why: "the gateway stops", hint: "open the session again when it is back"}, true
	})
}

// endAll ends many sessions at once: their writes share what the database commits.
func (d *Service) endAll(all []*live, how func(*live) (ending, bool)) {
	var wait sync.WaitGroup
	for _, s := range all {
		if e, over := how(s); over {
			wait.Go(func() { d.end(s, e) })
		}
	}
	wait.Wait()
}

// session is one in memory; nil: there is none.
func (d *Service) session(id string) *live {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.live[id]
}

// all are the sessions in memory.
func (d *Service) all() []*live {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.live))
}

// of are the sessions of a node, the oldest first. Every node that waits for work asks, so those of other nodes are not copied.
func (d *Service) of(nodeID string) (its []*live) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.live {
		if s.NodeID == nodeID {
			its = append(its, s)
		}
	}
	slices.SortFunc(its, func(a, b *live) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return its
}

// Sweep ends sessions whose time is over, and forgets those that ended some time ago.
func (d *Service) Sweep(ctx context.Context) {
	now := d.Now()
	all := d.all()
	d.endAll(all, func(s *live) (ending, bool) {
		e, over := s.overdue(now)
		if over && e.untaken {
			e.why += d.unheard(ctx, s, now)
		}
		return e, over
	})
	for _, s := range all {
		if s.unheard(now) {
			d.Ring(s.NodeID)
		}
		d.settle(s, now)
	}
	d.mu.Lock()
	due := now.Sub(d.looked) >= lookEvery
	d.mu.Unlock()
	if due {
		d.lookAtAccounts(ctx)
	}
}

// unheard says why a node may not have taken a session.
func (d *Service) unheard(ctx context.Context, s *live, now time.Time) string {
	at, err := d.Heard(ctx, s.NodeID)
	switch {
	case err != nil:
		return ": it is away, or its agent is too old"
	case at == nil:
		return ": it was never heard"
	}
	ago := fmt.Sprintf(" was last heard %v ago", now.Sub(*at).Truncate(time.Second))
	if at.Before(s.CreatedAt) {
		return ": it" + ago
	}
	return ", though it" + ago + ": its agent may be too old"
}

// settle stores an end that could not be stored before, and forgets a session that everybody has heard the end of.
func (d *Service) settle(s *live, now time.Time) {
	ended, saved := s.over()
	if ended.IsZero() {
		return
	}
	if !saved {
		d.save(s)
	}
	if now.Sub(ended) < remembered {
		return
	}
	d.mu.Lock()
	delete(d.live, s.ID)
	d.mu.Unlock()
	s.forget(&d.kept)
}

// Take looks at events of the log: a session ends with its node's identity and with the account that opened it.
func (d *Service) Take(_ context.Context, events []store.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.live) == 0 {
		return
	}
	for _, e := range events {
		switch {
		case strings.HasPrefix(e.Kind, "account."):
			d.changed = true
		case e.NodeID != "" && (strings.HasPrefix(e.Kind, "node.") || strings.HasPrefix(e.Kind, "identity.")):
			d.nodes[e.NodeID] = true
		}
	}
	if d.changed || len(d.nodes) > 0 {
		select {
		case d.news <- struct{}{}:
		default:
		}
	}
}

// look does what Take must not wait for.
func (d *Service) look(ctx context.Context) {
	d.mu.Lock()
	nodes := d.nodes
	changed := d.changed
	d.nodes = map[string]bool{}
	d.changed = false
	d.mu.Unlock()
	if changed {
		d.lookAtAccounts(ctx)
	}
	for nodeID := range nodes {
		d.lookAtNode(ctx, nodeID)
	}
}

// lookAtAccounts ends sessions whose account may not have them any more.
func (d *Service) lookAtAccounts(ctx context.Context) {
	d.mu.Lock()
	d.looked = d.Now()
	d.mu.Unlock()
	type right struct{ account, tenant, opener string }
	known := map[right]error{}
	for _, s := range d.all() {
		if ended, _ := s.over(); !ended.IsZero() || s.owner.Account == "" {
			continue
		}
		asked := right{s.owner.Account, s.Tenant, s.kind.Opener}
		refusal, done := known[asked]
		if !done {
			refusal = d.Still(ctx, asked.account, asked.tenant, asked.opener)
			known[asked] = refusal
		}
		if said, is := errors.AsType[*wire.ErrorDetail](refusal); is {
			d.end(s, ending{why: "its account may not have it any more: " + said.Message, hint: said.Hint})
		}
	}
}

// lookAtNode ends the sessions of a node that is not what it was.
func (d *Service) lookAtNode(ctx context.Context, nodeID string) {
	its := slices.DeleteFunc(d.of(nodeID), func(s *live) bool { ended, _ := s.over(); return !ended.IsZero() })
	if len(its) == 0 {
		return
	}
	node, err := d.Store.Node(ctx, "", nodeID)
	if err != nil {
		d.Logger.Error("a node with sessions cannot be looked up", "node", nodeID, "error", err)
		return
	}
	for _, s := range its {
		if why := s.parted(node); why != "" {
			d.end(s, ending{why: why})
		}
	}
}
