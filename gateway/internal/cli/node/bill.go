package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func billCommand() cli.Command {
	return cli.Command{Name: "node bill", Args: "[NAME...]", Most: -1, Run: cli.With(nodeBill),
		Flags:   []string{"selector", "tenant", "since", "by", "output"},
		Says:    map[string]string{"output": "table or json"},
		Summary: "say what nodes have cost",
		Text: "Without names and without a selector, all nodes are meant. The time from when a node joined until it was given back, or " +
			"until now, times its price: of a day before this one (UTC) " +
			"the last one that the gateway has recorded, and of this day, or without a record, the label price_per_hour as it is now. So a " +
			"new price changes the bill of the whole day. Retired nodes count too. A node without a price is listed without a " +
			"cost. --since leaves out what was before. The provider's own bill may differ: it counts by its clock, and perhaps a machine " +
			"that is switched off.\n\nIDLE is the part of the cost that idle GPUs had, by their share of the node, as far as the gateway " +
			"watched them: -o json says for how long that was. It counts whole days (UTC).",
		Examples: []string{"muster node bill -l batch=7", "muster node bill gpu-1 gpu-2", "muster node bill -l provider=vast_ai --since 7d --by team",
			"muster node bill -l batch=7 -o json | jq '.cost'"}}
}

// bill is what nodes have cost, as JSON has it.
type bill struct {
	Since  *time.Time `json:"since"` // null: from the beginning
	Until  time.Time  `json:"until"`
	Nodes  []billLine `json:"nodes"`
	Groups []billSum  `json:"groups"` // by the value of a label, where one was named
	billSum
}

type billLine struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Tenant       string     `json:"tenant"`
	JoinedAt     *time.Time `json:"joined_at"`
	ReturnedAt   *time.Time `json:"returned_at"` // null: it is still there
	Hours        float64    `json:"hours"`
	PricePerHour *float64   `json:"price_per_hour"` // null: none, or none that can be read
	Cost         *float64   `json:"cost"`
	watched

	group string
}

// billSum sums nodes. Unpriced ones are not in the cost: where all are, it is null.
type billSum struct {
	Value    string   `json:"value,omitempty"` // of the label
	Count    int      `json:"count"`
	Unpriced int      `json:"unpriced"`
	Hours    float64  `json:"hours"`
	Cost     *float64 `json:"cost"`
	watched
}

// watched is what the gateway has seen. What it did not see is not in it.
type watched struct {
	WatchedHours float64  `json:"watched_hours"` // for which the GPUs were known
	IdleGPUHours float64  `json:"idle_gpu_hours"`
	IdleCost     *float64 `json:"idle_cost"` // null: no price, or never watched
}

func (w *watched) add(other watched) {
	w.WatchedHours += other.WatchedHours
	w.IdleGPUHours += other.IdleGPUHours
	api.Add(&w.IdleCost, other.IdleCost)
}

func (b *billSum) add(l billLine) {
	b.Count++
	b.Hours += l.Hours
	b.watched.add(l.watched)
	if l.Cost == nil {
		b.Unpriced++
	}
	api.Add(&b.Cost, l.Cost)
}

// groupOf is the value of a label, or of what selectors know by the same names.
func groupOf(n api.Node, by string) string {
	switch by {
	case "tenant":
		return n.Tenant
	case "provider":
		return n.Provider
	}
	return n.Labels[by]
}

type nodeBillFlags struct {
	Since                time.Duration
	By, Selector, Tenant string
}

func nodeBill(ctx context.Context, s *cli.Session, o nodeBillFlags) error {
	b := bill{Until: s.Now().UTC(), Nodes: []billLine{}, Groups: []billSum{}}
	if o.Since > 0 {
		from := b.Until.Add(-o.Since)
		b.Since = &from
	}
	if len(s.Words) > 0 && s.Flags.Given("selector") {
		return cli.Usagef("leave one of them out", "nodes are either named or selected")
	}
	records, err := recordsOf(ctx, s, o.Selector, b.Since)
	if err != nil {
		return err
	}
	missing := slices.Clone(s.Words)
	err = s.EachNode(ctx, api.NodeFilter{Selector: o.Selector, All: true}, func(n api.Node) error {
		isMeant := func(word string) bool { return word == n.Name || word == n.ID }
		if len(s.Words) > 0 && !slices.ContainsFunc(s.Words, isMeant) {
			return nil
		}
		missing = slices.DeleteFunc(missing, isMeant)
		if o.Tenant != "" && n.Tenant != o.Tenant {
			return nil
		}
		if l, counts := lineOf(n, records[n.ID], b.Since, b.Until); counts {
			l.group = groupOf(n, o.By)
			b.Nodes = append(b.Nodes, l)
			b.add(l)
		}
		return nil
	})
	if err == nil && len(missing) > 0 {
		err = cli.Hinted("there is no node "+missing[0], "muster node ls --all lists them")
	}
	if err != nil {
		return err
	}
	if b.Count == 0 {
		b.Cost = new(float64) // no node costs nothing, which is known
		b.IdleCost = new(float64)
	}
	if o.By != "" {
		b.Groups = groups(b.Nodes)
	}
	if s.Form == cli.FormJSON {
		return s.WriteJSON(b)
	}
	return b.show(s, o.By)
}

