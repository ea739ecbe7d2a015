package fleet

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// GPUCommands has the one that lists GPUs one by one, to find room.
func GPUCommands() []cli.Command {
	return []cli.Command{{
		Name: "gpu ls", Flags: []string{"selector", "status", "state", "tenant", "idle", "free-memory", "output"}, Run: list,
		Says:    map[string]string{"idle": "GPUs that are idle alone"},
		Summary: "list GPUs one by one, those with room first",
		Text: "First come GPUs that can take work now: their node is active and online, and the reading is of now. Among these the idle come " +
			"first, then those with the most free memory. A GPU is idle when utilisation, memory and power have said so for ten minutes; " +
			"what is not known never says idle. With --idle, TODAY is what the idle GPUs of the " +
			"whole node have cost on this day (UTC), as far as the gateway watched.\n\n" +
			"--free-memory leaves out GPUs that cannot take work now, and those with less free memory " +
			"or of which that is not known. -o json prints one object a line.",
		Examples: []string{"muster gpu ls --idle", "muster gpu ls --free-memory 40GiB -l tier=sovereign",
			"muster gpu ls --free-memory 40GiB -o json | head -1 | jq -r .node"},
	}}
}

// row is one GPU, with what is asked of its node.
type row struct {
	Node   string `json:"node"`
	NodeID string `json:"node_id"`
	Tenant string `json:"tenant"`
	State  string `json:"state"`
	Status string `json:"status"`
	Ready  bool   `json:"ready"` // its node can take work, and the reading is of now

	NodeIdleCostToday *float64 `json:"node_idle_cost_today"` // of all idle GPUs of its node; null: not known
	api.GPU
}

func list(ctx context.Context, s *cli.Session) error {
	var f api.FleetFilter
	if err := s.Flags.Into(&f); err != nil {
		return err
	}
	idle := f.Idle
	f.Idle = false // of its GPUs alone, and not of the whole node
	free, err := freeMemory(s)
	if err != nil {
		return err
	}
	view, err := s.WholeFleet(ctx, f)
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(rows(view.Nodes), func(r row) bool {
		return idle && r.IdleSince == nil || free > 0 && (!r.Ready || r.MemoryFreeMiB == nil || *r.MemoryFreeMiB < free)
	})
	slices.SortStableFunc(found, better)
	if s.Form == cli.FormJSON {
		return printJSON(s, found)
	}
	if err := s.List(gpuColumns(idle)).Write(cli.Rows(found, func(r row) []string { return r.cells(s.Now(), idle) })); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Stdout, "%s on %s\n", screen.Plural(len(found), "GPU"), screen.Plural(nodes(found), "node"))
	return err
}

func printJSON(s *cli.Session, found []row) error {
	for _, r := range found {
		if err := s.WriteJSON(r); err != nil {
			return err
		}
	}
	return nil
}

// freeMemory is what --free-memory asks for, in MiB; 0: nothing.
func freeMemory(s *cli.Session) (int64, error) {
	var o struct{ FreeMemory string }
	if err := s.Flags.Into(&o); err != nil || o.FreeMemory == "" {
		return 0, err
	}
	mib, err := parseMemory(o.FreeMemory)
	if err != nil {
		return 0, cli.Usagef("a size such as 40GiB or 500MiB", "%s has the value %q, which is no size", s.Flags.Source("free-memory"),
			o.FreeMemory)
	}
	return mib, nil
}

