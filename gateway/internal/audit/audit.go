// Package audit decides how calls are recorded that are refused, or that are made again and again.
//
// Such a call costs its caller nothing, so recording each one would fill the log of events. The first calls of a minute are events.
// The others are counted, and their number becomes an event when the minute is over: so none is lost. Calls with a token on record
// are counted separately from calls with names that anybody can invent, so that many of these cannot hide a token that leaked.
//
// It also follows the log for those who look at events (Tail), and forgets what is old (Keeper).
package audit

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/httpserver/origin"
	"muster/store"
)

// Bounds of what is recorded in a minute.
const (
	window   = time.Minute
	ofSource = 20     // refused tokens from one address, and refusals of one token from one address
	ofAll    = 120    // refusals from all addresses, for each class
	ofNode   = 10     // events of one kind that one node causes by its word
	mostKeys = 50_000 // keys that each limiter remembers
)

// Config says what a Trail works with. A zero field means the default.
type Config struct {
	Store  *store.Store
	Now    func() time.Time
	Logger *slog.Logger
}

// Trail records events about refused and repeated calls. It is safe for concurrent use.
type Trail struct {
	Config
	misused  *limit.Limiter // tokens, by address, and by address and token
	repeated *limit.Limiter // events, by what Repeated compares
	refused  *limit.Limiter // events, by class
	told     *limit.Limiter // events, by node and kind
	surplus  surplus
}

// New makes a Trail.
func New(c Config) *Trail {
	t := &Trail{Config: c}
	if t.Now == nil {
		t.Now = time.Now
	}
	t.Logger = cmp.Or(t.Logger, slog.New(slog.DiscardHandler))
	t.misused = limit.Minute(ofSource, mostKeys, t.Now)
	t.repeated = limit.Minute(1, mostKeys, t.Now)
	t.refused = limit.Minute(ofAll, mostKeys, t.Now)
	t.told = limit.Minute(ofNode, mostKeys, t.Now)
	return t
}

// Record adds events. It does so also if the caller has hung up.
func (t *Trail) Record(ctx context.Context, events ...store.Event) {
	if len(events) == 0 {
		return
	}
	if err := t.Store.AddEvents(context.WithoutCancel(ctx), events...); err != nil {
		t.Logger.Error("an event was not recorded", "kind", events[0].Kind, "error", err)
	}
}

// Refused records an event about a refusal, or counts it if there are too many. tooMany says that there are too many from this source;
// Refused itself knows whether there are too many from all sources.
func (t *Trail) Refused(ctx context.Context, e store.Event, tooMany bool) {
	if tooMany || t.refused.Over(class(e)) {
		t.Count(ctx, e)
		return
	}
	t.Record(ctx, e)
}

// class separates events that name something on record from events that anybody can cause with an invented name.
func class(e store.Event) string {
	if onRecord(e) {
		return "known"
	}
	return "unknown"
}

// onRecord says whether an event names something on record. An account of all tenants has no tenant, so its name says it.
func onRecord(e store.Event) bool {
	return e.Tenant != "" || e.Detail["account"] != "" || strings.HasPrefix(e.Actor, "account:")
}

// Repeated reports whether it counted an event instead of leaving it to the caller to record. It counts an event if one with the same kind,
// actor, node, outcome, network and text was recorded in the last minute, or if there were too many refusals of all kinds. If it returns
// false, the caller must record the event.
func (t *Trail) Repeated(ctx context.Context, e store.Event) bool {
	key := strings.Join([]string{e.Kind, e.Actor, e.NodeID, e.Outcome, e.Detail["said"], origin.SiteOf(e.Address)}, " ")
	if !t.repeated.Over(key) && (e.Outcome == store.OutcomeOK || !t.refused.Over(class(e))) {
		return false
	}
	t.Count(ctx, e)
	return true
}

// Told does what Repeated does, for an event that a node causes by what it says. It compares only the node and the kind: a node chooses the
// rest, and what others are refused must not hide it.
func (t *Trail) Told(ctx context.Context, e store.Event) bool {
	if !t.told.Over(e.Kind + " " + e.NodeID) {
		return false
	}
	t.Count(ctx, e)
	return true
}

// Count counts an event instead of recording it. A minute after the first such event, one event holds their number in detail.more.
// Settle records that one, or the next Count does.
func (t *Trail) Count(ctx context.Context, e store.Event) {
	now := t.Now()
	due := t.surplus.due(now, false)
	t.surplus.add(e, now)
	t.Record(ctx, due...)
}

// Settle records the numbers of counted events: those that are older than a minute, or with all, every number.
func (t *Trail) Settle(ctx context.Context, all bool) {
	t.Record(ctx, t.surplus.due(t.Now(), all)...)
}
