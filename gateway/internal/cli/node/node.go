package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
)

// listFlags are those of node ls.
type listFlags struct {
	Filter      api.NodeFilter
	Idle, Watch bool
}

// nodeList prints page by page as the pages come, so that a list of any length needs the memory of one page. A filter that matches
// nothing is no error. Without a filter an empty list says how to get a node.
func nodeList(ctx context.Context, s *cli.Session, o listFlags) error {
	filter := o.Filter
	goal, err := wanted(s)
	filter.Status, filter.State = goal.status, goal.state
	switch {
	case err != nil:
		return err
	case o.Watch:
		return watch(ctx, s, filter, o.Idle)
	case o.Idle && s.Form != cli.FormJSON:
		return idleList(ctx, s, filter)
	}
	each, err := pages(ctx, s, filter, o.Idle)
	if err != nil {
		return err
	}
	if s.Form == cli.FormJSON {
		return nodeListJSON(s.Stdout, each)
	}
	var found map[string][]api.Finding
	if s.Form == cli.FormWide {
		found = findings(ctx, s, filter)
	}
	counts, err := nodeTable(s, each, found)
	if err != nil {
		return err
	}
	cost := ""
	if counts.all > 0 {
		cost = rentOf(ctx, s, filter)
	}
	fmt.Fprintln(s.Stdout, screen.Fold(counts.footer(cost), s.Screen(), "  "))
	counts.nameRuns(s.Stdout, s.Screen())
	if columns := s.Screen(); columns > 0 && s.Form != cli.FormWide {
		counts.explain(s.Stdout, columns)
	}
	if counts.all == 0 && filter.Selector != "" {
		s.Say(cli.NoneSelected)
	}
	if counts.all == 0 && filter == (api.NodeFilter{}) {
		fmt.Fprintln(s.Stderr, "muster token create prints the command that joins a machine; --all shows retired nodes too")
	}
	return nil
}

// eachPage calls use with every page of a list.
type eachPage func(use func(api.NodeRows) error) error

// pages are those of the list, without the nodes that are not idle where --idle is given.
func pages(ctx context.Context, s *cli.Session, filter api.NodeFilter, idle bool) (eachPage, error) {
	all := func(use func(api.NodeRows) error) error { return s.EachPage(ctx, filter, use) }
	if !idle {
		return all, nil
	}
	view, err := s.WholeFleet(ctx, api.FleetFilter{Selector: filter.Selector, Status: filter.Status, State: filter.State, Idle: true})
	ids := map[string]bool{}
	for i := range view.Nodes {
		ids[view.Nodes[i].ID] = true
	}
	return func(use func(api.NodeRows) error) error {
		return all(func(page api.NodeRows) error {
			page.Total = len(ids)
			page.Nodes = slices.DeleteFunc(page.Nodes, func(raw json.RawMessage) bool {
				n, err := api.ReadNode(raw)
				return err == nil && !ids[n.ID]
			})
			return use(page)
		})
	}, err
}

// findings are those of nodes, by node. Without an answer, such as just after the gateway's start, the list has what nodes say.
func findings(ctx context.Context, s *cli.Session, f api.NodeFilter) map[string][]api.Finding {
	view, _ := s.WholeFleet(ctx, api.FleetFilter{Selector: f.Selector, Status: f.Status, State: f.State, All: f.All, Unwell: true})
	found := map[string][]api.Finding{}
	for i := range view.Nodes {
		found[view.Nodes[i].ID] = view.Nodes[i].Findings
	}
	return found
}

func nodeTable(s *cli.Session, each eachPage, found map[string][]api.Finding) (tally, error) {
	var counts tally
	l := s.List(nodeColumns())
	err := each(func(page api.NodeRows) error {
		lines := make([][]string, 0, len(page.Nodes))
		for _, raw := range page.Nodes {
			n, err := api.ReadNode(raw)
			if err != nil {
				return err
			}
			v := viewOf(n, s.Now())
			v.addFindings(found[v.ID])
			counts.add(v)
			v.narrow = l.Limit() > 0 && l.Limit() < roomy
			lines = append(lines, v.row(s.Form == cli.FormWide))
		}
		return l.Write(lines)
	})
	return counts, err
}

// tally counts nodes by status, as the list shows it.
type tally struct {
	all, online, unheard, stale, pending, retired int

	unwell, old int      // rows that bear a mark
	runs        []string // what runs, as NAME on NODE
}