// recordsOf are what the gateway has seen of nodes, by their ids.
func recordsOf(ctx context.Context, s *cli.Session, selector string, since *time.Time) (map[string]api.NodeCost, error) {
	f := api.CostFilter{Selector: selector}
	if since != nil {
		f.Since = *since
	}
	list, err := cli.Get[api.CostList](ctx, s, api.PathCosts, f)
	records := make(map[string]api.NodeCost, len(list.Costs))
	for _, r := range list.Costs {
		records[r.NodeID] = r
	}
	return records, err
}

// lineOf is a node's part of a bill; false: it was not there in that time.
func lineOf(n api.Node, record api.NodeCost, since *time.Time, until time.Time) (billLine, bool) {
	if n.EnrolledAt == nil {
		return billLine{}, false
	}
	l := billLine{ID: n.ID, Name: n.Name, Tenant: n.Tenant, JoinedAt: n.EnrolledAt, ReturnedAt: n.RetiredAt}
	from, to := *n.EnrolledAt, until
	if n.RetiredAt != nil && n.RetiredAt.Before(to) {
		to = *n.RetiredAt
	}
	if since != nil && since.After(from) {
		from = *since
	}
	if !to.After(from) {
		return billLine{}, false
	}
	l.Hours = to.Sub(from).Hours()
	l.PricePerHour = n.PricePerHour
	l.Cost = costOf(from, to, until, record.Prices, n.PricePerHour)
	l.watched = watched{WatchedHours: hoursOf(record.WatchedSeconds), IdleGPUHours: hoursOf(record.IdleGPUSeconds)}
	if record.WatchedSeconds > 0 && l.Cost != nil {
		l.IdleCost = record.IdleCost
	}
	return l, true
}

func hoursOf(seconds int64) float64 { return (time.Duration(seconds) * time.Second).Hours() }

// costOf is the time from one moment to another, times the price of each day; nil: there was no price. The days of which the gateway has
// recorded none, and the present day, count by the price of now.
func costOf(from, to, until time.Time, recorded []api.PriceSince, now *float64) *float64 {
	today := until.UTC().Truncate(24 * time.Hour)
	prices := append([]api.PriceSince{{Since: from, PricePerHour: now}}, recorded...)
	prices = append(prices, api.PriceSince{Since: today, PricePerHour: now})
	var cost *float64
	for i, p := range prices {
		begin, end := from, to
		if p.Since.After(from) {
			begin = p.Since
		}
		if i+1 < len(prices) && prices[i+1].Since.Before(to) {
			end = prices[i+1].Since
		}
		price := cmp.Or(p.PricePerHour, now)
		if price == nil || !end.After(begin) {
			continue
		}
		part := end.Sub(begin).Hours() * *price
		api.Add(&cost, &part)
	}
	return cost
}

func groups(lines []billLine) []billSum {
	sums := map[string]*billSum{}
	for _, l := range lines {
		if sums[l.group] == nil {
			sums[l.group] = &billSum{Value: l.group}
		}
		sums[l.group].add(l)
	}
	all := make([]billSum, 0, len(sums))
	for _, value := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, *sums[value])
	}
	return all
}

func (b *bill) show(s *cli.Session, by string) error {
	var err error
	if by != "" {
		columns := []screen.Column{{Name: strings.ToUpper(screen.Printable(by)), Least: 8}, {Name: "NODES"}, {Name: "HOURS"}, {Name: "COST"},
			{Name: "IDLE", Rank: 1}}
		err = s.List(columns).Write(cli.Rows(b.Groups, func(g billSum) []string {
			return []string{g.Value, strconv.Itoa(g.Count), hours(g.Hours), screen.Money(g.Cost), screen.Money(g.IdleCost)}
		}))
	} else {
		columns := []screen.Column{{Name: "NAME", Least: 12, Most: 40}, {Name: "TENANT", Rank: 3, Least: 8, Most: 24}, {Name: "JOINED", Rank: 1},
			{Name: "RETURNED", Rank: 2}, {Name: "HOURS"}, {Name: "PRICE"}, {Name: "COST"}, {Name: "IDLE", Rank: 4}}
		err = s.List(columns).Write(cli.Rows(b.Nodes, billRow))
	}
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s, %s hours: %s", screen.Plural(b.Count, "node"), hours(b.Hours), screen.Money(b.Cost))
	if b.WatchedHours > 0 && b.IdleCost != nil {
		text += fmt.Sprintf(", of which idle GPUs %s (watched for %s hours)", money(*b.IdleCost), hours(b.WatchedHours))
	}
	if b.Unpriced > 0 {
		text += fmt.Sprintf("; %d without a price: muster node label NAME price_per_hour=1.99", b.Unpriced)
	}
	fmt.Fprintln(s.Stdout, text)
	return nil
}

func billRow(l billLine) []string {
	price := screen.Unknown
	if l.PricePerHour != nil {
		price = fmt.Sprintf("%.4g", *l.PricePerHour)
	}
	return []string{l.Name, l.Tenant, screen.Stamp(l.JoinedAt), screen.Stamp(l.ReturnedAt), hours(l.Hours), price, screen.Money(l.Cost),
		screen.Money(l.IdleCost)}
}

func hours(h float64) string { return fmt.Sprintf("%.1f", h) }

func money(m float64) string { return fmt.Sprintf("%.2f", m) }
