package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/origin"
	"muster/store"
)

// Misused records a token that was presented where it is not good, or is good no more. claimed are the public parts that it shows:
// the event says whose the first one on record is, proven or not. Presentations are counted by address: beyond a number
// in a minute they are answered with too_many_requests and recorded by their number alone. A token on record that was shown to
// others has a count of its own and always its own answer, so that no noise hides it. It gives the refusal to answer.
func (b *Bootstrap) Misused(ctx context.Context, refused error, claimed []string, e store.Event) error {
	var detail *wire.ErrorDetail
	if !errors.As(refused, &detail) {
		return refused
	}
	ctx = context.WithoutCancel(ctx) // whoever hangs up is recorded too
	from := origin.SiteOf(e.Address)
	e.At, e.Kind, e.Outcome, e.Security = b.now(), "bootstrap.refused", detail.Code, true
	known := b.Claim(ctx, claimed, &e)
	tooMany := b.misuse.Over(from)
	leaked := known != "" && (detail.Code == wire.CodeTLSRequired || detail.Code == wire.CodePlaintextSecret || detail.Code == wire.CodeTokenWrongRoute)
	if leaked {
		tooMany = b.misuse.Over(from + " " + known)
	}
	b.Refused(ctx, e, tooMany)
	if leaked || !tooMany {
		return refused
	}
	return wire.Refuse(wire.CodeTooManyRequests, "too many refused tokens from this address", "wait a minute, then try again with the right one")
}

// Claim says in an event whose token it is, by the ids that it shows: detail.token is the first one on record, which is what it
// gives, with that one's tenant, node or account; else the first of all. Nothing of it is proven.
func (b *Bootstrap) Claim(ctx context.Context, ids []string, e *store.Event) (known string) {
	ctx = context.WithoutCancel(ctx)
	for _, id := range ids {
		if b.claim(ctx, id, e) {
			return id
		}
	}
	if len(ids) > 0 {
		e.Detail["token"] = ids[0]
	}
	return ""
}

func (b *Bootstrap) claim(ctx context.Context, id string, e *store.Event) (known bool) {
	e.Detail = maps.Clone(e.Detail)
	if e.Detail == nil {
		e.Detail = map[string]string{}
	}
	e.Detail["token"] = id
	if strings.HasPrefix(id, string(sign.AccountToken)+"_") {
		account, err := b.store.Account(ctx, id)
		if err != nil {
			return false
		}
		e.Tenant, e.Detail["account"] = account.Tenant, account.Name
		return true
	}
	if IsPSK(id) {
		if _, err := b.store.PSK(ctx, id); err != nil {
			return false
		}
		e.Tenant = DefaultTenant
		return true
	}
	token, err := b.store.Token(ctx, id)
	if err != nil {
		return false
	}
	e.Tenant, e.NodeID = token.Tenant, token.NodeID
	b.nameNode(ctx, e)
	return true
}

// nameNode adds the name of an event's node.
func (b *Bootstrap) nameNode(ctx context.Context, e *store.Event) {
	if e.NodeID == "" {
		return
	}
	if node, err := b.store.Node(ctx, "", e.NodeID); err == nil {
		e.NodeName = node.Name
	}
}

// record adds events, also where whoever caused them, or the next one who was refused, has hung up.
func (b *Bootstrap) record(ctx context.Context, events ...store.Event) {
	if len(events) == 0 {
		return
	}
	if err := b.store.AddEvents(context.WithoutCancel(ctx), events...); err != nil {
		b.log.Error("an event was not recorded", "kind", events[0].Kind, "error", err)
	}
}

// Refused records an event about somebody who was refused, or counts it where it is one of too many: of the same source, as the
// caller knows, or of all sources in this minute. What names something on record has a bound of its own, so that nobody hides it
// behind names that were made up.
func (b *Bootstrap) Refused(ctx context.Context, e store.Event, tooMany bool) {
	if tooMany || b.tooMany(e) {
		b.CountMore(ctx, e)
		return
	}
	b.record(ctx, e)
}

