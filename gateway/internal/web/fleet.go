package web

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/gateway/internal/glance"
	"muster/gateway/internal/picture"
)

const (
	rowsOfPage = 200  // that the server draws; with JavaScript all nodes are there
	mostRows   = 2000 // that a person can have without it, in an order where no next page is
)

// fleetAsk is what the URL asks for.
type fleetAsk struct {
	Selector, Status, State string
	Idle, Unwell, All       bool

	Sort  string // one of glance.Sorts, maybe with a minus; empty: by name
	Group string // groupTenant, groupProvider, or a label after groupLabel; empty: none
	Heat  bool   // the map of all GPUs instead of the table
	By    string // what its colours say
	rows  int
}

// Ways to group nodes.
const (
	groupTenant   = "tenant"
	groupProvider = "provider"
	groupLabel    = "label:"
)

type fleetPage struct {
	Ask    fleetAsk
	Total  int // that match
	Whole  int // that match the selector alone
	Tiles  []picture.Tile
	Chips  []chip
	Heads  []head
	Groups []group
	Sorts  []string
	Keys   []pair // of the ways to group: value and text
	Scales []chip // of the heat map
	Switch string // URL of the other view
	More   string // URL of what comes after; empty: nothing
	First  string // URL of the beginning; empty: this is it
}

// group is some rows below one another. Without grouping there is one, which has no name.
type group struct {
	Name string
	Rows []picture.Row
}

// pickRow is a row that can be selected, or cannot.
type pickRow struct {
	Write bool
	Row   picture.Row
}

// chip is a filter that one click sets or takes away.
type chip struct {
	Name string
	Set  string // name=value of the query
	URL  string
	On   bool
	N    int // how many it picks; -1: not said
}

// head is the head of a column.
type head struct {
	Name  string
	Class string // of its cells
	Sort  string // empty: nothing is sorted by it
	URL   string
	Aria  string // ascending or descending; empty: the rows are not sorted by it
}

func (v *visit) showFleet() (page, error) {
	ask := v.fleetAsk()
	data := fleetPage{Ask: ask, Sorts: glance.Sorts(), Heads: v.heads(ask), Scales: v.scales(ask)}
	data.Switch = v.with("view", "heat", "cursor", "")
	if ask.Heat {
		data.Switch = v.with("view", "")
	}
	shown := page{name: "fleet", title: "Fleet", section: "fleet"}
	err := v.fillFleet(&data)
	shown.data = data
	if refusedBy(err, wire.CodeUnavailable) {
		v.w.Header().Set("Refresh", "2") // the gateway has just started, and reads its nodes
	}
	if err != nil && (ask.Selector == "" || forbidden(err)) {
		return page{}, err
	}
	if err != nil {
		status, answer := v.Info.Answer(err)
		shown.status = status
		shown.failure = v.failure("filter", err, answer)
	}
	return shown, nil
}

func (v *visit) fleetAsk() fleetAsk {
	set := func(name string) bool { return v.asked(name) != "" }
	ask := fleetAsk{Selector: v.asked("selector"), Status: v.asked("status"), State: v.asked("state"), Idle: set("idle"),
		Unwell: set("unwell"), All: set("all"), Sort: v.asked("sort"), Group: v.asked("group"), Heat: v.asked("view") == "heat"}
	ask.By = cmp.Or(v.asked("by"), picture.ByUtilization)
	rows, err := strconv.Atoi(v.asked("rows"))
	if err != nil || rows < rowsOfPage {
		rows = rowsOfPage
	}
	ask.rows = min(rows, mostRows)
	return ask
}

// fillFleet asks the API for the page, and where a filter narrows it, for how many nodes each filter would pick.
func (v *visit) fillFleet(data *fleetPage) error {
	ask := data.Ask
	f := client.FleetFilter{Selector: ask.Selector, Status: ask.Status, State: ask.State, Idle: ask.Idle, Unwell: ask.Unwell, All: ask.All,
		Sort: ask.Sort, Limit: ask.rows, Cursor: v.asked("cursor")}
	list, err := v.api.Fleet(v.r.Context(), f)
	if err != nil {
		return err
	}
	whole := list
	if ask.Status != "" || ask.State != "" || ask.Idle || ask.Unwell {
		whole, err = v.api.Fleet(v.r.Context(), client.FleetFilter{Selector: ask.Selector, All: ask.All})
	}
	if err != nil {
		return err
	}
	data.Total = list.Totals.Nodes
	data.Whole = whole.Totals.Nodes
	data.Tiles = picture.TilesOf(list.Totals)
	data.Chips = v.chips(ask, whole.Totals)
	data.Groups = groupsOf(list.Nodes, ask)
	data.Keys = groupKeys(list.Nodes, ask.Group)
	switch {
	case list.Next != "":
		data.More = v.with("cursor", list.Next)
	case len(list.Nodes) < data.Total && f.Cursor == "" && ask.rows < mostRows:
		data.More = v.with("rows", strconv.Itoa(ask.rows+rowsOfPage))
	}
	if f.Cursor != "" {
		data.First = v.with("cursor", "")
	}
	return nil
}

