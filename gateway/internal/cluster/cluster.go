// Package cluster makes a gateway one of several on a shared store. One of them is active: it holds the lease, and it alone writes and
// decides. The others stand by. A takeover is a restart on another machine: the new one reads all from the store.
//
// No wall clock decides who is active. The holder changes the lease's beat each second, and counts as silent 4 s after the last change that
// it sent and that succeeded. Another gateway takes the lease when it has seen no change for 6 s of its own monotonic clock.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"muster/gateway/internal/datadir/seen"
	"muster/store"
	"muster/store/rqlite"
)

const (
	// lookEvery is between two looks of a standby at the lease. It bounds how well it sees the holder's clock.
	lookEvery = 250 * time.Millisecond
	// lookTime is for one look.
	lookTime = 5 * time.Second
	// tellEvery is between two lines in the log about the same trouble.
	tellEvery = time.Minute
)

// Silent is how long the active gateway may go without a renewal before another one takes its place.
const Silent = rqlite.TakeAfter

// ErrLost says that the lease is lost. What this process knows may be wrong by now, so it ends.
var ErrLost = errors.New("this gateway is not the active one any more")

// Member is this gateway among the others.
type Member struct {
	DB *rqlite.DB
	ID string
	// Judge refuses a store whose lease shows that it is not the store that this gateway knows; nil: take any store. If sure is true, Judge
	// looks at more than the lease.
	Judge func(ctx context.Context, fence, beat int64, sure bool) error

	claim rqlite.Claim
	clock bool // how far this machine's clock is from that of the active gateway does not matter
	log   *slog.Logger
	lost  chan error // gets what ended the lease
	stop  func()     // ends the renewals; nil: there were none
	after string     // whose place this gateway took, when it became the active one; "": nobody's

	refused atomic.Bool            // Judge did not know the store when the lease was last read
	why     atomic.Pointer[string] // what else speaks against a takeover; "" or nil: nothing
	silence silence                // of the store's nodes

	mu     sync.Mutex
	next   string // who shall have the lease after this gateway; "": anybody; guarded by mu
	handed bool   // another gateway is to take the place of this one; guarded by mu
}

// Join opens the store. schema is the number of the newest schema that this program knows.
func Join(ctx context.Context, s Settings, schema int, log *slog.Logger) (*Member, error) {
	o, err := s.options()
	if err != nil {
		return nil, err
	}
	id, err := s.id()
	if err != nil {
		return nil, err
	}
	db, err := rqlite.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	m := newMember(db, rqlite.Claim{Gateway: id, URL: s.url(id), Schema: schema}, log)
	m.clock = s.AnyClock
	return m, nil
}

func newMember(db *rqlite.DB, claim rqlite.Claim, log *slog.Logger) *Member {
	return &Member{DB: db, ID: claim.Gateway, claim: claim, log: log, lost: make(chan error, 1)}
}

// StandBy waits until this gateway holds the lease. From then on it keeps the lease, until Close. It calls seen each time that the holder
// has renewed the lease, with the holder's id and URL; seen must return at once. The error is ctx's or store.ErrNewerDatabase.
func (m *Member) StandBy(ctx context.Context, seen func(id, url string)) error {
	w := watch{member: m, seen: seen}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		took, err := w.look(ctx)
		if err != nil || took {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hold keeps the lease until Close.
func (m *Member) hold() {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	m.stop = func() {
		cancel()
		<-over
	}
	go func() {
		defer close(over)
		if err := m.DB.Hold(ctx); err != nil {
			m.lost <- fmt.Errorf("%w: %w", ErrLost, err)
		}
	}()
}

// Lost returns a channel that gets what has ended the lease, as an ErrLost. If this gateway shares no store, m is nil, and nothing comes.
func (m *Member) Lost() <-chan error {
	if m == nil {
		return nil
	}
	return m.lost
}

// Guard answers requests as long as this gateway is the active one and no other can be it yet. After that it cuts them off: whoever waits
// for an answer tries another gateway. If this gateway shares no store, m is nil, and all requests are answered.
func (m *Member) Guard(next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := held{w, m}
		answer.check()
		next.ServeHTTP(answer, r)
		answer.check()
	})
}

