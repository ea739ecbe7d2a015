package audit

import (
	"cmp"
	"strconv"
	"sync"
	"time"

	"muster/gateway/internal/httpserver/origin"
	"muster/store"
)

// surplus holds the events that were only counted. The zero value is ready. It is safe for concurrent use.
type surplus struct {
	mu   sync.Mutex
	held map[surplusKey]*heldBack
	keys map[string]int // how many entries of held each class has
}

// surplusKey is what events have in common that are counted together. A token is part of it only if it is on record: others can be
// invented, and each would take a place. An actor cannot be invented: whoever proved nothing is "unknown".
type surplusKey struct{ kind, outcome, said, actor, node, token, from string }

func keyOf(e store.Event) surplusKey {
	key := surplusKey{kind: e.Kind, outcome: e.Outcome, said: e.Detail["said"], actor: e.Actor, node: e.NodeID, from: origin.SiteOf(e.Address)}
	if onRecord(e) {
		key.token = cmp.Or(e.Detail["token"], e.Detail["credential"])
	}
	return key
}

type heldBack struct {
	event store.Event
	more  int
	since time.Time
}

// surplusBound is how many keys of a class are held. Beyond it, all events of a kind share one key.
const surplusBound = 100

func (s *surplus) add(e store.Event, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[surplusKey]*heldBack{}
		s.keys = map[string]int{}
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

// due takes out the entries that began more than a minute ago, or with all, every entry. An entry from the future is due too: the
// clock was set back.
func (s *surplus) due(now time.Time, all bool) []store.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []store.Event
	for key, h := range s.held {
		if !all && now.Sub(h.since) < window && !now.Before(h.since) {
			continue
		}
		delete(s.held, key)
		s.keys[class(h.event)]--
		out = append(out, h.sum(now))
	}
	return out
}

// sum is the one event for all that were counted. Details that are true of the first one alone are left out.
func (h *heldBack) sum(now time.Time) store.Event {
	e := h.event
	e.At = now
	e.Detail = detailOf(e)
	for _, one := range []string{"method", "path", "reason", "name"} {
		delete(e.Detail, one)
	}
	if keyOf(e).token == "" {
		delete(e.Detail, "token")
	}
	e.Detail["more"] = strconv.Itoa(h.more)
	e.Detail["since"] = h.since.UTC().Format(time.RFC3339)
	return e
}