// add counts a retired node as retired alone: it has no status that anybody waits for.
func (t *tally) add(v view) {
	t.all++
	for _, r := range v.running() {
		t.runs = append(t.runs, screen.Printable(r.Name)+" on "+screen.Printable(v.Name))
	}
	if v.unwell() {
		t.unwell++
	}
	if v.old() {
		t.old++
	}
	switch {
	case v.State == wire.StateRetired:
		t.retired++
	case v.Unheard:
		t.unheard++
	case v.Status == wire.StatusOnline:
		t.online++
	case v.Status == wire.StatusStale:
		t.stale++
	case v.Status == wire.StatusPending:
		t.pending++
	}
}

// rentOf says what the nodes of a list cost, on all its pages.
func rentOf(ctx context.Context, s *cli.Session, f api.NodeFilter) string {
	totals := api.FleetFilter{Selector: f.Selector, Status: f.Status, State: f.State, All: f.All}
	view, err := cli.Get[api.FleetView](ctx, s, api.PathFleet, totals)
	if err != nil { // such as just after its start: the list is right without it
		return "the cost is not known"
	}
	return view.Totals.Rent.Text()
}

// footer counts the nodes, and says what they cost unless that is empty.
func (t tally) footer(cost string) string {
	text := fmt.Sprintf("%s: %d online", screen.Plural(t.all, "node"), t.online)
	if t.unheard > 0 {
		text += fmt.Sprintf(", %d %s", t.unheard, api.StatusUnheard)
	}
	text += fmt.Sprintf(", %d stale", t.stale)
	if t.pending > 0 {
		text += fmt.Sprintf(", %d pending", t.pending)
	}
	if t.retired > 0 {
		text += fmt.Sprintf(", %d retired", t.retired)
	}
	if cost != "" {
		text += " · " + cost
	}
	return text
}

// nameRuns names what runs.
func (t tally) nameRuns(w io.Writer, columns int) {
	if n := len(t.runs); n > 0 {
		const most = 5
		text := strings.Join(t.runs[:min(n, most)], ", ")
		if n > most {
			text += fmt.Sprintf(" and %d more: muster run ls", n-most)
		}
		screen.Pairs(w, columns, [][]string{{"runs", text}})
	}
}

// explain says what the marks in the list mean.
func (t tally) explain(w io.Writer, columns int) {
	if t.unwell > 0 {
		screen.Pairs(w, columns, [][]string{{markUnwell, "GPUs are ill or missing, or the probe fails: muster node show NAME"}})
	}
	if t.old > 0 {
		screen.Pairs(w, columns, [][]string{{markOld, "an old reading: the values are from that time"}})
	}
}

// nodeListJSON writes one object as the API has it. The nodes of all pages are in it, each written as it comes.
func nodeListJSON(w io.Writer, each eachPage) error {
	written := 0
	total := 0
	err := each(func(page api.NodeRows) error {
		for _, raw := range page.Nodes {
			before := ",\n"
			if written == 0 {
				before = "{\"nodes\":[\n"
			}
			written++
			if _, err := fmt.Fprintf(w, "%s%s", before, screen.PrintableJSON(raw)); err != nil {
				return err
			}
		}
		total = page.Total
		return nil
	})
	if err != nil {
		return err
	}
	if written == 0 {
		_, err = fmt.Fprintf(w, "{\"nodes\":[],\"next\":\"\",\"total\":%d}\n", total)
		return err
	}
	_, err = fmt.Fprintf(w, "\n],\"next\":\"\",\"total\":%d}\n", total)
	return err
}

// nodeShow goes on with the other nodes where one cannot be shown, and fails in the end.
func nodeShow(ctx context.Context, s *cli.Session) error {
	nodes, _, err := s.Targets(ctx, s.Words)
	if err != nil {
		return err
	}
	return cli.ShowTargets(ctx, s, api.PathNode, nodes, func(raw client.Raw[api.NodeDetail]) { // a newer gateway may say more
		d := raw.Read
		v := viewOf(d.Node, s.Now())
		v.show(s.Stdout, s.Screen(), slices.Concat(v.findingRows(d), v.placementRows(ctx, s), v.todayRows(d.Today), v.identityRows(d)))
	})
}
