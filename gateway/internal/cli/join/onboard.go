package join

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/paste"
)

// OnboardCommands has the one that joins machines which a company runs, and which are not in the fleet.
func OnboardCommands() []cli.Command {
	return []cli.Command{{Name: "provider onboard", Args: "[ACCOUNT/INSTANCE...]", Most: -1, Run: cli.With(onboard),
		Flags: []string{"plan", "identity", "gateway", "timeout", "yes", "output"},
		Says: map[string]string{"plan": "join nothing, and show what would be joined, with the commands",
			"output": "table, wide or json; json shows what --plan shows"},
		Summary: "join machines over ssh that are paid for and not heard",
		Text: "These are the findings never_enrolled and billed_silent of muster provider plan: all of them, or those that are named. It shows " +
			"them, and asks. Then it goes onto each as muster push does, by the address that the company gives and by this system's own ssh: " +
			"your key must be there, and the machine's host key known. Where that does not work it prints the command for doing it by hand.",
		Examples: []string{"muster provider onboard --plan", "muster provider onboard",
			"muster provider onboard vast_ai/39467543 -i ~/.ssh/vast"}}}
}

const running = "running" // a state of instances, in the gateway's words

// newcomer is a machine to join.
type newcomer struct {
	Instance string   `json:"instance"` // ACCOUNT/INSTANCE
	Finding  string   `json:"finding"`
	Node     string   `json:"node"` // that it was; empty: none
	SSH      string   `json:"ssh"`  // empty: the company gives no address that can be used
	PerDay   *float64 `json:"cost_per_day"`
	Command  string   `json:"command"` // that joins it by hand

	box box
}

func onboard(ctx context.Context, s *cli.Session, o struct{ Plan bool }) error {
	all, err := newcomers(ctx, s)
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(all)
	case len(all) == 0:
		s.Printf("Every machine that runs is in the fleet, and heard. muster provider plan shows what else there is.\n")
		return nil
	}
	showNewcomers(s, all)
	reached := slices.DeleteFunc(slices.Clone(all), func(n newcomer) bool { return n.SSH == "" })
	byHand(s, "These have no address for ssh. On each, run what its command prints:", slices.DeleteFunc(slices.Clone(all),
		func(n newcomer) bool { return n.SSH != "" }))
	if o.Plan {
		byHand(s, "What would be done:", reached)
		return nil
	}
	if len(reached) == 0 {
		return cli.ErrReported
	}
	deed := "join " + screen.Plural(len(reached), "machine") + " over ssh"
	if err := s.Agree(deed, deed); err != nil {
		return err
	}
	var targets []box
	for _, n := range reached {
		targets = append(targets, n.box)
	}
	p, err := newPush(ctx, s, targets)
	if err != nil {
		return err
	}
	if err = p.run(ctx); err != nil && ctx.Err() == nil {
		byHand(s, "By hand, where it did not work:", reached)
	}
	return err
}

// newcomers are the machines that run, are paid for and are not heard, or those of them that the words name.
func newcomers(ctx context.Context, s *cli.Session) ([]newcomer, error) {
	plan, err := cli.Get[providers.Plan](ctx, s, api.PathProviderPlan, nil)
	if err != nil {
		return nil, err
	}
	missing := slices.Clone(s.Words)
	all := []newcomer{}
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
		if err != nil {
			return nil, err
		}
		if len(s.Words) == 0 && (i.State != running || i.Status == wire.StateRetired) {
			continue // it cannot be joined, or was given back: it is to be destroyed
		}
		all = append(all, newcomerOf(f, i))
	}
	if len(missing) > 0 {
		return nil, cli.Hinted(fmt.Sprintf("%s is no machine that is paid for and not heard", missing[0]),
			"muster provider plan shows those that there are")
	}
	return all, nil
}

// newcomerOf reads the address that a company gives. One that ssh could take for something else is none.
func newcomerOf(f providers.Finding, i providers.Instance) newcomer {
	n := newcomer{Instance: f.Provider + "/" + f.Instance, Finding: f.Kind, Node: f.Node, PerDay: f.PerDay}
	b, why := parseHost(i.SSH)
	b.text, b.name, b.tenant = n.Instance, f.Node, i.Tenant
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
	n.Command = paste.Line(line...)
	return n
}

func showNewcomers(s *cli.Session, all []newcomer) {
	columns := []screen.Column{{Name: "INSTANCE", Least: 12, Most: 40}, {Name: "FINDING", Rank: 1},
		{Name: "NODE", Rank: 2, Least: 8, Most: 40}, {Name: "SSH", Least: 12, Most: 50}, {Name: "A DAY"}}
	_ = s.List(columns).Write(cli.Rows(all, func(n newcomer) []string {
		return []string{screen.Printable(n.Instance), n.Finding, screen.OrUnknown(n.Node), screen.OrUnknown(n.SSH), screen.Money(n.PerDay)}
	}))
}

// byHand prints the commands of machines under a line.
func byHand(s *cli.Session, line string, all []newcomer) {
	if len(all) == 0 {
		return
	}
	var text strings.Builder
	text.WriteString("\n" + line + "\n")
	for _, n := range all {
		text.WriteString("  " + n.Command + "\n")
	}
	s.Printf("%s", text.String())
}