// parseMemory reads 40GiB, 0.5TiB or 500MiB into MiB, rounded up. The i may be left out, as nvidia-smi's own figures are in MiB.
func parseMemory(text string) (int64, error) {
	const most = 1 << 40
	number := strings.TrimRight(text, "BbIiKkMmGgTt ")
	scale := 0.0
	switch unit := strings.ToLower(strings.TrimSpace(text[len(number):])); unit {
	case "m", "mb", "mib":
		scale = 1
	case "g", "gb", "gib":
		scale = 1 << 10
	case "t", "tb", "tib":
		scale = 1 << 20
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || scale == 0 || !(n > 0 && n*scale < most) {
		return 0, fmt.Errorf("%q is no size", text)
	}
	return int64(math.Ceil(n * scale)), nil
}

// rows makes a row of each GPU.
func rows(nodes []api.NodeRow) []row {
	var found []row
	for i := range nodes {
		n := &nodes[i]
		ready := n.Fresh && n.State == wire.StateActive && n.Status == wire.StatusOnline
		for _, g := range n.GPUs {
			if !n.Fresh {
				g.IdleSince = nil
			}
			found = append(found, row{Node: n.Name, NodeID: n.ID, Tenant: n.Tenant, State: n.State, Status: n.Status,
				Ready: ready && len(g.Health) == 0, NodeIdleCostToday: idleToday(n), GPU: g})
		}
	}
	return found
}

func idleToday(n *api.NodeRow) *float64 {
	if n.Today == nil {
		return nil
	}
	return n.Today.KnownIdleCost()
}

func nodes(found []row) int {
	ids := map[string]bool{}
	for _, r := range found {
		ids[r.NodeID] = true
	}
	return len(ids)
}

// better orders rows: what can take work, what is idle, what has more room, what has less to do.
func better(a, b row) int {
	return cmp.Or(
		first(a.Ready, b.Ready), first(a.IdleSince != nil, b.IdleSince != nil), cmp.Compare(knownMiB(b.MemoryFreeMiB), knownMiB(a.MemoryFreeMiB)),
		cmp.Compare(atWork(a), atWork(b)), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index))
}

// first puts what is true first.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// knownMiB is a figure, or less than any if it is not known.
func knownMiB(mib *int64) int64 {
	if mib == nil {
		return -1
	}
	return *mib
}

// atWork is the utilisation, or more than any if it is not known.
func atWork(r row) float64 {
	if r.UtilizationPercent == nil {
		return math.Inf(1)
	}
	return *r.UtilizationPercent
}

// columns have a cost where idle GPUs alone are asked for.
func gpuColumns(idle bool) []screen.Column {
	all := []screen.Column{
		{Name: "NODE", Least: 16, Most: 40}, {Name: "GPU", Rank: 5}, {Name: "MODEL", Rank: 6, Least: 12, Most: 32}, {Name: "FREE"},
		{Name: "TOTAL", Rank: 4}, {Name: "UTIL", Rank: 1}, {Name: "POWER", Rank: 8}, {Name: "TEMP", Rank: 9}, {Name: "IDLE FOR", Rank: 2},
		{Name: "STATE", Rank: 3, Least: 11, Most: 12}, {Name: "STATUS", Rank: 7}, {Name: "TENANT", Wide: true, Most: 24},
		{Name: "UUID", Wide: true, Most: 48}, {Name: "HEALTH", Wide: true, Most: 40},
	}
	if idle {
		all = slices.Insert(all, costColumn, screen.Column{Name: "TODAY", Rank: 3})
	}
	return all
}

// costColumn is where the cost of idle GPUs stands: behind how long they are idle.
const costColumn = 9

// cells has a cell for each of columns, in their order.
func (r row) cells(now time.Time, withCost bool) []string {
	idle := screen.Unknown
	if r.IdleSince != nil {
		idle = screen.Age(now.Sub(*r.IdleSince))
	}
	all := []string{
		screen.OrUnknown(r.Node), strconv.Itoa(r.Index), screen.OrUnknown(strings.TrimPrefix(r.Name, "NVIDIA ")), memory(r.MemoryFreeMiB),
		memory(r.MemoryMiB), screen.Figure("%.0f%%", r.UtilizationPercent), screen.Figure("%.0f W", r.PowerWatts), screen.Figure("%.0f C", r.TemperatureCelsius), idle,
		screen.OrUnknown(r.State), screen.OrUnknown(r.Status), screen.OrUnknown(r.Tenant), screen.OrUnknown(r.UUID),
		screen.OrUnknown(strings.Join(r.Health, ", ")),
	}
	if withCost {
		all = slices.Insert(all, costColumn, screen.Money(r.NodeIdleCostToday))
	}
	return all
}

func memory(mib *int64) string {
	if mib == nil {
		return screen.Unknown
	}
	return fmt.Sprintf("%.1f GiB", float64(*mib)/1024)
}
