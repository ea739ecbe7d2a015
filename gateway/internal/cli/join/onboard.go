package join

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/paste"
)

// OnboardCommands returns the command that joins machines which a company runs, and which are not in the fleet.
func OnboardCommands() []cli.Command {
	return []cli.Command{{Name: "provider onboard", Args: "[ACCOUNT/INSTANCE...]", Most: -1, Run: cli.With(onboard),
		Flags: []string{"rewrite", "plan", "identity", "gateway", "timeout", "yes", "output"},
		Says: map[string]string{"plan": "join nothing, and show what would be joined, with the commands",
			"output": "table, wide or json; json shows what --plan shows"},
		Summary: "join machines that are paid for and not heard",
		Text: "These are the findings never_enrolled and billed_silent of muster provider plan: those that are named, or all that muster has " +
			"rented. It shows them, and asks. Then it goes onto each as muster push does, by the address that the company gives and by this " +
			"system's own ssh: your key must be there, and the machine's host key known. If that does not work, it prints the command for " +
			"doing it by hand.\n\nWith --rewrite, a machine that ssh does not get onto starts again at its company with a new start script, " +
			"and the command waits until it is heard. What is on its disk is lost: --plan says what, of each. The same command again goes on " +
			"waiting. A machine whose node reports or is in use is left alone, and so is one that another gateway has rented.",
		Examples: []string{"muster provider onboard --plan", "muster provider onboard",
			"muster provider onboard vast_ai/39467543 -i ~/.ssh/vast", "muster provider onboard vast_ai/39467543 --rewrite --plan"}}}
}

const running = "running" // a state of instances, in the gateway's words

// newcomer is a machine to join.
type newcomer struct {
	Instance string   `json:"instance"` // ACCOUNT/INSTANCE
	Finding  string   `json:"finding"`
	Node     string   `json:"node"` // that it was; empty: none
	SSH      string   `json:"ssh"`  // empty: the company gives no address that can be used
	PerDay   *float64 `json:"cost_per_day"`
	Command  string   `json:"command"`       // that joins it by hand
	Costs    string   `json:"rewrite_costs"` // what it loses with --rewrite; empty: its company cannot do that

	box     box
	path    string // of its instance in the API
	isAsked bool   // to start again, already
	isAway  bool   // ssh did not get onto it
}

func onboard(ctx context.Context, s *cli.Session, o struct{ Plan, Rewrite bool }) error {
	all, others, err := newcomers(ctx, s)
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(all)
	case len(all)+len(others) == 0:
		s.Printf("Every machine that runs is in the fleet, and heard. muster provider plan shows what else there is.\n")
		return nil
	}
	if len(all) > 0 {
		showNewcomers(s, all)
	}
	if len(others) > 0 {
		s.Printf("%s not rented by muster, and left alone unless named:\n  %s\n", screen.Plural(len(others), "machine"),
			paste.Line(append([]string{"muster", "provider", "onboard"}, others...)...))
	}
	reached, started, rest := ways(all, o.Rewrite)
	byHand(s, "These have no address for ssh. On each, run what its command prints:", rest, !o.Rewrite)
	if o.Plan {
		byHand(s, "What would be done:", reached, !o.Rewrite)
		showCosts(s, all, o.Rewrite)
		return nil
	}
	if len(reached)+len(started) == 0 {
		return cli.ErrReported
	}
	if err := agree(s, reached, started, o.Rewrite); err != nil {
		return err
	}
	failed, err := overSSH(ctx, s, reached)
	if err != nil {
		return err
	}
	var left []newcomer
	for _, n := range failed {
		if o.Rewrite && n.Costs != "" && n.isAway {
			started = append(started, n)
		} else {
			left = append(left, n)
		}
	}
	byHand(s, "By hand, where it did not work:", left, !o.Rewrite)
	if err := rewrite(ctx, s, started); err != nil || len(left) == 0 {
		return err
	}
	return cli.ErrReported
}

// ways divides machines into those with an address for ssh, those that their company can start again, and the rest.
func ways(all []newcomer, isRewritten bool) (reached, started, rest []newcomer) {
	for _, n := range all {
		switch {
		case n.isAsked, n.SSH == "" && isRewritten && n.Costs != "":
			started = append(started, n)
		case n.SSH != "":
			reached = append(reached, n)
		default:
			rest = append(rest, n)
		}
	}
	return reached, started, rest
}

// agree asks a person, with what may be lost. What was agreed to before is not asked again.
func agree(s *cli.Session, reached, started []newcomer, isRewritten bool) error {
	var deeds, costs []string
	if len(reached) > 0 {
		deeds = append(deeds, "join "+screen.Plural(len(reached), "machine")+" over ssh")
	}
	if !isRewritten {
		reached = nil
	}
	count := 0
	for _, n := range slices.Concat(reached, started) {
		if n.Costs == "" || n.isAsked {
			continue
		}
		count++
		if !slices.Contains(costs, n.Costs) {
			costs = append(costs, n.Costs)
		}
	}
	if count > 0 {
		deeds = append(deeds, "have up to "+screen.Plural(count, "machine")+" start again with a new start script ("+
			strings.Join(costs, "; ")+")")
	}
	if len(deeds) == 0 {
		return nil
	}
	deed := strings.Join(deeds, ", else ")
	return s.Agree(deed, deed)
}

