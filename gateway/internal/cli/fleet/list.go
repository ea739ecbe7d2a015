package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// GPUCommands lists GPUs one by one, to find room, and says who has worked on them.
func GPUCommands() []cli.Command {
	return []cli.Command{{
		Name: "gpu ls", Args: "[NODE...]", Most: -1,
		Flags: []string{"selector", "status", "state", "tenant", "model", "idle", "free", "free-memory", "sort", "limit", "output"},
		Run:   cli.With(list),
		Says: map[string]string{"idle": "only idle GPUs", "sort": "price, memory, util or name",
			"limit": "at most so many, the first in the order"},
		Summary: "list GPUs one by one, those with room first",
		Text: "First come GPUs that can take work now: their node is active and online, and the reading is of now. Among these the idle come " +
			"first, then those with the most free memory. --sort has another order: price (the cheapest first), memory (the most free first), " +
			"util (the least first) or name. What is not known comes last.\n\n" +
			"USE says what a GPU does: free (it is idle and can take work now), idle (but it cannot take work now), quiet (idle for less than " +
			"ten minutes), busy (also if a program keeps it: muster run --gpus), or - if that is not known. OWNER says who has allocated it, " +
			"and for how long still (muster alloc ls). " +
			"A GPU is idle when utilisation, memory and power have said so for ten minutes; " +
			"what is not known never says idle.\n\n" +
			"PRICE is what an hour of one GPU costs: the node's label price_per_hour, divided by the number of its GPUs. A selector such as " +
			"price_per_hour<3 asks for the price of the whole node. With --idle, TODAY is " +
			"what the idle GPUs of the whole node have cost on this day (UTC), as far as the gateway watched.\n\n" +
			"--free shows only free GPUs. --free-memory leaves out GPUs that cannot take work now, and those with less free " +
			"memory. What is not known is left out too: the last line counts it. --model h100 shows the GPUs that have this in their name. " +
			"A selector with < or > needs quotes in a shell. -o json prints one object a line.",
		Examples: []string{"muster gpu ls --free --free-memory 40GiB --sort price --limit 2", "muster gpu ls --free --model h100 --sort price",
			"muster gpu ls --free -l 'price_per_hour<2,gpus>=4'", "muster gpu ls --free-memory 40GiB -l tier=sovereign",
			"muster gpu ls --free --sort price --limit 1 -o json | jq -r .node"},
	}, historyCommand()}
}

// row is one GPU, with what is asked of its node.
type row struct {
	Node    string `json:"node"`
	NodeID  string `json:"node_id"`
	Tenant  string `json:"tenant"`
	State   string `json:"state"`
	Status  string `json:"status"`
	Unheard bool   `json:"unheard"` // as that of its node
	Ready   bool   `json:"ready"`   // its node can take work, the reading is of now, it is not ill, and no program or allocation keeps it
	Free    bool   `json:"free"`    // and it is idle
	Run     string `json:"run"`     // the program that keeps it for itself; empty: none is known

	Hold *api.GPUHold `json:"hold"` // who has allocated it; null: nobody

	PricePerHour      *float64 `json:"price_per_hour"`       // of this GPU: its share of its node's price; null: not known
	NodePricePerHour  *float64 `json:"node_price_per_hour"`  // null: not known
	NodeIdleCostToday *float64 `json:"node_idle_cost_today"` // of all idle GPUs of its node; null: not known
	api.GPU

	status string // as people read it
	asked  bool   // its node is active and online: if more were known, it might be ready
}

func list(ctx context.Context, s *cli.Session, o listFlags) error {
	var f api.FleetFilter
	if err := s.Flags.Into(&f); err != nil {
		return err
	}
	f.Idle = false // of its GPUs alone, and not of the whole node
	w, err := wishOf(s, o)
	if err != nil {
		return err
	}
	w.nodes = s.Words
	view, err := s.WholeFleet(ctx, f)
	if err != nil {
		return err
	}
	if name := w.strange(view.Nodes); name != "" {
		return cli.Hinted(fmt.Sprintf("no node is called %q among those that are asked for", name), "muster ls shows the names")
	}
	found, left := w.pick(view.Nodes)
	shown := found
	if w.Limit > 0 {
		shown = found[:min(w.Limit, len(found))]
	}
	if s.Form == cli.FormJSON {
		if text := left.String(); text != "" {
			fmt.Fprintln(s.Stderr, text)
		}
		return printJSON(s, shown)
	}
	cells := func(r row) []string { return r.cells(s.Now(), w.Idle) }
	if err := s.List(gpuColumns(w.Idle, owned(shown))).Write(cli.Rows(shown, cells)); err != nil {
		return err
	}
	fmt.Fprintln(s.Stdout, footer(shown, len(found)))
	if len(view.Nodes) == 0 && f.Selector != "" {
		s.Say(cli.NoneSelected)
	}
	if text := left.String(); text != "" {
		fmt.Fprintln(s.Stdout, text)
	}
	if len(found) == 0 && w.Model != "" {
		if names := models(view.Nodes); !slices.ContainsFunc(names, w.named) {
			fmt.Fprintln(s.Stdout, "no GPU here has that name: "+screen.OrUnknown(strings.Join(names, ", ")))
		}
	}
	if len(found) == 0 && left.quiet > 0 {
		fmt.Fprint(s.Stdout, s.PastedText(nextQuiet))
	}
	return nil
}

// nextQuiet is the next step where all that may be free is quiet.
const nextQuiet = "muster gpus lists them as quiet; muster run NODE --gpus N -- PROGRAM takes them already"

