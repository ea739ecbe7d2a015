package logs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
)

// TestBudget: the more streams there are, the less each keeps, so that all of them keep within the budget. A stream that goes makes room.
func TestBudget(t *testing.T) {
	h := New(Config{})
	large := wire.LogLine{Message: strings.Repeat("x", 50<<10)}
	for range mostStreams {
		s := newStream(h, "n", wire.LogAgent, time.Time{})
		h.streams = append(h.streams, s)
		for range 100 {
			s.add([]wire.LogLine{large})
		}
	}
	h.shrink()
	all := 0
	for _, s := range h.streams {
		all += s.ring.bytes
	}
	if all > budget || all < budget/2 {
		t.Errorf("%d streams keep %d bytes, the budget is %d", len(h.streams), all, budget)
	}
	first := h.streams[0]
	for _, s := range slices.Clone(h.streams[1:]) {
		h.drop(s, true)
	}
	if len(h.streams) != 1 || first.ring.most != ringBytes {
		t.Errorf("%d streams are left, with %d bytes each", len(h.streams), first.ring.most)
	}
}

// TestRing: lines keep their numbers, and what is dropped leaves the latest time that it had.
func TestRing(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	r := ring{most: 3 * lineCost}
	r.add([]wire.LogLine{{Time: at.Add(time.Hour)}, {Time: at}, {Time: at}, {Time: at}, {Time: at}})
	if next := r.begin().behind(r.lines); r.first != 2 || next != (place{5, 5}) || len(r.lines) != 3 || !r.gone.Equal(at.Add(time.Hour)) {
		t.Errorf("first %d, next %d, %d lines, gone %v", r.first, next, len(r.lines), r.gone)
	}
	r.add([]wire.LogLine{{Message: strings.Repeat("x", 4*lineCost)}})
	if len(r.lines) != 1 || r.first != 5 {
		t.Errorf("a line that is larger than the ring: %d lines from %d on", len(r.lines), r.first)
	}
	r.forget(0)
	if r.bytes != 0 || r.begin() != (place{6, 6}) {
		t.Errorf("%d bytes, next %v", r.bytes, r.begin())
	}
	r.add([]wire.LogLine{{Dropped: 5}, {Source: wire.LogGateway}, {}})
	r.forget(0)
	if r.begin() != (place{9, 12}) {
		t.Errorf("a line that stands for 5, one of the gateway and one more: %v", r.begin())
	}
}

// TestGapBehindNews: what is missing behind a line that is new was never had, also where known lines did not come again.
func TestGapBehindNews(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	r := ring{most: 1 << 20}
	r.add([]wire.LogLine{{Time: at, Message: "one"}, {Time: at, Message: "two"}, {Time: at, Message: "three"}})
	k := r.known(at, time.Second)
	got := k.fresh([]wire.LogLine{{Time: at, Dropped: 2}, {Time: at, Message: "new"}, {Time: at, Dropped: 2}})
	if len(got) != 2 || got[0].Message != "new" || got[1].Dropped != 2 {
		t.Errorf("%+v", got)
	}
}
