// Package audit decides what is recorded of calls that are refused, or made again and again, and how much of it.
//
// Each such call costs its caller nothing, so a record of all of them would fill the log of events. The first ones of a minute are
// events. The others are counted, and their number is an event when the minute is over: none is lost. What names a token on record
// is counted apart from what anyone can make up, so that no noise hides a token that leaked.
package audit

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"muster/gateway/internal/limit"
	"muster/gateway/internal/origin"
	"muster/store"
)

// Bounds of what is recorded in a minute.
const (
	window   = time.Minute
	ofSource = 20     // refused tokens of one address, and of one token from there
	ofAll    = 120    // refusals of all addresses: of tokens on record, and as many of others
	mostKeys = 50_000 // addresses, and kinds of events from one
)

// Config says what a Trail works with. Zero fields mean the usual.
type Config struct {
	Store  *store.Store
	Now    func() time.Time
	Logger *slog.Logger
}

// Trail records events about refused and repeated calls. It is safe for concurrent use.
type Trail struct {
	store *store.Store
	now   func() time.Time
	log   *slog.Logger

	misused  *limit.Limiter // tokens, by address, and by address and token
	repeated *limit.Limiter // events, by what Repeated compares
	refused  *limit.Limiter // events, by class
	surplus  surplus
}

// New makes a Trail.
func New(c Config) *Trail {
	t := &Trail{store: c.Store, now: c.Now, log: c.Logger}
	if t.now == nil {
		t.now = time.Now
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.misused = limit.Minute(ofSource, mostKeys, t.now)
	t.repeated = limit.Minute(1, mostKeys, t.now)
	t.refused = limit.Minute(ofAll, mostKeys, t.now)
	return t
}

// Record adds events. It does so also where the caller, who caused them or was the next to come, has hung up.
func (t *Trail) Record(ctx context.Context, events ...store.Event) {
	if len(events) == 0 {
		return
	}
	if err := t.store.AddEvents(context.WithoutCancel(ctx), events...); err != nil {
		t.log.Error("an event was not recorded", "kind", events[0].Kind, "error", err)
	}
}

// Refused records an event about somebody who was refused. It counts the event instead where it is one of too many: of one source,
// as the caller knows, or of all sources.
func (t *Trail) Refused(ctx context.Context, e store.Event, tooMany bool) {
	if tooMany || t.refused.Over(class(e)) {
		t.Count(ctx, e)
		return
	}
	t.Record(ctx, e)
}

// class tells events that name something on record from those that anyone can cause with a name that was made up.
func class(e store.Event) string {
	if e.Tenant != "" {
		return "known"
	}
	return "unknown"
}

// Repeated tells whether an event was recorded in this minute that has the same kind, actor, node, outcome and network, or whether
// there were too many refusals of all kinds. It has counted the event then. Else the caller has to record it.
func (t *Trail) Repeated(ctx context.Context, e store.Event) bool {
	key := strings.Join([]string{e.Kind, e.Actor, e.NodeID, e.Outcome, origin.SiteOf(e.Address)}, " ")
	if !t.repeated.Over(key) && (e.Outcome == "ok" || !t.refused.Over(class(e))) {
		return false
	}
	t.Count(ctx, e)
	return true
}

// Count counts an event that is one of too many to be recorded each. A minute after the first of them one event has their number in
// detail.more. Settle, or the next Count, records it.
func (t *Trail) Count(ctx context.Context, e store.Event) {
	now := t.now()
	due := t.surplus.due(now, false)
	t.surplus.add(e, now)
	t.Record(ctx, due...)
}

// Settle records the numbers of what was counted: those that are older than a minute, or with all every one.
func (t *Trail) Settle(ctx context.Context, all bool) {
	t.Record(ctx, t.surplus.due(t.now(), all)...)
}