func printJSON(s *cli.Session, shown []row) error {
	for _, r := range shown {
		if err := s.WriteJSON(r); err != nil {
			return err
		}
	}
	return nil
}

// footer counts what is shown, and says how many there are in all.
func footer(shown []row, all int) string {
	text := fmt.Sprintf("%s on %s", screen.Plural(len(shown), "GPU"), screen.Plural(nodes(shown), "node"))
	if len(shown) < all {
		text = fmt.Sprintf("%d of %s on %s", len(shown), screen.Plural(all, "GPU"), screen.Plural(nodes(shown), "node"))
	}
	counts := map[string]int{}
	for _, r := range shown {
		counts[r.use()]++
	}
	var words []string
	for _, use := range []string{useFree, api.UseIdle, api.UseQuiet, api.UseBusy, screen.Unknown} {
		switch n := counts[use]; {
		case n == 0:
		case use == screen.Unknown:
			words = append(words, fmt.Sprintf("%d not known", n))
		default:
			words = append(words, fmt.Sprintf("%d %s", n, use))
		}
	}
	if len(words) > 0 {
		text += ": " + strings.Join(words, ", ")
	}
	return text
}

// rows makes a row of each GPU.
func rows(nodes []api.NodeRow) []row {
	var found []row
	for i := range nodes {
		n := &nodes[i]
		asked := takesWork(n)
		for _, g := range n.GPUs {
			run := n.RunOn(g.UUID)
			hold := n.HeldBy(g.UUID)
			if !n.Fresh && run == "" {
				g.IdleSince = nil
				g.Use = ""
			}
			r := row{Node: n.Name, NodeID: n.ID, Tenant: n.Tenant, State: n.State, Status: n.Status, Unheard: n.Unheard,
				status: n.StatusText(), asked: asked && len(g.Health) == 0 && run == "" && hold == nil, Run: run, Hold: hold,
				PricePerHour:     n.GPUPricePerHour(),
				NodePricePerHour: n.PricePerHour, NodeIdleCostToday: idleToday(n), GPU: g}
			r.Ready = r.asked && n.Fresh
			r.Free = r.Ready && g.Use == api.UseIdle
			found = append(found, r)
		}
	}
	return found
}

// models are the names of the GPUs, each once.
func models(nodes []api.NodeRow) (names []string) {
	for i := range nodes {
		for _, g := range nodes[i].GPUs {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// useFree is the use of a GPU that is idle and can take work now.
const useFree = "free"

func (r *row) use() string {
	if r.Free {
		return useFree
	}
	return screen.OrUnknown(r.Use)
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

// owned tells whether somebody has allocated one of the GPUs.
func owned(shown []row) bool {
	return slices.ContainsFunc(shown, func(r row) bool { return r.Hold != nil })
}

// gpuColumns have a cost where idle GPUs alone are asked for, and the owner on every screen where there is one.
func gpuColumns(idle, owned bool) []screen.Column {
	all := []screen.Column{
		{Name: "NODE", Least: 16, Most: 40}, {Name: "GPU", Rank: 5}, {Name: "MODEL", Rank: 7, Least: 12, Most: 32}, {Name: "FREE"},
		{Name: "TOTAL", Rank: 4}, {Name: "UTIL", Rank: 6}, {Name: "USE"}, {Name: "PRICE", Rank: 1}, {Name: "POWER", Rank: 8},
		{Name: "TEMP", Rank: 9}, {Name: "IDLE FOR", Rank: 2},
		{Name: "STATE", Rank: 3, Least: 11, Most: 12}, {Name: "STATUS", Rank: 7}, {Name: "TENANT", Wide: true, Most: 24},
		{Name: "UUID", Wide: true, Most: 48}, {Name: "HEALTH", Wide: true, Most: 40}, {Name: "RUN", Wide: true, Most: 40},
		{Name: "OWNER", Wide: !owned, Rank: 6, Most: 32},
	}
	if idle {
		all = slices.Insert(all, costColumn, screen.Column{Name: "TODAY", Rank: 3})
	}
	return all
}

// costColumn is where the cost of idle GPUs stands: behind how long they are idle.
const costColumn = 11

// cells has a cell for each of columns, in their order.
func (r row) cells(now time.Time, withCost bool) []string {
	idle := screen.Unknown
	if r.IdleSince != nil {
		idle = screen.Age(now.Sub(*r.IdleSince))
	}
	all := []string{r.Node, strconv.Itoa(r.Index), screen.Model(r.Name), memory(r.MemoryFreeMiB), memory(r.MemoryMiB),
		screen.Figure("%.0f%%", r.UtilizationPercent), r.use(), screen.Price(r.PricePerHour), screen.Figure("%.0f W", r.PowerWatts),
		screen.Figure("%.0f C", r.TemperatureCelsius), idle, r.State, r.status, r.Tenant, r.UUID, strings.Join(r.Health, ", "), r.Run,
		r.owner(now)}
	if withCost {
		all = slices.Insert(all, costColumn, screen.Money(r.NodeIdleCostToday))
	}
	return all
}

// owner is who has allocated the GPU, and for how long still.
func (r row) owner(now time.Time) string {
	switch h := r.Hold; {
	case h == nil:
		return screen.Unknown
	case h.State != api.SlotAllocated:
		return screen.Printable(h.Owner) + " (" + h.State + ")"
	default:
		return screen.Printable(h.Owner) + " for " + screen.Age(h.EndsAt.Sub(now))
	}
}

func memory(mib *int64) string {
	if mib == nil {
		return screen.Unknown
	}
	return fmt.Sprintf("%.1f GiB", float64(*mib)/1024)
}
