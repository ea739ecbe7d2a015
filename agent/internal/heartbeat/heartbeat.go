// Package heartbeat is what an agent does once it has an identity: it reports to the gateway at the agreed pace, and it renews its
// certificate in time.
//
// It goes on whatever happens. A gateway that cannot be reached is tried again, after waits that grow and are random. A gateway
// that provably refuses this node for good is asked again every few minutes. No answer makes the agent delete anything.
//
// One goroutine does all of this, and waits for work too: so an idle node has one connection, and no renewal runs beside a wait.
// Before a renewed identity is used, the transport ends what other goroutines send.
package heartbeat

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// Config is what the loop works with. Its functions return at once.
type Config struct {
	Client    *transport.Client // without an identity yet: the loop gives it State's
	Directory *identity.Directory
	State     identity.State
	Interval  time.Duration // wins over the gateway's wish; 0: as the gateway wishes
	Agent     wire.AgentInfo
	Fill      func(*wire.HeartbeatRequest) // puts in what the other parts of the agent report; nil: nothing
	Expect    func(gpus int)               // told how many GPUs the gateway has on record; nil: nobody
	Notices   func() []string              // what the agent misses, for a person; nil: nothing
	GPUs      func() string                // what was seen of them, for a person; nil: nothing
	Wake      <-chan struct{}              // there is news, so a beat is wanted now; nil: never
	Work      Work                         // what the loop does while nothing else is due; nil: it waits
	Heard     Heard                        // told of each accepted report; nil: nobody
	Pace      func() time.Duration         // the longest time from one report to the next; nil, or 0 from it: as usual
	Spare     func() time.Duration         // how long a version on trial may wait if the gateway asks for that; nil: its pace
	Progress  func(phase string)           // told whenever the loop gets on, at least every workPause; nil: nobody
	Status    identity.Status              // what the loop does not know itself: PID, Version, Since
	Logger    *slog.Logger
}

// Heard takes the proven answer to an accepted report. said is what the report said of updates.
type Heard func(state identity.State, said *wire.Update, answer wire.HeartbeatAnswer)

// Work does something until ctx is done, and comes back before that only if it has a reason. The loop may call it again at once. If
// its error says that the pinned trust set may be out of date (identity.StaleTrust), the loop looks for a newer one.
type Work func(ctx context.Context, state identity.State, until time.Time) error

// MostHardware bounds the reading in a request, in bytes, with room for the rest.
const MostHardware = wire.MaxBody - 64<<10

// progressPause is the longest wait of the loop. After it the loop reports progress, and checks whether the clock was set. An
// exchange takes no longer either.
const progressPause = 30 * time.Second

// workPause is the same for a wait for work. It is a little longer than the usual interval, so that one such wait fits between two reports.
const workPause = 40 * time.Second

// Loop is one run of the agent.
type Loop struct {
	Config
	runID    string
	counter  uint64
	interval time.Duration
	nextBeat time.Time
	backoff  transport.Backoff
	phase    phase
	renewal  renewal
	clock    clock
	number   int64     // of the trust set that is believed
	setsPoll time.Time // until then a higher number alone is no reason to fetch the trust sets
	report   report
}

// phase is where the loop stands with its gateway.
type phase struct {
	refused bool // for good, as the gateway provably said
	adopted bool // a restored gateway took the certificate over, and nothing was accepted since
	swapped bool // the other pair was tried, and nothing was accepted since

	expired  bool // the gateway said that the certificate has expired
	hurried  bool // its renewal was asked for at once because of that, and nothing was accepted since
	answered bool // the gateway has said something in this run, so that its clock is known
}

// New makes the loop. Its client speaks for the identity of State from now on. The error says what is wrong with State.
func New(cfg Config) (*Loop, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	l := &Loop{Config: cfg, runID: newRunID(), interval: cfg.Interval}
	l.report.status = cfg.Status
	l.setInterval(cfg.State.Gateway.IntervalSeconds)
	return l, l.use(cfg.State)
}

// Run reports until ctx is done. Nothing else ends it, and the error is always nil.
func (l *Loop) Run(ctx context.Context) error {
	l.report.status.Phase = identity.PhaseRetrying
	l.saveStatus(true)
	for ctx.Err() == nil {
		l.watchClock()
		l.step(ctx)
		l.rest(ctx, l.untilDue())
	}
	l.Client.Close()
	return nil
}

