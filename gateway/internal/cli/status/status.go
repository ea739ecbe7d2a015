package status

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/paste"
)

// shownTroubles is how many fit on a screen of 24 lines, with two lines each.
const shownTroubles = 6

func status(ctx context.Context, s *cli.Session) error {
	gateway, err := cli.Get[api.Gateway](ctx, s, api.PathGateway, nil)
	if err != nil {
		return err
	}
	r := api.StatusReport{Gateway: gateway, Unread: []api.Unread{}}
	view, err := part[api.FleetView](ctx, s, &r, "fleet", api.PathFleet, api.FleetFilter{})
	if view != nil {
		r.Fleet = &view.Totals
	}
	if err == nil {
		err = wrong(ctx, s, &r)
	}
	if err != nil {
		return err
	}
	if s.Form == cli.FormJSON {
		return s.WriteJSON(r)
	}
	show(s, r)
	return nil
}

// part reads a part of the report. If the gateway refuses it, the report says so, and goes on without it. The error is about the way to the
// gateway.
func part[T any](ctx context.Context, s *cli.Session, r *api.StatusReport, name, path string, filter any) (*T, error) {
	got, err := cli.Get[T](ctx, s, path, filter)
	var refused *wire.ErrorDetail
	switch {
	case err == nil:
		return &got, nil
	case errors.As(err, &refused):
		r.Unread = append(r.Unread, api.Unread{Part: name, Why: refused.Message})
		return nil, nil
	}
	return nil, err
}

// wrong finds what is worst about each node, and the alerts about no single one.
func wrong(ctx context.Context, s *cli.Session, r *api.StatusReport) error {
	alerts, err := part[api.AlertList](ctx, s, r, "alerts", api.PathAlerts, api.AlertFilter{})
	if err != nil {
		return err
	}
	findings, err := part[api.FindingList](ctx, s, r, "findings", api.PathFindings, api.FindingFilter{})
	if err != nil {
		return err
	}
	var all []api.Trouble
	if findings != nil {
		quiet := silencedBy(alerts)
		for _, f := range findings.Findings {
			if quiet(f) {
				continue
			}
			all = append(all, api.Trouble{Severity: f.Severity, Cause: f.Rule, Node: f.Node, NodeID: f.NodeID, Text: f.Text, Next: f.Next,
				Since: f.Since, Command: nodeCommand(f.Node)})
		}
	}
	if alerts != nil {
		for _, a := range alerts.Alerts {
			if a.Silence != nil {
				r.Silenced++
				continue
			}
			all = append(all, troubleOf(a))
		}
	}
	all = worst(all)
	byCost(ctx, s, all)
	r.WrongTotal = len(all)
	for _, t := range all {
		if t.Severity == api.SeveritySevere {
			r.Severe++
		}
	}
	r.Wrong = all[:min(len(all), api.MostTroubles)]
	return nil
}

// silencedBy tells of a finding whether its alert is silenced: one of its own, or else the one that sums up.
func silencedBy(alerts *api.AlertList) func(api.NodeFinding) bool {
	type told struct{ node, cause string }
	silenced := map[told]bool{} // of each alert that is open
	if alerts != nil {
		for _, a := range alerts.Alerts {
			silenced[told{a.NodeID, a.Cause}] = a.Silence != nil
		}
	}
	sums := map[string]string{api.SeveritySevere: condition.FindingSevere, api.SeverityWarn: condition.NodeWarning}
	return func(f api.NodeFinding) bool {
		if quiet, own := silenced[told{f.NodeID, f.Rule}]; own {
			return quiet
		}
		return silenced[told{f.NodeID, sums[f.Severity]}]
	}
}

func troubleOf(a api.Alert) api.Trouble {
	t := api.Trouble{Severity: a.Severity, Cause: a.Cause, Node: a.Node, NodeID: a.NodeID, Alert: a.ID, Text: a.Text, Next: a.Next,
		Since: a.Since, Command: "muster alert show " + paste.Quote(a.ID)}
	if a.Node != "" {
		t.Command = nodeCommand(a.Node)
	}
	return t
}

func nodeCommand(name string) string { return "muster node show " + paste.Quote(name) }

// byCost orders what is wrong: the severe first, of these the dearest node, then the oldest. Without the prices the rest of the order
// stays.
func byCost(ctx context.Context, s *cli.Session, all []api.Trouble) {
	prices := map[string]*float64{}
	if slices.ContainsFunc(all, func(t api.Trouble) bool { return t.NodeID != "" }) {
		if view, err := s.WholeFleet(ctx, api.FleetFilter{Unwell: true}); err == nil {
			for i := range view.Nodes {
				prices[view.Nodes[i].ID] = view.Nodes[i].PricePerHour
			}
		}
	}
	for i := range all {
		all[i].PricePerHour = prices[all[i].NodeID]
	}
	slices.SortStableFunc(all, func(a, b api.Trouble) int {
		return cmp.Or(cmp.Compare(api.SeverityRank(b.Severity), api.SeverityRank(a.Severity)), cmp.Compare(price(b), price(a)),
			a.Since.Compare(b.Since), cmp.Compare(a.Node, b.Node))
	})
}

// worst leaves one trouble of each node, the severest. A finding says more than the alert about it.
func worst(all []api.Trouble) []api.Trouble {
	slices.SortStableFunc(all, func(a, b api.Trouble) int {
		return cmp.Or(cmp.Compare(api.SeverityRank(b.Severity), api.SeverityRank(a.Severity)), cmp.Compare(told(a), told(b)),
			a.Since.Compare(b.Since), cmp.Compare(a.Node, b.Node))
	})
	each := []api.Trouble{}
	at := map[string]int{}
	for _, t := range all {
		subject := cmp.Or(t.NodeID, t.Alert)
		if i, there := at[subject]; there {
			each[i].Alert = cmp.Or(each[i].Alert, t.Alert)
			continue
		}
		at[subject] = len(each)
		each = append(each, t)
	}
	return each
}

