package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// idleList lists the nodes whose GPUs are all idle, the longest first, with what that costs.
func idleList(ctx context.Context, s *cli.Session, f api.NodeFilter) error {
	view, err := s.WholeFleet(ctx, api.FleetFilter{Selector: f.Selector, Status: f.Status, State: f.State, Idle: true, All: f.All})
	if err != nil {
		return err
	}
	slices.SortStableFunc(view.Nodes, func(a, b api.NodeRow) int { return a.IdleSince.Compare(*b.IdleSince) })
	columns := []screen.Column{{Name: "NAME", Least: 12, Most: 40}, {Name: "TENANT", Rank: 3, Least: 8, Most: 24},
		{Name: "PROVIDER", Rank: 4, Least: 8, Most: 24}, {Name: "GPUS", Rank: 1}, {Name: "IDLE FOR"}, {Name: "COST/H", Rank: 2},
		{Name: "IDLE TODAY"}, {Name: "WATCHED", Rank: 5}, {Name: "STATE", Rank: 6, Least: 11, Most: 12}}
	rows := cli.Rows(view.Nodes, func(g api.NodeRow) []string { return idleRow(&g, s.Now()) })
	if err := s.List(columns).Write(rows); err != nil {
		return err
	}
	text := screen.Plural(len(view.Nodes), "node") + " idle"
	if len(view.Nodes) > 0 {
		text += fmt.Sprintf(": %s an hour, %s today", screen.Money(view.Totals.IdleCostPerHour), screen.Money(view.Totals.IdleCostToday))
	}
	fmt.Fprintln(s.Stdout, text)
	return nil
}

func idleRow(g *api.NodeRow, now time.Time) []string {
	today, seen := screen.Unknown, screen.Unknown
	if t := g.Today; t != nil {
		seen = hours(hoursOf(t.WatchedSeconds)) + " h"
		today = screen.Money(t.KnownIdleCost())
	}
	return []string{g.Name, g.Tenant, g.Provider, strconv.Itoa(len(g.GPUs)), screen.Age(now.Sub(*g.IdleSince)),
		screen.Money(g.IdleCostPerHour()), today, seen, g.State}
}

// todayRows says what a node has cost on this day, and how much of that its idle GPUs.
func (v view) todayRows(t *api.Today) [][]string {
	if t == nil { // nothing was seen
		return nil
	}
	text := fmt.Sprintf("%s idle GPU hours", hours(hoursOf(t.IdleGPUSeconds)))
	if t.Cost != nil {
		text += fmt.Sprintf(", which cost %s of %s", screen.Money(t.KnownIdleCost()), money(*t.Cost))
	}
	return [][]string{{"  today", text + fmt.Sprintf("; watched for %s h (day of UTC)", hours(hoursOf(t.WatchedSeconds)))}}
}
