package live_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/live"
)

func names(rows []*api.NodeRow) string {
	var all []string
	for _, g := range rows {
		all = append(all, g.Name)
	}
	return strings.Join(all, " ")
}

// TestBoard: nodes come, change, take another name and go, and the order of names stays.
func TestBoard(t *testing.T) {
	here := time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)
	idle := here.Add(-time.Hour)
	var b live.Board
	b.Take(live.News{Fleet: &api.FleetView{At: here.Add(time.Minute), Nodes: []api.NodeRow{{ID: "2", Name: "b"}, {ID: "1", Name: "a"}}}},
		here)
	if got := names(b.Rows(false, "")); got != "a b" || !b.Loaded || !b.Now(here).Equal(here.Add(time.Minute)) {
		t.Errorf("loaded: %s, %v, %v", got, b.Loaded, b.Now(here))
	}
	b.Take(live.News{Nodes: &api.StreamNodes{Nodes: []*api.NodeRow{
		{ID: "1", Name: "z"}, {ID: "3", Name: "c", IdleSince: &idle}, {ID: "2", Name: "b", State: "drained"}}}}, here)
	if got := names(b.Rows(false, "")); got != "b c z" {
		t.Errorf("changed: %s", got)
	}
	if got := names(b.Rows(true, "")) + " " + names(b.Rows(false, "-name")); got != "c z c b" {
		t.Errorf("idle, and turned round: %s", got)
	}
	for reference, want := range map[string]string{"2": "b", "b": "b", "z": "z", "1": "z"} {
		if g, there := b.Find(reference); !there || g.Name != want {
			t.Errorf("%s: %+v", reference, g)
		}
	}
	if g, _ := b.Find("2"); g.State != "drained" {
		t.Errorf("got %+v", g)
	}
	b.Take(live.News{Nodes: &api.StreamNodes{Gone: []string{"2", "unknown"}}}, here)
	if _, there := b.Find("b"); there || names(b.Rows(false, "")) != "c z" {
		t.Errorf("gone: %s", names(b.Rows(false, "")))
	}
	if g, there := b.Find("z"); !there || g.ID != "1" {
		t.Errorf("after another has gone: %+v", g)
	}
}

// TestBoardLost: the age of what is shown grows while the gateway is lost, and news end that.
func TestBoardLost(t *testing.T) {
	here := time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)
	var b live.Board
	b.Take(live.News{Lost: errors.New("no way\x1b[2J")}, here)
	if got := b.Trouble(here); strings.Contains(got, "old") || strings.Contains(got, "\x1b") || !strings.Contains(got, "no way") {
		t.Errorf("before anything was heard: %s", got)
	}
	b.Take(live.News{Fleet: &api.FleetView{}}, here)
	if b.Lost != nil {
		t.Errorf("it is still lost: %v", b.Lost)
	}
	b.Take(live.News{Lost: &wire.ErrorDetail{Message: "no more", Hint: "ask later"}}, here.Add(time.Minute))
	if got := b.Trouble(here.Add(3 * time.Minute)); !strings.Contains(got, "this is 3m old: no more (ask later)") {
		t.Errorf("got %s", got)
	}
}
