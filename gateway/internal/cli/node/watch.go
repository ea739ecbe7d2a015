package node

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/live"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/tty"
)

const watchText = "--watch keeps the list up to date: on a terminal it stays in its place until q, " +
	"in a pipe each node has a line first, and " +
	"then each change of its state, status, GPUs or findings has one: the time, the name, and words such as status=online, " +
	"or gone for a node " +
	"that the filter matches no more. -o wide adds its id, tenant and provider."

// watch shows the list live.
func watch(ctx context.Context, s *cli.Session, filter api.NodeFilter, idle bool) error {
	if s.Form == cli.FormJSON {
		return cli.Usagef("leave one of them out; the forms of --watch are table and wide", "--watch prints no JSON, as --output wants it")
	}
	picked := live.Filter{Selector: filter.Selector, Status: filter.Status, State: filter.State, All: filter.All}
	if err := picked.Check(ctx, s); err != nil {
		return err
	}
	if in, _ := s.Terminal(); in != nil {
		return live.Show(ctx, s, picked, live.UsualPace, &watchView{clock: s.Now, wide: s.Form == cli.FormWide, idle: idle})
	}
	return watchLines(ctx, s, picked, lines{clock: s.Now, wide: s.Form == cli.FormWide, idle: idle, told: map[string]told{}})
}

// watchView is the list on a terminal.
type watchView struct {
	board  live.Board
	clock  func() time.Time
	wide   bool
	idle   bool
	offset int
	room   int
}

// Take takes in what the gateway told.
func (w *watchView) Take(n live.News) { w.board.Take(n, w.clock()) }

// Answered is not called: the filter stays.
func (w *watchView) Answered(error) {}

// Press quits, or moves the list.
func (w *watchView) Press(key tty.Key) live.Wish {
	switch key {
	case 'q', tty.Interrupt, tty.Escape:
		return live.Wish{Quit: true}
	case tty.Up, 'k':
		w.offset--
	case tty.Down, 'j':
		w.offset++
	case tty.PageUp:
		w.offset -= w.room
	case tty.PageDown, ' ':
		w.offset += w.room
	case tty.Home, 'g':
		w.offset = 0
	}
	w.offset = max(w.offset, 0)
	return live.Wish{}
}

// Frame returns the list, with what it counts below.
func (w *watchView) Frame(size tty.Size) []string {
	const around = 3 // lines that are no nodes
	rows := w.board.Rows(w.idle, "")
	w.room = max(size.Rows-around, 1)
	w.offset = max(min(w.offset, len(rows)-w.room), 0)
	shown := rows[w.offset:min(w.offset+w.room, len(rows))]
	all := append(w.table(shown, size.Columns), counted(rows).footer(api.RentOf(rows).Text()), w.lastLine(len(shown), len(rows)))
	for i := range all {
		all[i] = screen.Cut(all[i], size.Columns)
	}
	return all
}

// table is the list of node ls, of what the stream tells.
func (w *watchView) table(shown []*api.NodeRow, columns int) []string {
	now := w.board.Now(w.clock())
	var text bytes.Buffer
	cells := make([][]string, 0, len(shown))
	for _, g := range shown {
		v := glanced(g, now)
		v.narrow = columns < roomy
		cells = append(cells, streamed(v.row(w.wide)))
	}
	_ = screen.NewList(&text, w.wide, columns, streamed(nodeColumns())).Write(cells) // a buffer takes all
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

func (w *watchView) lastLine(shown, all int) string {
	switch {
	case w.board.Lost != nil:
		return w.board.Trouble(w.clock())
	case !w.board.Loaded:
		return "the gateway is asked for its nodes"
	case shown < all:
		return fmt.Sprintf("%d to %d of %d; arrows move, q quits", w.offset+1, w.offset+shown, all)
	}
	return "q quits"
}

func counted(rows []*api.NodeRow) tally {
	var counts tally
	for _, g := range rows {
		counts.add(view{Node: api.Node{State: g.State, Status: g.Status, Unheard: g.Unheard}})
	}
	return counts
}
