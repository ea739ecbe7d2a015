package node

import (
	"slices"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// TestUpdateRows: what a person reads of a node's channel and its last update.
func TestUpdateRows(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	at := now.Add(-2 * time.Minute)
	for _, c := range []struct {
		update  *api.NodeUpdate
		channel string
		cell    string
		rows    []string
	}{
		{nil, "-", "-", nil},
		{&api.NodeUpdate{Channel: "stable", Unable: true}, "stable", "cannot update",
			[]string{"  channel: stable, but this agent cannot update itself"}},
		{&api.NodeUpdate{Channel: "stable", Sequence: 7, Pinned: true, Held: "it is pinned"}, "stable (pinned)", "-",
			[]string{"  channel: stable (pinned), number 7", "  held: it is pinned"}},
		{&api.NodeUpdate{Channel: "stable", Sequence: 7, Version: "0.5.0", Phase: "committed", At: &at}, "stable", "committed",
			[]string{"  channel: stable, number 7", "  update: committed, 0.5.0, 2m ago"}},
		{&api.NodeUpdate{Channel: "stable", Sequence: 7, Version: "0.5.0", Phase: "rolled_back", Code: "crashed",
			Detail: "3 \x1b[1mtimes", At: &at}, "stable", "rolled_back: crashed", []string{"  channel: stable, number 7",
			"  update: rolled_back, 0.5.0, 2m ago: crashed: 3 \\x1b[1mtimes; muster help updates-failing"}},
	} {
		v := view{Node: api.Node{Update: c.update}, now: now}
		var rows []string
		for _, row := range v.updateRows() {
			rows = append(rows, row[0]+": "+screen.Printable(row[1]))
		}
		if screen.OrUnknown(v.channel()) != c.channel || screen.OrUnknown(v.update()) != c.cell || !slices.Equal(rows, c.rows) {
			t.Errorf("%+v: got %q, %q, %q", c.update, v.channel(), v.update(), rows)
		}
	}
}
