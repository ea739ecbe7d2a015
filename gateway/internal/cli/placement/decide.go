package placement

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// decision is what approve and disable are called with.
type decision struct {
	Selector, Node, Shape, Reason, Keep string
	DryRun                              bool
}

func approve(ctx context.Context, s *cli.Session, o decision) error {
	if o.Keep != "" && o.Selector == "" {
		return cli.Usagef("add -l SELECTOR", "--keep makes a rule of a selector, and there is none")
	}
	if err := decide(ctx, s, o, false); err != nil || o.Keep == "" || o.DryRun {
		return err
	}
	rule, err := cli.Send[api.SlotRule](ctx, s, http.MethodPut, api.At(api.PathSlotRule, o.Keep),
		api.SlotRuleRequest{Selector: o.Selector, Shape: o.Shape})
	if err == nil {
		s.Say(fmt.Sprintf("The rule %s approves what these nodes propose from now on; muster slot rule-rm %s "+
			"ends it.", rule.Name, rule.Name))
	}
	return err
}

func disable(ctx context.Context, s *cli.Session, o decision) error { return decide(ctx, s, o, true) }

// decide approves or disables slots. Those that a selector or a node names are shown, and the person is asked.
func decide(ctx context.Context, s *cli.Session, o decision, disable bool) error {
	verb, done := "approve", "approved"
	if disable {
		verb, done = "disable", "disabled"
	}
	q := api.SlotDecision{Slots: s.Words, Selector: o.Selector, Node: o.Node, Shape: o.Shape, Disable: disable, Reason: o.Reason}
	switch named := len(q.Slots) > 0; {
	case named && q.Selector+q.Node != "":
		return cli.Usagef("leave one of them out", "slots are either named or selected")
	case !named && q.Selector+q.Node == "":
		return cli.Usagef("write muster slot "+verb+" SLOT..., -l SELECTOR or --node NAME; muster slot ls shows the slots",
			"muster slot %s: which slots?", verb)
	case !named || o.DryRun:
		plan := q
		plan.DryRun = true
		found, err := sendDecision(ctx, s, plan)
		switch {
		case err != nil:
			return err
		case o.DryRun:
			return showDecided(s, found, "to be "+done)
		case found.Changed == 0:
			return showDecided(s, found, done)
		}
		if err := agree(s, verb, found); err != nil {
			return err
		}
		q = api.SlotDecision{Slots: idsOf(found.Slots), Disable: disable, Reason: o.Reason} // what was shown, and nothing that came since
	}
	decided, err := sendDecision(ctx, s, q)
	if err != nil {
		return err
	}
	return showDecided(s, decided, done)
}

func sendDecision(ctx context.Context, s *cli.Session, q api.SlotDecision) (api.SlotsDecided, error) {
	return cli.Send[api.SlotsDecided](ctx, s, http.MethodPost, api.PathSlotsDecide, q)
}

func idsOf(slots []api.Slot) []string {
	ids := make([]string, 0, len(slots))
	for _, l := range slots {
		ids = append(ids, l.ID)
	}
	return ids
}

// mostShown is how many nodes a question names.
const mostShown = 10

func agree(s *cli.Session, verb string, found api.SlotsDecided) error {
	var nodes []string
	for _, l := range found.Slots {
		if !slices.Contains(nodes, l.Node) {
			nodes = append(nodes, l.Node)
		}
	}
	count := screen.Plural(found.Changed, "slot")
	text := strings.Join(nodes[:min(len(nodes), mostShown)], ", ")
	if len(nodes) > mostShown {
		text += ", ..."
	}
	fmt.Fprintf(s.Stderr, "%s of %s: %s\n", count, screen.Plural(len(nodes), "node"), screen.Printable(text))
	return s.Agree(verb+" "+count, verb+" "+count)
}

func showDecided(s *cli.Session, d api.SlotsDecided, done string) error {
	if s.Form == cli.FormJSON {
		return s.WriteJSON(d)
	}
	if err := s.List(slotColumns()).Write(cli.Rows(d.Slots, slotRow)); err != nil {
		return err
	}
	text := fmt.Sprintf("%s %s", screen.Plural(d.Changed, "slot"), done)
	if same := len(d.Slots) - d.Changed; same > 0 {
		text += fmt.Sprintf(", %d as before", same)
	}
	fmt.Fprintln(s.Stdout, text)
	return nil
}

func ruleList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "RULE", Least: 8}, {Name: "SELECTOR", Least: 12}, {Name: "SHAPE"}, {Name: "CREATED", Rank: 1},
		{Name: "BY", Rank: 2, Least: 8}}
	return cli.ShowList(ctx, s, api.PathSlotRules, nil, columns, func(l api.SlotRuleList) [][]string {
		return cli.Rows(l.Rules, func(r api.SlotRule) []string {
			return []string{r.Name, r.Selector, cmp.Or(r.Shape, "any"), screen.Ago(s.Now(), r.CreatedAt), r.CreatedBy}
		})
	})
}

func ruleRemove(ctx context.Context, s *cli.Session) error {
	name := s.Words[0]
	return s.Drop(ctx, api.At(api.PathSlotRule, name), nil, "remove the rule "+name, name+" approves no more. What it has approved stays so.")
}