// chips are the filters that a person wants most. With JavaScript they work without loading the page again.
func (v *visit) chips(ask fleetAsk, all glance.Totals) []chip {
	unwell := 0
	for _, n := range all.Findings {
		unwell += n
	}
	list := []chip{
		{Name: "Online", Set: "status=" + wire.StatusOnline, On: ask.Status == wire.StatusOnline, N: all.Statuses[wire.StatusOnline]},
		{Name: "Stale", Set: "status=" + wire.StatusStale, On: ask.Status == wire.StatusStale, N: all.Statuses[wire.StatusStale]},
		{Name: "Unavailable", Set: "state=" + wire.StateUnavailable, On: ask.State == wire.StateUnavailable,
			N: all.States[wire.StateUnavailable]},
		{Name: "Idle", Set: "idle=true", On: ask.Idle, N: -1},
		{Name: "Findings", Set: "unwell=true", On: ask.Unwell, N: unwell},
	}
	return v.toggles(list)
}

// toggles gives each chip the URL that sets it, or takes it away again.
func (v *visit) toggles(list []chip) []chip {
	for i, c := range list {
		name, value, _ := strings.Cut(c.Set, "=")
		if c.On {
			value = ""
		}
		list[i].URL = v.with(name, value, "cursor", "", "rows", "")
	}
	return list
}

func (v *visit) scales(ask fleetAsk) []chip {
	var list []chip
	for _, p := range []pair{{picture.ByUtilization, "Utilisation"}, {picture.ByMemory, "Memory"}, {picture.ByTemperature, "Temperature"}} {
		list = append(list, chip{Name: p.Value, Set: "by=" + p.Name, URL: v.with("by", p.Name), On: ask.By == p.Name, N: -1})
	}
	return list
}

// Legend says what the steps of the heat map mean.
func (a fleetAsk) Legend() []string { return picture.Legend(a.By) }

// fleetModules are what the page's script imports: the browser asks for them all at once.
func fleetModules() []string {
	return []string{"fleetrow.js", "fleetorder.js", "fleetlive.js", "fleettable.js", "fleetheat.js"}
}

// heads are the columns of the table. A click on the one by which the rows are sorted turns the order round.
func (v *visit) heads(ask fleetAsk) []head {
	list := []head{{Name: "Name", Class: "name", Sort: glance.SortName}, {Name: "Status", Class: "status", Sort: glance.SortStatus},
		{Name: "State", Class: "state", Sort: glance.SortState}, {Name: "Tenant", Class: "tenant", Sort: glance.SortTenant},
		{Name: "Provider", Class: "provider"}, {Name: "GPUs", Class: "gpus", Sort: glance.SortGPUs},
		{Name: "Utilisation", Class: "use", Sort: glance.SortUtilization}, {Name: "Memory", Class: "mem", Sort: glance.SortMemory},
		{Name: "Temp.", Class: "temp", Sort: glance.SortTemperature}, {Name: "Power", Class: "power", Sort: glance.SortPower},
		{Name: "Worst finding", Class: "worst", Sort: glance.SortFindings}, {Name: "Seen", Class: "seen", Sort: glance.SortSeen}}
	sort := cmp.Or(ask.Sort, glance.SortName)
	for i, h := range list {
		next := h.Sort
		if sort == h.Sort {
			next = "-" + h.Sort
		}
		list[i].URL = v.with("sort", next, "cursor", "")
		if strings.TrimPrefix(sort, "-") == h.Sort {
			list[i].Aria = ariaSort(sort)
		}
	}
	return list
}

// ariaSort says the order in the words of ARIA: texts begin with the first, values with the highest.
func ariaSort(sort string) string {
	by, turned := strings.CutPrefix(sort, "-")
	text := by == glance.SortName || by == glance.SortTenant || by == glance.SortState || by == glance.SortStatus
	if text != turned {
		return "ascending"
	}
	return "descending"
}

// groupsOf puts the rows below the names of their groups. Rows stay in their order within one.
func groupsOf(nodes []glance.Node, ask fleetAsk) []group {
	var all []group
	at := map[string]int{}
	for i := range nodes {
		name := groupOf(&nodes[i], ask.Group)
		where, ok := at[name]
		if !ok {
			where = len(all)
			at[name] = where
			all = append(all, group{Name: name})
		}
		all[where].Rows = append(all[where].Rows, picture.RowOf(&nodes[i], ask.By))
	}
	slices.SortStableFunc(all, func(a, b group) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func groupOf(n *glance.Node, by string) string {
	switch by {
	case "":
		return ""
	case groupTenant:
		return n.Tenant
	case groupProvider:
		return picture.Dash(n.Provider)
	}
	return picture.Dash(n.Labels[strings.TrimPrefix(by, groupLabel)])
}

// groupKeys are the ways to group these nodes.
func groupKeys(nodes []glance.Node, asked string) []pair {
	labels := map[string]bool{}
	for i := range nodes {
		for key := range nodes[i].Labels {
			labels[key] = true
		}
	}
	if key, ok := strings.CutPrefix(asked, groupLabel); ok {
		labels[key] = true
	}
	keys := []pair{{groupTenant, groupTenant}, {groupProvider, groupProvider}}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		keys = append(keys, pair{groupLabel + key, "label " + key})
	}
	return keys
}
