package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli/live"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/tty"
)

func noon() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

// some are nodes of each kind that the list marks.
func some() []api.NodeRow {
	seen := noon().Add(-4 * time.Second)
	long := noon().Add(-5 * time.Hour)
	two := 2
	used, total := int64(39233), int64(81559)
	busy := 99.0
	gpu := api.GPU{UUID: "GPU-0", Name: "NVIDIA H100 80GB HBM3", MemoryUsedMiB: &used, MemoryMiB: &total, UtilizationPercent: &busy}
	return []api.NodeRow{
		{ID: "1", Name: "gpu-1", Tenant: "platform", State: "active", Status: "online", LastSeen: &seen, ReadAt: &seen, Fresh: true, Probe: "ok",
			GPUs: []api.GPU{gpu}, NotAfter: &seen, AgentVersion: "1.2.3"},
		{ID: "2", Name: "gpu-2", Tenant: "platform", Provider: "maas", State: "unavailable", StateReasons: []string{"gpu_count_dropped"},
			Status:   "stale",
			LastSeen: &long, ReadAt: &long, Probe: "ok", GPUs: []api.GPU{gpu}, GPUsExpected: &two, IdleSince: &long,
			Findings: []api.Finding{{Rule: "node_stale", Text: "no word\x1b[2J"}, {Rule: "gpu_count_dropped"}}},
		{ID: "3", Name: "new", Tenant: "platform", State: "ready", Status: "pending"},
	}
}

func loaded(nodes []api.NodeRow) live.News {
	return live.News{Fleet: &api.FleetView{At: noon(), Nodes: nodes}}
}

// TestWatched: the list on a terminal has the rows of node ls and what they count, and nothing in it is wider than the screen.
func TestWatched(t *testing.T) {
	for _, wide := range []bool{false, true} {
		w := &watchView{clock: noon, wide: wide}
		if got := w.Frame(tty.Size{Columns: 80, Rows: 10}); !strings.Contains(got[len(got)-1], "is asked") {
			t.Errorf("before anything is known: %q", got)
		}
		w.Take(loaded(some()))
		for _, columns := range []int{40, 80, 300, 2000} {
			lines := w.Frame(tty.Size{Columns: columns, Rows: 10})
			if len(lines) != 6 || !strings.HasPrefix(lines[4], "3 nodes: 1 online, 1 stale, 1 pending") || lines[5] != "q quits" {
				t.Errorf("%d columns: %q", columns, lines)
			}
			for _, line := range lines {
				if screen.Width(line) > columns || strings.ContainsRune(line, 0x1b) {
					t.Errorf("%d columns: %q", columns, line)
				}
			}
		}
		text := strings.Join(w.Frame(tty.Size{Columns: 500, Rows: 10}), "\n")
		for _, want := range []string{"1x H100 80GB HBM3", "99%", "!~1/2x", "~99%", "5h"} {
			if !strings.Contains(text, want) {
				t.Errorf("it lacks %q:\n%s", want, text)
			}
		}
		for _, want := range []string{"gpu_count_dropped", "1.2.3", "READ"} {
			if strings.Contains(text, want) != wide {
				t.Errorf("wide: %v, and %q:\n%s", wide, want, text)
			}
		}
		if strings.Contains(text, "ADDRESS") {
			t.Errorf("a column of which nothing is told:\n%s", text)
		}
	}
}

// TestUntold: the columns that are left out are columns of the list.
func TestUntold(t *testing.T) {
	for _, name := range untold() {
		if !slices.ContainsFunc(nodeColumns(), func(c screen.Column) bool { return c.Name == name }) {
			t.Errorf("there is no column %s", name)
		}
	}
}

// TestWatchedKeys: keys move a long list, and end it.
func TestWatchedKeys(t *testing.T) {
	var nodes []api.NodeRow
	for i := range 30 {
		nodes = append(nodes, api.NodeRow{ID: fmt.Sprintf("id-%02d", i), Name: fmt.Sprintf("n-%02d", i), State: "ready", Status: "pending"})
	}
	w := &watchView{clock: noon}
	w.Take(loaded(nodes))
	size := tty.Size{Columns: 80, Rows: 13}
	w.Frame(size)
	for _, step := range []struct {
		key   tty.Key
		first int
	}{{'j', 1}, {tty.Down, 2}, {'k', 1}, {tty.Up, 0}, {tty.Up, 0}, {' ', 10}, {tty.PageDown, 20}, {tty.PageDown, 20}, {tty.PageUp, 10},
		{tty.Home, 0}, {'j', 1}, {'g', 0}, {'x', 0}} {
		if w.Press(step.key).Quit {
			t.Errorf("%d quits", step.key)
		}
		lines := w.Frame(size)
		if want := fmt.Sprintf("n-%02d ", step.first); !strings.HasPrefix(lines[1], want) || len(lines) != 13 {
			t.Errorf("after %d: %q, want %s", step.key, lines[1], want)
		}
	}
	if got := w.Frame(size)[12]; !strings.HasPrefix(got, "1 to 10 of 30") {
		t.Errorf("got %q", got)
	}
	for _, key := range []tty.Key{'q', tty.Interrupt, tty.Escape} {
		if !w.Press(key).Quit {
			t.Errorf("%d does not quit", key)
		}
	}
	w.Take(live.News{Lost: errors.New("no gateway")})
	if got := w.Frame(size)[12]; !strings.Contains(got, "does not answer") {
		t.Errorf("got %q", got)
	}
}

// TestWatchLines: a line for each node, then one for each change that matters, and one for each that is gone.
func TestWatchLines(t *testing.T) {
	l := lines{clock: noon, told: map[string]told{}}
	take := func(n live.News) []string {
		l.board.Take(n, noon())
		return l.changes()
	}
	got := take(loaded(some()))
	want := []string{
		"2026-11-23T12:00:00Z gpu-1 state=active status=online gpus=1 reasons=- findings=-",
		"2026-11-23T12:00:00Z gpu-2 state=unavailable status=stale gpus=- reasons=gpu_count_dropped findings=gpu_count_dropped,node_stale",
		"2026-11-23T12:00:00Z new state=ready status=pending gpus=- reasons=- findings=-",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := take(loaded(some())); len(got) > 0 {
		t.Errorf("nothing has changed: %q", got)
	}
	changed := some()[0]
	changed.LastSeen = nil
	if got := take(live.News{Nodes: &api.StreamNodes{Nodes: []*api.NodeRow{&changed}}}); len(got) > 0 {
		t.Errorf("a heartbeat: %q", got)
	}
	drained := changed
	drained.State = "drained\x1b[2J"
	got = take(live.News{Nodes: &api.StreamNodes{Nodes: []*api.NodeRow{&drained}, Gone: []string{"3"}}})
	if len(got) != 2 || !strings.Contains(got[0], `gpu-1 state=drained\x1b[2J status`) || got[1] != "2026-11-23T12:00:00Z new gone" {
		t.Errorf("got %q", got)
	}
	wide := lines{clock: noon, wide: true, idle: true, told: map[string]told{}}
	wide.board.Take(loaded(some()), noon())
	if got := wide.changes(); len(got) != 1 || !strings.HasSuffix(got[0], " id=2 tenant=platform provider=maas") {
		t.Errorf("wide, and idle: %q", got)
	}
}
