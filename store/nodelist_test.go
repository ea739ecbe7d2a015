package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"muster/store"
)

// list returns the names of all pages of a query, and its total.
func list(t testing.TB, s *store.Store, q store.NodeQuery) (names []string, total int) {
	t.Helper()
	for {
		nodes, next, n, err := s.Nodes(t.Context(), q)
		must(t, err)
		for _, n := range nodes {
			names = append(names, n.Name)
		}
		if next == "" {
			return names, n
		}
		q.Cursor = next
	}
}

func TestBadCursor(t *testing.T) {
	s := enrolled(t, "a")
	for _, cursor := range []string{"!", "bm90IGpzb24", "WyJhIl0", "e30", "WyJhIiwxXQ"} {
		_, _, _, err := s.Nodes(t.Context(), store.NodeQuery{Cursor: cursor})
		if !errors.Is(err, store.ErrBadCursor) {
			t.Errorf("%s: got %v, want %v", cursor, err, store.ErrBadCursor)
		}
	}
}

func FuzzCursor(f *testing.F) {
	s := enrolled(f, "a", "b", "c")
	_, good, _, err := s.Nodes(f.Context(), store.NodeQuery{Limit: 1})
	must(f, err)
	for _, seed := range []string{"", good, good[1:], "WyIiLCIiXQ", "WyJhIiwiYiIsImMiXQ", "bnVsbA", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		if _, _, _, err := s.Nodes(t.Context(), store.NodeQuery{Cursor: cursor}); err != nil && !errors.Is(err, store.ErrBadCursor) {
			t.Errorf("%q: %v", cursor, err)
		}
	})
}

// TestPagesUnderInserts reads pages while nodes come and go: those that were there all the time are seen exactly once.
func TestPagesUnderInserts(t *testing.T) {
	var there []string
	for i := range 20 {
		there = append(there, fmt.Sprintf("n%02d", i))
	}
	s := enrolled(t, there...)
	var got []string
	q := store.NodeQuery{Limit: 3}
	for page := 0; ; page++ {
		nodes, next, total, err := s.Nodes(t.Context(), q)
		must(t, err)
		for _, n := range nodes {
			if slices.Contains(there, n.Name) {
				got = append(got, n.Name)
			}
		}
		if want := 20 + 2*page; total != want {
			t.Errorf("page %d: got total %d, want %d", page, total, want)
		}
		if q.Cursor = next; next == "" {
			break
		}
		must(t, s.Enrol(t.Context(), enrolment("mse_many", fmt.Sprintf("a%02d", page)))) // before the cursor
		must(t, s.Enrol(t.Context(), enrolment("mse_many", fmt.Sprintf("%s+", nodes[len(nodes)-1].Name))))
	}
	if !slices.Equal(got, there) {
		t.Errorf("got %v, want %v", got, there)
	}
}

func TestTotals(t *testing.T) {
	s := enrolled(t, "a", "b", "c")
	ctx := t.Context()
	must(t, s.CreateNode(ctx, store.Node{ID: "id-x", Name: "x", Tenant: "other", CreatedAt: day()}, nil))
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-b", From: "enrolled", To: "retired", At: day()}))
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-b", From: "retired", To: "retired", At: day()})) // counted once
	wantError(t, s.Enrol(ctx, enrolment("mse_none", "refused")), store.ErrConflict)
	for _, c := range []struct {
		q    store.NodeQuery
		want int
	}{
		{store.NodeQuery{}, 3},
		{store.NodeQuery{Retired: true}, 4},
		{store.NodeQuery{Tenant: "default"}, 2},
		{store.NodeQuery{Tenant: "default", Retired: true}, 3},
		{store.NodeQuery{Tenant: "other"}, 1},
		{store.NodeQuery{Tenant: "none"}, 0},
	} {
		if names, total := list(t, s, c.q); total != c.want || len(names) != c.want {
			t.Errorf("%+v: got %v and total %d, want %d", c.q, names, total, c.want)
		}
	}
}

func TestStatus(t *testing.T) {
	const interval = 30 * time.Second
	grace := store.StatusRef{Now: after(time.Hour), Start: after(time.Hour - time.Minute), AliveAt: after(10 * time.Minute), Grace: true}
	plain := grace
	plain.Grace = false
	for _, c := range []struct {
		name     string
		ref      store.StatusRef
		lastSeen *time.Time
		interval time.Duration
		want     string
	}{
		{"never seen", plain, nil, interval, "pending"},
		{"never seen, grace", grace, nil, interval, "pending"},
		{"just now", plain, pointer(after(time.Hour)), interval, "online"},
		{"three intervals", plain, pointer(after(time.Hour - 3*interval)), interval, "online"},
		{"a moment more", plain, pointer(after(time.Hour - 3*interval - time.Millisecond)), interval, "stale"},
		{"a slow node", plain, pointer(after(time.Hour - 29*time.Minute)), 10 * time.Minute, "online"},
		{"no interval", plain, pointer(after(time.Hour - time.Second)), 0, "stale"},
		{"in the future", plain, pointer(after(2 * time.Hour)), interval, "online"},
		{"before the restart", plain, pointer(after(10 * time.Minute)), interval, "stale"},
		{"before the restart, grace", grace, pointer(after(10 * time.Minute)), interval, "online"},
		{"three intervals before the gateway went, grace", grace, pointer(after(10*time.Minute - 3*interval)), interval, "online"},
		{"stale before the gateway went, grace", grace, pointer(after(10*time.Minute - 4*interval)), interval, "stale"},
		{"since the restart, grace", grace, pointer(after(time.Hour - time.Minute)), interval, "online"},
		{"since the restart and stale, grace", grace, pointer(after(time.Hour - time.Minute)), time.Second, "stale"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.ref.Status("active", c.lastSeen, c.interval); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			quiet := c.want
			if quiet == "stale" {
				quiet = "pending"
			}
			for _, state := range []string{"commissioned", "ready", "deploying"} { // it has no agent
				if got := c.ref.Status(state, c.lastSeen, c.interval); got != quiet {
					t.Errorf("%s: got %s, want %s", state, got, quiet)
				}
			}
		})
	}
}
