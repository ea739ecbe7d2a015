package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"muster/store"
)

func TestEvents(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	must(t, s.AddEvents(ctx)) // none is fine
	for id, name := range map[string]string{"id-1": "one", "id-2": "two"} {
		must(t, s.CreateNode(ctx, store.Node{ID: id, Name: name, Tenant: "t", CreatedAt: day()}, nil))
	}
	full := store.Event{ID: 1, At: day(), Kind: "node.enrolled", Actor: "token:mse_a", NodeID: "id-1", NodeName: "one", Tenant: "t1",
		Address: "192.0.2.1",
		Outcome: "ok", Detail: map[string]string{"provider": "vast_ai", "x": "x'48'"}, Security: true}
	must(t, s.AddEvents(ctx, full,
		store.Event{At: after(1 * time.Second), Kind: "node.moved", NodeID: "id-2", NodeName: "two", Tenant: "t2", Outcome: "ok"},
		store.Event{At: after(2 * time.Second), Kind: "node.moved", NodeID: "id-1", NodeName: "one", Tenant: "t1", Outcome: "ok"},
		store.Event{At: after(3 * time.Second), Kind: "enrol.refused", NodeID: "id-1", NodeName: "one", Tenant: "t1",
			Outcome: "token_used", Security: true},
		store.Event{At: after(4 * time.Second), Kind: "gateway.started"}))
	for _, c := range []struct {
		q    store.EventQuery
		want []int64
	}{
		{store.EventQuery{}, []int64{5, 4, 3, 2, 1}},
		{store.EventQuery{Ascending: true}, []int64{1, 2, 3, 4, 5}},
		{store.EventQuery{Limit: 2}, []int64{5, 4}},
		{store.EventQuery{Limit: 2, Ascending: true}, []int64{1, 2}},
		{store.EventQuery{Limit: 5000}, []int64{5, 4, 3, 2, 1}},
		{store.EventQuery{Tenant: "t1"}, []int64{4, 3, 1}},
		{store.EventQuery{Node: "id-1"}, []int64{4, 3, 1}},
		{store.EventQuery{Node: "one"}, []int64{4, 3, 1}},
		{store.EventQuery{Node: "one", Tenant: "t2"}, nil},
		{store.EventQuery{Kind: "node.moved"}, []int64{3, 2}},
		{store.EventQuery{Actor: "token:mse_a"}, []int64{1}},
		{store.EventQuery{Actor: "mse_a"}, []int64{1}},
		{store.EventQuery{Actor: "token"}, nil},
		{store.EventQuery{Security: true}, []int64{4, 1}},
		{store.EventQuery{Since: after(2 * time.Second)}, []int64{5, 4, 3}},
		{store.EventQuery{AfterID: 3, Ascending: true}, []int64{4, 5}},
		{store.EventQuery{BeforeID: 3}, []int64{2, 1}},
		{store.EventQuery{AfterID: 1, BeforeID: 5, Kind: "node.moved", Node: "two"}, []int64{2}},
	} {
		t.Run(fmt.Sprintf("%+v", c.q), func(t *testing.T) {
			events, err := s.Events(ctx, c.q)
			must(t, err)
			var got []int64
			for _, e := range events {
				got = append(got, e.ID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	events, err := s.Events(ctx, store.EventQuery{Limit: 1, Ascending: true})
	must(t, err)
	if !reflect.DeepEqual(events[0], full) {
		t.Errorf("got  %+v\nwant %+v", events[0], full)
	}
}

func TestEventLimits(t *testing.T) {
	s := open(t)
	must(t, s.AddEvents(t.Context(), make([]store.Event, 1100)...))
	for _, c := range []struct{ limit, want int }{{0, 100}, {-1, 100}, {99, 99}, {1100, 1000}} {
		if got := countEvents(t, s, store.EventQuery{Limit: c.limit}); got != c.want {
			t.Errorf("limit %d: got %d events, want %d", c.limit, got, c.want)
		}
	}
}
