// Package fleet has the commands that show the whole fleet: live in a terminal, and by GPU.
package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/live"
	"muster/gateway/internal/cli/tty"
)

// TopCommands returns the command that shows the fleet live in a terminal.
func TopCommands() []cli.Command {
	return []cli.Command{{
		Name: "top", Args: "[NODE]", Most: 1, Flags: []string{"selector", "idle", "sort", "once", "interval", "output"}, Run: top,
		Forms:   []string{cli.FormTable, cli.FormJSON},
		Summary: "watch the fleet live in a terminal",
		Text: "Above stand the totals of all nodes shown, below one row a node. UTIL and MEMORY have one character a GPU, and then the mean. " +
			"Enter, or NODE, shows the GPUs of one node. ? shows the keys, q quits.\n\n" +
			"When the gateway is lost, top says so and how old its picture is, and tries again by itself. --once prints one picture with all " +
			"nodes and without escape codes; so does a terminal that cannot move its cursor (TERM=dumb), and a pipe. -o json prints what " +
			"GET fleet of the API answers. NO_COLOR switches colours off. Without a UTF-8 locale, bars are made of digits.\n\n" +
			"--sort takes one of " + strings.Join(api.Sorts(), ", ") + "; a minus before it turns the order round.",
		Examples: []string{"muster top", "muster top -l tier=sovereign --sort utilization", "muster top gpu-1",
			"muster top --once --sort=-seen | head -20"},
	}}
}

// pipeWidth is how wide a picture is if there is no screen.
const pipeWidth = 160

// bounds of --interval.
const (
	leastPace = 200 * time.Millisecond
	mostPace  = time.Hour
)

func top(ctx context.Context, s *cli.Session) error {
	v, pace, once, err := begin(s)
	if err != nil {
		return err
	}
	in, _ := s.Terminal()
	if once || in == nil || s.Form == cli.FormJSON {
		return v.printOnce(ctx, s)
	}
	filter := live.Filter{Selector: v.selector}
	if _, err := v.load(ctx, s, s.Words); err != nil {
		return err
	}
	return live.Show(ctx, s, filter, pace, v)
}

// begin reads the flags.
func begin(s *cli.Session) (v *view, pace time.Duration, once bool, err error) {
	o := struct {
		Selector, Sort string
		Interval       time.Duration
		Idle, Once     bool
	}{Sort: api.SortName, Interval: live.UsualPace}
	wrong := s.Flags.Into(&o)
	v = &view{clock: s.Now, selector: o.Selector, order: o.Sort, idle: o.Idle}
	if !api.IsSort(v.order) {
		return nil, 0, false, cli.Usagef("one of "+strings.Join(api.Sorts(), ", ")+", maybe with a minus before it", "%s has the value %q",
			s.Flags.Source("sort"), v.order)
	}
	if wrong != nil {
		return nil, 0, false, wrong
	}
	if o.Interval < leastPace || o.Interval > mostPace {
		return nil, 0, false, cli.Usagef(fmt.Sprintf("from %v to %v", leastPace, mostPace), "%s has the value %v", s.Flags.Source("interval"),
			o.Interval)
	}
	v.look = lookOf(s.Getenv, false)
	return v, o.Interval, o.Once, nil
}

// pick shows the GPUs of the node that the command names, if it names one.
func (v *view) pick(words []string) error {
	if len(words) == 0 {
		return nil
	}
	node, there := v.board.Find(words[0])
	if !there {
		return cli.Hinted(fmt.Sprintf("there is no node %q here", words[0]), "muster node ls shows the nodes; --all the retired ones too")
	}
	v.detail = node.ID
	v.chosen = node.ID
	return nil
}

// load asks the gateway for all nodes.
func (v *view) load(ctx context.Context, s *cli.Session, words []string) (api.FleetView, error) {
	fleet, err := s.WholeFleet(ctx, api.FleetFilter{Selector: v.selector})
	if err != nil {
		return fleet, err
	}
	v.Take(live.News{Fleet: &fleet})
	return fleet, v.pick(words)
}

// printOnce prints one picture.
func (v *view) printOnce(ctx context.Context, s *cli.Session) error {
	fleet, err := v.load(ctx, s, s.Words)
	if err != nil {
		return err
	}
	if s.Form == cli.FormJSON {
		return v.printJSON(s, fleet)
	}
	v.look = lookOf(s.Getenv, true)
	columns := s.Screen()
	if columns == 0 {
		columns = pipeWidth
	}
	for _, line := range v.picture(tty.Size{Columns: columns}).frame() {
		if _, err := fmt.Fprintln(s.Stdout, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// printJSON prints what GET fleet answers, of the nodes that the picture would show.
func (v *view) printJSON(s *cli.Session, fleet api.FleetView) error {
	rows := v.board.Rows(v.idle, v.order)
	if v.detail != "" {
		node, _ := v.board.Find(v.detail)
		rows = []*api.NodeRow{node}
	}
	fleet.Totals = api.Count(rows)
	fleet.Nodes = make([]api.NodeRow, 0, len(rows))
	for _, g := range rows {
		fleet.Nodes = append(fleet.Nodes, *g)
	}
	return s.WriteJSON(fleet)
}
