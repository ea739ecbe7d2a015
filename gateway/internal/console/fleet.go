package console

import (
	"cmp"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
)

const (
	rowsOfPage = 100  // that the server draws; with JavaScript all nodes are there
	mostRows   = 2000 // that a person can have without it, in an order where no next page is
)

// fleetAsk is what the URL asks for.
type fleetAsk struct {
	Selector, Status, State string
	Idle, Unwell, All       bool

	Sort  string // one of api.Sorts, maybe with a minus
	Group string // tenant, provider, or a label behind label: ; empty: none
	Heat  bool   // the map of all GPUs instead of the table
	By    string // what its colours say
	rows  int
}

type fleetPage struct {
	Ask    fleetAsk
	Total  int // that match
	Whole  int // that match the selector alone
	Tiles  []picture.Tile
	Chips  []chip
	Heads  []head
	Groups []picture.Group
	Sorts  []string
	Keys   []picture.Choice // ways to group
	Scales []chip           // of the heat map
	Switch string           // URL of the other view
	More   string           // URL of what comes after; empty: nothing
	First  string           // URL of the beginning; empty: this is it
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
	data := fleetPage{Ask: ask, Sorts: api.Sorts(), Heads: v.heads(ask), Scales: v.scales(ask)}
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
		shown = v.fails(shown, "filter", err)
	}
	return shown, nil
}

func (v *visit) fleetAsk() fleetAsk {
	ask := fleetAsk{Selector: v.Asked("selector"), Status: v.Asked("status"), State: v.Asked("state"), Idle: v.Set("idle"),
		Unwell: v.Set("unwell"), All: v.Set("all"), Sort: cmp.Or(v.Asked("sort"), api.SortAttention), Group: v.Asked("group"),
		Heat: v.Chosen("view", "", "heat") != "",
		rows: v.Count("rows", rowsOfPage, mostRows)}
	ask.By = cmp.Or(v.Chosen("by", picture.ByUtilization, picture.ByMemory, picture.ByTemperature), picture.ByUtilization)
	if ask.Group != "" && !picture.CanGroup(ask.Group) {
		v.Ignore("group", "nodes are grouped by tenant, by provider, or by a label such as label:site")
		ask.Group = ""
	}
	return ask
}

// fillFleet asks the API for the page, and where a filter narrows it, for how many nodes each filter would pick.
func (v *visit) fillFleet(data *fleetPage) error {
	ask := data.Ask
	f := api.FleetFilter{Selector: ask.Selector, Status: ask.Status, State: ask.State, Idle: ask.Idle, Unwell: ask.Unwell, All: ask.All,
		Sort: ask.Sort, Limit: ask.rows, Cursor: v.Asked("cursor")}
	if f.Sort == api.SortName {
		f.Sort = "" // the API's own order, which alone has a next page
	}
	list, err := get[api.FleetView](v, api.PathFleet, f)
	if err != nil {
		return err
	}
	whole := list
	if ask.Status != "" || ask.State != "" || ask.Idle || ask.Unwell {
		whole, err = get[api.FleetView](v, api.PathFleet, api.FleetFilter{Selector: ask.Selector, All: ask.All})
	}
	if err != nil {
		return err
	}
	data.Total = list.Totals.Nodes
	data.Whole = whole.Totals.Nodes
	data.Tiles = picture.TilesOf(list.Totals)
	data.Chips = v.chips(ask, whole.Totals)
	data.Groups = picture.GroupsOf(list.Nodes, ask.Group, ask.By)
	data.Keys = picture.GroupKeys(list.Nodes, ask.Group)
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
func (v *visit) chips(ask fleetAsk, all api.Totals) []chip {
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
	list := []head{{Name: "Name", Class: "name", Sort: api.SortName}, {Name: "Status", Class: "status", Sort: api.SortStatus},
		{Name: "State", Class: "state", Sort: api.SortState}, {Name: "Tenant", Class: "tenant", Sort: api.SortTenant},
		{Name: "Provider", Class: "provider"}, {Name: "GPUs", Class: "gpus", Sort: api.SortGPUs},
		{Name: "Utilisation", Class: "use", Sort: api.SortUtilization}, {Name: "Memory", Class: "mem", Sort: api.SortMemory},
		{Name: "Temp.", Class: "temp", Sort: api.SortTemperature}, {Name: "Power", Class: "power", Sort: api.SortPower},
		{Name: "Worst finding", Class: "worst", Sort: api.SortFindings}, {Name: "Seen", Class: "seen", Sort: api.SortSeen}}
	for i, h := range list {
		next := h.Sort
		if ask.Sort == h.Sort {
			next = "-" + h.Sort
		}
		list[i].URL = v.with("sort", next, "cursor", "")
		if strings.TrimPrefix(ask.Sort, "-") == h.Sort {
			list[i].Aria = ariaSort(ask.Sort)
		}
	}
	return list
}

// ariaSort says the order in the words of ARIA: texts begin with the first, values with the highest.
func ariaSort(sort string) string {
	by, turned := strings.CutPrefix(sort, "-")
	text := by == api.SortName || by == api.SortTenant || by == api.SortState || by == api.SortStatus
	if text != turned {
		return "ascending"
	}
	return "descending"
}