// price is less than any for a trouble whose node has none.
func price(t api.Trouble) float64 {
	if t.PricePerHour == nil {
		return -1
	}
	return *t.PricePerHour
}

// told is 1 for what an alert tells.
func told(t api.Trouble) int { return min(len(t.Alert), 1) }

// show prints the report on one screen.
func show(s *cli.Session, r api.StatusReport) {
	columns := s.Screen()
	now := s.Now()
	if !r.Gateway.At.IsZero() {
		now = r.Gateway.At // the ages are of its clock
	}
	rows := [][]string{{"gateway", gatewayText(now, r.Gateway)}}
	if t := r.Fleet; t != nil {
		rows = append(rows, []string{"fleet", fleetText(*t)}, []string{"GPUs", gpuText(*t)}, []string{"cost", costText(*t)})
	}
	rows = append(rows, []string{"wrong", wrongText(r)})
	for _, u := range r.Unread {
		rows = append(rows, []string{u.Part, "not shown: " + u.Why})
	}
	var out bytes.Buffer
	screen.Pairs(&out, columns, rows)
	for i, t := range r.Wrong[:min(len(r.Wrong), shownTroubles)] {
		if i == 0 {
			out.WriteString("\n")
		}
		text := fmt.Sprintf("%-6s  %s, since %s", t.Severity, trouble(t), screen.Age(now.Sub(t.Since)))
		if columns > 0 {
			text = screen.Cut(text, columns)
		}
		out.WriteString(text + "\n        " + t.Command + "\n")
	}
	fmt.Fprint(s.Stdout, s.PastedText(out.String()))
}

// trouble names the node, where the text does not.
func trouble(t api.Trouble) string {
	text := strings.TrimSuffix(t.Text, ".")
	if t.Node == "" || strings.Contains(text, t.Node) {
		return screen.Printable(text)
	}
	return screen.Printable(t.Node + ": " + text)
}

func gatewayText(now time.Time, g api.Gateway) string {
	words := []string{screen.OrUnknown(g.URL), "muster " + screen.OrUnknown(g.Version)}
	if !g.StartedAt.IsZero() {
		words = append(words, "up "+screen.Age(now.Sub(g.StartedAt)))
	}
	switch {
	case g.Ready == nil:
		words = append(words, "ready or not: not known")
	case *g.Ready:
		words = append(words, "ready")
	default:
		words = append(words, "NOT ready: its database takes no writes (muster doctor)")
	}
	return strings.Join(words, ", ")
}

func fleetText(t api.Totals) string {
	if t.Nodes == 0 {
		return "no node: muster token create prints the command that joins a machine"
	}
	return screen.Plural(t.Nodes, "node") + ": " + counts(t.StatusTexts()) + "; " + counts(t.States)
}

// counts says how many there are of each word, of most first.
func counts(by map[string]int) string {
	words := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })
	said := make([]string, len(words))
	for i, word := range words {
		said[i] = fmt.Sprintf("%d %s", by[word], screen.Printable(word))
	}
	return strings.Join(said, ", ")
}

func gpuText(t api.Totals) string {
	unread := ""
	if t.GPUsUnknown > 0 {
		unread = "; " + screen.Plural(t.GPUsUnknown, "node") + " without a reading"
	}
	if t.GPUsSeen == 0 && t.GPUsExpected == 0 {
		return "none are seen" + unread
	}
	text := strconv.Itoa(t.GPUsSeen)
	if t.GPUsExpected > t.GPUsSeen {
		text += fmt.Sprintf(" of %d", t.GPUsExpected)
	}
	text += fmt.Sprintf(": %d busy, %d idle", t.GPUsBusy, t.GPUsIdle)
	if t.GPUsQuiet > 0 {
		text += fmt.Sprintf(", %d quiet", t.GPUsQuiet)
	}
	if n := t.GPUsSeen - t.GPUsBusy - t.GPUsIdle - t.GPUsQuiet; n > 0 {
		text += fmt.Sprintf(", %d not known", n)
	}
	return text + unread
}

func costText(t api.Totals) string {
	if t.Nodes == 0 {
		return "nothing: there is no node"
	}
	return cmp.Or(t.Rent.Text(), "not known: no node has a price (muster node label NAME price_per_hour=1.99)")
}

func wrongText(r api.StatusReport) string {
	if r.WrongTotal == 0 {
		text := "nothing is found"
		if len(r.Unread) > 0 {
			text = "nothing in what was read"
		}
		return text + silencedText(r) + staleText(r)
	}
	text := fmt.Sprintf("%d, severe: %d%s%s", r.WrongTotal, r.Severe, silencedText(r), staleText(r))
	if left := r.WrongTotal - shownTroubles; left > 0 {
		text += fmt.Sprintf("; %d more: muster health ls, muster alert ls", left)
	}
	return text
}

// staleText counts the nodes that are silent, where no alert tells of them yet.
func staleText(r api.StatusReport) string {
	told := r.Silenced > 0 || slices.ContainsFunc(r.Wrong, func(t api.Trouble) bool { return t.Cause == condition.NodeStale })
	if told || r.Fleet == nil || r.Fleet.Statuses[wire.StatusStale] == 0 {
		return ""
	}
	return fmt.Sprintf("; %s: muster ls --status stale, muster help stale-node", screen.Plural(r.Fleet.Statuses[wire.StatusStale],
		"stale node"))
}

func silencedText(r api.StatusReport) string {
	if r.Silenced == 0 {
		return ""
	}
	return fmt.Sprintf(", silenced: %d", r.Silenced)
}
