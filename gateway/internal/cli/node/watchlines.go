package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/live"
	"muster/gateway/internal/cli/screen"
)

// lines is the list in a pipe: a line for each change.
type lines struct {
	board live.Board
	clock func() time.Time
	wide  bool
	idle  bool
	told  map[string]told // by id
}

// told is what a reader knows of a node.
type told struct{ name, words string }

// watchLines prints until ctx ends, or nobody reads any more.
func watchLines(ctx context.Context, s *cli.Session, f live.Filter, l lines) error {
	return live.Follow(ctx, s, f, func(n live.News) error {
		if n.Lost != nil && l.board.Lost == nil { // once, not with each try
			s.Trouble(ctx, "the gateway is tried again", n.Lost)
		}
		l.board.Take(n, l.clock())
		for _, line := range l.changes() {
			if _, err := fmt.Fprintln(s.Stdout, line); err != nil {
				return err
			}
		}
		return nil
	})
}

// changes are the lines for what the reader does not know yet.
func (l *lines) changes() []string {
	at := l.board.Now(l.clock()).UTC().Format(time.RFC3339)
	var all []string
	now := make(map[string]told, len(l.told))
	for _, g := range l.board.Rows(l.idle, "") {
		words := l.words(g)
		now[g.ID] = told{g.Name, words}
		if l.told[g.ID] != now[g.ID] {
			all = append(all, at+" "+screen.Printable(g.Name+" "+words))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.told)) {
		if _, there := now[id]; !there {
			all = append(all, at+" "+screen.Printable(l.told[id].name)+" gone")
		}
	}
	l.told = now
	return all
}

// words are what of a node a reader is told of. Values that change with every heartbeat are not among them.
func (l *lines) words(g *api.NodeRow) string {
	gpus := screen.Unknown
	if g.Fresh {
		gpus = fmt.Sprint(len(g.GPUs))
		if g.GPUsExpected != nil {
			gpus += fmt.Sprintf("/%d", *g.GPUsExpected)
		}
	}
	rules := make([]string, 0, len(g.Findings))
	for _, f := range g.Findings {
		rules = append(rules, f.Rule)
	}
	slices.Sort(rules)
	words := fmt.Sprintf("state=%s status=%s gpus=%s reasons=%s findings=%s", g.State, g.Status, gpus, joined(g.StateReasons),
		joined(slices.Compact(rules)))
	if l.wide {
		words += fmt.Sprintf(" id=%s tenant=%s provider=%s", g.ID, g.Tenant, screen.OrUnknown(g.Provider))
	}
	return words
}

func joined(words []string) string { return screen.OrUnknown(strings.Join(words, ",")) }

// untold are columns of node ls that the stream does not tell of.
func untold() []string { return []string{"CHANNEL", "UPDATE", "ADDRESS", "SKEW"} }

// streamed leaves untold columns out, of the columns or of a row.
func streamed[T any](row []T) []T {
	kept := make([]T, 0, len(row))
	for i, c := range nodeColumns() {
		if !slices.Contains(untold(), c.Name) {
			kept = append(kept, row[i])
		}
	}
	return kept
}

// glanced is a view of what the stream tells of a node.
func glanced(g *api.NodeRow, now time.Time) view {
	v := view{now: now, Node: api.Node{
		ID: g.ID, Name: g.Name, Tenant: g.Tenant, Labels: g.Labels, Provider: g.Provider, InstanceID: g.InstanceID, State: g.State,
		StateReasons: g.StateReasons, Status: g.Status, Unheard: g.Unheard, LastSeen: g.LastSeen,
		GPUsExpected: g.GPUsExpected, IntervalSeconds: g.IntervalSeconds,
	}}
	v.addFindings(g.Findings)
	if g.AgentVersion != "" {
		v.Agent = &api.Agent{Version: g.AgentVersion}
	}
	if g.NotAfter != nil {
		v.Certificate = &api.Certificate{NotAfter: *g.NotAfter, RenewalOverdue: g.RenewalOverdue}
	}
	if g.Probe == "" && g.GPUs == nil {
		return v
	}
	v.hardware = &wire.Hardware{Probe: wire.Probe{State: g.Probe, SampledAt: g.ReadAt}, Runs: g.Runs}
	for _, gpu := range g.GPUs {
		v.hardware.GPUs = append(v.hardware.GPUs, wire.GPU{Index: gpu.Index, UUID: gpu.UUID, Name: gpu.Name,
			MemoryUsedMiB: gpu.MemoryUsedMiB, MemoryTotalMiB: gpu.MemoryMiB, MemorySource: gpu.MemorySource,
			UtilizationPercent: gpu.UtilizationPercent, MIG: gpu.MIG, Health: gpu.Health})
	}
	return v
}