// overSSH joins machines as push does, and returns those that did not join.
func overSSH(ctx context.Context, s *cli.Session, all []newcomer) (failed []newcomer, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	var targets []box
	for _, n := range all {
		targets = append(targets, n.box)
	}
	p, err := newPush(ctx, s, targets)
	if err != nil {
		return nil, err
	}
	results := p.run(ctx)
	if err := p.summary(ctx, results); ctx.Err() != nil {
		return nil, err
	}
	for i, err := range results {
		if err != nil {
			all[i].isAway = errors.As(err, new(*unreached))
			failed = append(failed, all[i])
		}
	}
	return failed, nil
}

// newcomers are the machines that run, are paid for and are not heard: those that the words name, or those that muster has rented; others
// are the rest of them then. One that is named and was asked to start again before counts too.
func newcomers(ctx context.Context, s *cli.Session) (all []newcomer, others []string, err error) {
	plan, err := cli.Get[providers.Plan](ctx, s, api.PathProviderPlan, nil)
	if err != nil {
		return nil, nil, err
	}
	missing := slices.Clone(s.Words)
	all = []newcomer{}
	for _, f := range plan.Findings {
		if f.Kind != providers.FoundNeverEnrolled && f.Kind != providers.FoundBilledSilent || f.Instance == "" {
			continue
		}
		name := f.Provider + "/" + f.Instance
		isMeant := func(word string) bool { return word == name || word == f.Node }
		if len(s.Words) > 0 && !slices.ContainsFunc(s.Words, isMeant) {
			continue
		}
		missing = slices.DeleteFunc(missing, isMeant)
		i, err := cli.Get[providers.Instance](ctx, s, api.At(api.PathInstance, f.Provider, f.Instance), nil)
		switch {
		case err != nil:
			return nil, nil, err
		case len(s.Words) == 0 && (i.State != running || i.Status == wire.StateRetired):
			continue // it cannot be joined, or was given back: it is to be destroyed
		case len(s.Words) == 0 && i.Rental == "":
			others = append(others, name)
			continue
		}
		all = append(all, newcomerOf(f, i))
	}
	for _, word := range missing {
		n, err := begun(ctx, s, word)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, n)
	}
	return all, others, nil
}

// begun is a machine that is nothing to find, since it starts again.
func begun(ctx context.Context, s *cli.Session, word string) (newcomer, error) {
	no := cli.Hinted(fmt.Sprintf("%s is no machine that is paid for and not heard", word), "muster provider plan shows those that there are")
	account, id, isWhole, err := cli.Instance(word)
	switch {
	case err != nil:
		return newcomer{}, err
	case !isWhole:
		return newcomer{}, no
	}
	i, err := cli.Get[providers.Instance](ctx, s, api.At(api.PathInstance, account, id), nil)
	switch {
	case err == nil && i.Foreign:
		err = cli.Hinted(word+" was rented by another gateway, which may use it", "that gateway joins or ends it; where it is no more, "+
			"muster push joins the machine over ssh, and muster provider destroy "+word+" ends it")
	case err == nil && !isAsked(i):
		err = no
	}
	return newcomerOf(providers.Finding{Provider: account, Instance: id, Node: i.Node}, i), err
}

// newcomerOf reads the address that a company gives. One that ssh could take for something else is none.
func newcomerOf(f providers.Finding, i providers.Instance) newcomer {
	n := newcomer{Instance: f.Provider + "/" + f.Instance, Finding: f.Kind, Node: f.Node, PerDay: f.PerDay, Costs: i.RejoinCosts,
		path: api.At(api.PathInstance, f.Provider, f.Instance), isAsked: isAsked(i)}
	b, why := parseHost(i.SSH)
	b.text, b.name, b.tenant, b.gpus = n.Instance, f.Node, i.Tenant, i.GPUs
	b.join = []string{"--provider", i.Kind, "--instance-id", i.ID}
	line := []string{"muster", "token", "create"}
	if why == "" {
		n.SSH, n.box = i.SSH, b
		line = append([]string{"muster", "push", i.SSH}, b.join...)
	}
	for _, flag := range [][2]string{{"--tenant", i.Tenant}, {"--name", f.Node}} {
		if flag[1] != "" {
			line = append(line, flag[0], flag[1])
		}
	}
	if i.GPUs > 0 {
		line = append(line, "--gpus", strconv.Itoa(i.GPUs))
	}
	n.Command = paste.Line(line...)
	return n
}

func showNewcomers(s *cli.Session, all []newcomer) {
	columns := []screen.Column{{Name: "INSTANCE", Least: 40, Most: 40}, {Name: "FINDING", Rank: 1}, // the whole id can be copied
		{Name: "NODE", Rank: 2, Least: 8, Most: 40}, {Name: "SSH", Rank: 3, Least: 12, Most: 50}, {Name: "A DAY"}}
	_ = s.List(columns).Write(cli.Rows(all, func(n newcomer) []string {
		return []string{n.Instance, n.Finding, n.Node, n.SSH, screen.Money(n.PerDay)}
	}))
}

// byHand prints the commands of machines under a line, and, where that is another way, the one that has its company start it again.
func byHand(s *cli.Session, line string, all []newcomer, isOther bool) {
	if len(all) == 0 {
		return
	}
	var text strings.Builder
	text.WriteString("\n" + line + "\n")
	for _, n := range all {
		text.WriteString("  " + n.Command + "\n")
		if isOther && n.Costs != "" {
			line := paste.Line("muster", "provider", "onboard", n.Instance, "--rewrite")
			fmt.Fprintf(&text, "  %s\n%s\n", line, screen.Fold("    # "+n.Costs, s.Screen(), "    # "))
		}
	}
	fmt.Fprint(s.Stdout, s.PastedText(text.String()))
}