// held is an answer of the active gateway: nothing of it goes out once the lease may be another one's.
type held struct {
	http.ResponseWriter
	member *Member
}

func (h held) check() {
	if !h.member.DB.Holds() {
		panic(http.ErrAbortHandler)
	}
}

// WriteHeader sends the header of the answer.
func (h held) WriteHeader(status int) {
	h.check()
	h.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the answer.
func (h held) Write(p []byte) (int, error) {
	h.check()
	return h.ResponseWriter.Write(p)
}

// Unwrap returns the writer below, for http.ResponseController.
func (h held) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Ended reports whether a gateway ended because another one is, or shall be, the active one.
func Ended(err error) bool {
	return errors.Is(err, ErrLost) || errors.Is(err, ErrHandedOver) || errors.Is(err, rqlite.ErrDeposed)
}

// ErrHandedOver says that this gateway has ended so that another one takes its place.
var ErrHandedOver = errors.New("another gateway takes the place of this one")

// HandTo records which gateway gets the lease after Close ("" means any), and that this one stops in order to hand over.
func (m *Member) HandTo(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = id
	m.handed = true
}

// Handed reports whether HandTo was called.
func (m *Member) Handed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.handed
}

// After returns the gateway whose place this active one took without a handover; "": there is none.
func (m *Member) After() string { return m.after }

// URL returns where other gateways reach this one.
func (m *Member) URL() string { return m.claim.URL }

// Close gives the lease back, so that another gateway takes it at once.
func (m *Member) Close() error {
	if m.stop != nil {
		m.stop()
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		m.mu.Lock()
		next := m.next
		m.mu.Unlock()
		if err := m.DB.Release(ctx, next); err != nil && !errors.Is(err, rqlite.ErrDeposed) {
			m.log.Warn("the lease was not given back: another gateway takes it after a few seconds", "error", err)
		}
	}
	return m.DB.Close()
}

// Check has Judge look at the lease. It looks again at a refusal: a leader that was elected just now may know less than is stored.
func (m *Member) Check(ctx context.Context, now rqlite.Lease, sure bool) error {
	if m.Judge == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err := m.Judge(ctx, now.Fence, now.Beat, sure)
	if err != nil {
		ctx = store.Fresh(ctx)
		if now, err = m.DB.Lease(ctx); err == nil {
			err = m.Judge(ctx, now.Fence, now.Beat, true)
		}
	}
	m.refused.Store(errors.Is(err, seen.ErrOther))
	return err
}

// CheckNow does what Check does, with the lease as it is now.
func (m *Member) CheckNow(ctx context.Context) error {
	now, err := m.DB.Lease(store.Fresh(ctx))
	if err != nil {
		return err
	}
	return m.Check(ctx, now, true)
}

// Refused reports whether this gateway refuses to take over because of the store.
func (m *Member) Refused() bool { return m.refused.Load() }

// Refuses says why this gateway would not take over now; "": it would.
func (m *Member) Refuses() string {
	if m.Refused() {
		return "the store is not the one that it knows"
	}
	if why := m.why.Load(); why != nil {
		return *why
	}
	return ""
}

// Seen returns the fence of the lease that this gateway holds, and a beat that the lease has had.
func (m *Member) Seen() (fence, beat int64) { return m.DB.Fence(), m.DB.Beat() }

// watch is what a standby has seen of the lease.
type watch struct {
	member *Member
	seen   func(id, url string)
	lease  rqlite.Lease
	since  time.Time // when this beat was first seen; zero: nothing was seen yet
	before time.Time // when the look before began
	clock  skew
	told   time.Time // when the log was last told of trouble
}