// tooMany counts an event that is about to be recorded.
func (b *Bootstrap) tooMany(e store.Event) bool {
	return b.recorded.Over(class(e))
}

// class tells what names something on record from what anyone can make up.
func class(e store.Event) string {
	if e.Tenant != "" {
		return "known"
	}
	return "unknown"
}

// CountAgain counts an event where one of the same kind, actor, node and outcome from the same address was recorded in this minute,
// and tells so, or where too many refusals of all kinds were. The others are their caller's to record.
func (b *Bootstrap) CountAgain(ctx context.Context, e store.Event) bool {
	key := strings.Join([]string{e.Kind, e.Actor, e.NodeID, e.Outcome, origin.SiteOf(e.Address)}, " ")
	if !b.repeats.Over(key) && (e.Outcome == store.OutcomeOK || !b.tooMany(e)) {
		return false
	}
	b.CountMore(ctx, e)
	return true
}

// CountMore counts an event that is one of too many to be recorded each. One event with the number, in detail.more, follows a
// minute after the first of them, when Settle or CountMore is next called.
func (b *Bootstrap) CountMore(ctx context.Context, e store.Event) {
	now := b.now()
	due := b.surplus.due(now, false)
	b.surplus.add(e, now)
	b.record(ctx, due...)
}

// Settle records what CountMore counted more than a minute ago, with all everything.
func (b *Bootstrap) Settle(ctx context.Context, all bool) {
	b.record(ctx, b.surplus.due(b.now(), all)...)
}

// surplus holds the events that were only counted. The zero value is ready; it is safe for concurrent use.
type surplus struct {
	mu   sync.Mutex
	held map[surplusKey]*heldBack
	keys map[string]int // of each class
}

// surplusKey is what events have in common that are counted together. Only a token on record counts by itself: others cost nothing
// to make up.
type surplusKey struct{ kind, outcome, node, token, from string }

func keyOf(e store.Event) surplusKey {
	key := surplusKey{kind: e.Kind, outcome: e.Outcome, node: e.NodeID, from: origin.SiteOf(e.Address)}
	if e.Tenant != "" {
		key.token = cmp.Or(e.Detail["token"], e.Detail["credential"])
	}
	return key
}

type heldBack struct {
	event store.Event
	more  int
	since time.Time
}

// surplusBound is how many keys of a class are held; beyond it all of a kind share one.
const surplusBound = 100

func (s *surplus) add(e store.Event, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held, s.keys = map[surplusKey]*heldBack{}, map[string]int{}
	}
	key := keyOf(e)
	h := s.held[key]
	if h == nil && s.keys[class(e)] >= surplusBound {
		key = surplusKey{kind: e.Kind}
		e = store.Event{Kind: e.Kind, Actor: "unknown", Address: "many", Outcome: e.Outcome, Security: true}
		h = s.held[key]
	}
	if h == nil {
		s.keys[class(e)]++
		h = &heldBack{event: e, since: now}
		s.held[key] = h
	}
	h.more++
}

// due takes out what was begun more than a minute ago, with all everything.
func (s *surplus) due(now time.Time, all bool) []store.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []store.Event
	for key, h := range s.held {
		if !all && now.Sub(h.since) < failWindow && !now.Before(h.since) {
			continue
		}
		delete(s.held, key)
		s.keys[class(h.event)]--
		out = append(out, h.sum(now))
	}
	return out
}

// sum is the one event for all that were counted. What was particular to the first of them is left out.
func (h *heldBack) sum(now time.Time) store.Event {
	e := h.event
	e.At, e.Detail = now, maps.Clone(e.Detail)
	if e.Detail == nil {
		e.Detail = map[string]string{}
	}
	for _, one := range []string{"method", "path", "reason", "name"} {
		delete(e.Detail, one)
	}
	if keyOf(e).token == "" {
		delete(e.Detail, "token")
	}
	e.Detail["more"], e.Detail["since"] = strconv.Itoa(h.more), h.since.UTC().Format(time.RFC3339)
	return e
}