// newRunID names this run. Two machines with one identity have different ones, and so the gateway notices them.
func newRunID() string {
	var random [16]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// step does what is due. With an expired certificate a node can do nothing but renew it.
func (l *Loop) step(ctx context.Context) {
	if l.expired() {
		l.phase.expired = true
		if l.beatDue() {
			l.renew(ctx)
		}
		l.progress(ctx)
		if l.expired() {
			return
		}
	}
	if l.beatDue() {
		l.beat(ctx) // before a renewal, because the answer corrects the clock
		l.progress(ctx)
	}
	if l.expired() || !l.renewalDue() {
		l.progress(ctx)
		return
	}
	l.renew(ctx)
	l.progress(ctx)
	if l.beatDue() {
		l.beat(ctx)
		l.progress(ctx)
	}
}

func (l *Loop) beatDue() bool { return !time.Now().Before(l.nextBeat) }

// progress feeds the watchdog. It is called after each exchange, because one alone may take as long as progressPause.
func (l *Loop) progress(ctx context.Context) {
	if l.Progress != nil && ctx.Err() == nil {
		l.Progress(l.report.status.Phase)
	}
}

// untilDue is the time until the next report or renewal.
func (l *Loop) untilDue() time.Duration { return min(time.Until(l.nextBeat), l.untilRenewal()) }

// rest waits until the next thing is due, or for news. A node that is online waits for work meanwhile.
func (l *Loop) rest(ctx context.Context, wait time.Duration) {
	if l.Work != nil && wait > 0 && l.mayWork() {
		l.work(ctx, min(wait, workPause))
		return
	}
	timer := time.NewTimer(max(min(wait, progressPause), 10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-l.Wake:
		l.heed(ctx)
	}
}

// heed makes the loop report news at once. It waits a moment first, so that no amount of news makes the loop spin.
func (l *Loop) heed(ctx context.Context) {
	if l.backoff == (transport.Backoff{}) && !l.phase.refused { // news does not shorten the wait after a failure
		l.nextBeat = time.Now()
	}
	transport.Sleep(ctx, 10*time.Millisecond)
}

// use takes over an identity: the connections of the one before are closed.
func (l *Loop) use(state identity.State) error {
	id, err := state.Transport()
	if err != nil {
		return err
	}
	l.State = state
	l.number = identity.TrustNumber(state.Gateway)
	l.Client.Use(id)
	l.phase.expired = false
	l.planRenewal(id.Certificate.Leaf)
	l.report.identity(state, id.Certificate.Leaf)
	return nil
}

// setInterval takes the gateway's wish, where the operator has none.
func (l *Loop) setInterval(seconds int) { l.interval = cmp.Or(l.Interval, Wish(seconds)) }

// Wish returns the interval that the gateway wishes, within its bounds; 0: the usual one.
func Wish(seconds int) time.Duration {
	if seconds <= 0 {
		return wire.UsualInterval
	}
	return max(time.Duration(min(seconds, int(wire.MaxInterval/time.Second)))*time.Second, wire.MinInterval)
}

// pace is the longest time from one report to the next; 0: as usual.
func (l *Loop) pace() time.Duration {
	if l.Pace == nil {
		return 0
	}
	return l.Pace()
}

// again is the wait after a failure. On trial it is at most half the pace, whatever the back-off says: a gateway that comes back late in a
// trial must be heard before the trial ends. What the gateway asks for counts as far as the trial has the time to spare.
func (l *Loop) again(least time.Duration) time.Duration {
	wait := max(l.backoff.NextOf(len(l.State.Gateway.Gateways)), least)
	pace := l.pace()
	if pace == 0 {
		return wait
	}
	soon := min(wait, pace/4+mathrand.N(pace/4+1))
	if l.Spare == nil || least == 0 {
		return soon
	}
	return max(soon, min(least, l.Spare()))
}

// hurried bounds an exchange on trial after a failed one by the pace: what is sent into silence would wait for longer than is left of a
// trial.
func (l *Loop) hurried(ctx context.Context) (context.Context, context.CancelFunc) {
	if pace := l.pace(); pace > 0 && l.backoff != (transport.Backoff{}) {
		return context.WithTimeoutCause(ctx, pace, transport.ErrSilent)
	}
	return ctx, func() {}
}

// jittered is the interval plus or minus up to a tenth, so that nodes that started together spread out.
func jittered(interval time.Duration) time.Duration {
	return interval - interval/10 + mathrand.N(interval/5+1)
}

// request is the next report. The counter grows even if the report gets lost, so no two reports of a run have the same one.
func (l *Loop) request() wire.HeartbeatRequest {
	l.counter++
	r := wire.HeartbeatRequest{
		RunID: l.runID, Counter: l.counter, IntervalSeconds: l.interval.Seconds(), SkewMillis: l.Client.Offset().Milliseconds(),
		Agent: l.Agent,
	}
	if l.Fill != nil {
		l.Fill(&r)
	}
	r.Notices = l.notices()
	return r
}

func (l *Loop) notices() []string {
	var all []string
	if l.Notices != nil {
		all = append(all, l.Notices()...)
	}
	for _, trouble := range []string{l.renewal.trouble, l.report.trouble} {
		if trouble != "" {
			all = append(all, trouble)
		}
	}
	return all
}

// beat sends one heartbeat and decides when the next one goes.
func (l *Loop) beat(ctx context.Context) {
	var answer wire.HeartbeatAnswer
	request := l.request()
	bounded, cancel := l.hurried(ctx)
	defer cancel()
	err := l.Client.Call(bounded, wire.HeartbeatPath(l.State.NodeID), request, &answer)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		if !l.trusted(ctx, err, 0) && !l.adopted(ctx, err) {
			l.failed(err)
		}
		return
	}
	l.setInterval(answer.IntervalSeconds)
	if l.Heard != nil {
		l.Heard(l.State, request.Update, answer)
	}
	l.nextBeat = time.Now().Add(jittered(min(l.interval, cmp.Or(l.pace(), l.interval))))
	l.accepted(answer)
	l.trusted(ctx, nil, answer.Trust)
}