// look reads the lease, and takes it if its holder is gone.
func (w *watch) look(ctx context.Context) (took bool, err error) {
	m := w.member
	began := time.Now()
	reading, cancel := context.WithTimeout(ctx, lookTime)
	now, err := m.DB.Lease(reading)
	cancel()
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		w.tell("the store does not answer", "error", err)
		return false, nil
	}
	if err := m.Check(ctx, now, false); err != nil {
		w.tell("this gateway does not take over", "error", err)
		return false, nil
	}
	m.why.Store(new(w.why(now)))
	before := w.before
	w.before = began
	taken := now.Holder != "" || now.Next != "" && now.Next != m.ID // by its holder, or for another gateway
	if taken && (w.since.IsZero() || now.Fence != w.lease.Fence || now.Beat != w.lease.Beat) {
		if !before.IsZero() && now.Holder != "" {
			w.clock.note(now, before, time.Now())
		}
		if now.Holder == m.ID && now.Fence == w.lease.Fence {
			w.tell("another gateway with this one's id is active: give each its own --gateway-id", "id", m.ID, "at", now.URL)
		}
		if now.Fence != w.lease.Fence && now.Holder != "" {
			m.log.Info("standing by", "active", now.Holder, "at", now.URL)
			w.clock = skew{}
		}
		w.lease = now
		w.since = time.Now()
		if now.Holder != "" && (now.Holder != m.ID || now.URL != m.claim.URL) { // else this gateway has crashed, and is back
			w.seen(now.Holder, now.URL)
		}
		return false, nil
	}
	if taken && time.Since(w.since) < rqlite.TakeAfter || !w.may(now) {
		return false, nil
	}
	return w.take(ctx, now)
}

func (w *watch) take(ctx context.Context, now rqlite.Lease) (bool, error) {
	m := w.member
	if err := m.Check(ctx, now, true); err != nil {
		w.tell("this gateway does not take over", "error", err)
		return false, nil
	}
	err := m.DB.Take(ctx, now, m.claim)
	switch {
	case err == nil:
		m.after = now.Holder
		m.hold()
		m.log.Info("this gateway is the active one", "fence", m.DB.Fence(), "before", now.Holder)
		return true, nil
	case errors.Is(err, store.ErrNewerDatabase), ctx.Err() != nil:
		return false, err
	case errors.Is(err, rqlite.ErrDeposed): // another one was faster
	default:
		w.tell("the lease cannot be taken", "error", err)
	}
	w.since = time.Time{}
	return false, nil
}

func (w *watch) why(now rqlite.Lease) string {
	switch off := w.clock.off(); {
	case moved(now):
		return "the database of this store was copied into a directory"
	case now.Schema > w.member.claim.Schema:
		return "its program is older than the database"
	case off.Abs() > mostSkew && !w.member.clock:
		return "its clock is " + off.Abs().Round(100*time.Millisecond).String() + " from that of the active gateway"
	}
	return ""
}

// moved tells whether a database works somewhere else now. A gateway here would be a second one with the same fleet: what is of one use
// would be of two.
func moved(now rqlite.Lease) bool { return now.Holder == "" && now.Next == rqlite.Moved }

// may tells whether this gateway may take the lease: not with a clock that is far from the holder's.
func (w *watch) may(now rqlite.Lease) bool {
	if moved(now) {
		w.tell("this gateway does not take over: the database of this store was copied into a directory, and works there. To use the store " +
			"again, stop that gateway and copy the directory back: muster store copy DIRECTORY rqlite://... --force")
		return false
	}
	off := w.clock.off()
	if off.Abs() <= mostSkew || w.member.clock {
		return true
	}
	w.tell("this machine's clock is too far from that of the gateway that was active: this one does not take over. Set the clock, and start "+
		"this gateway again; if this clock is the right one, start it with --any-clock", "off", off, "active", now.Holder)
	return false
}

// tell writes a line into the log, once a minute.
func (w *watch) tell(text string, args ...any) {
	if time.Since(w.told) < tellEvery {
		return
	}
	w.told = time.Now()
	w.member.log.Warn(text, args...)
}
