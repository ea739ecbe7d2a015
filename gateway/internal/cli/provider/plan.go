package provider

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// plan shows what is wrong between the fleet and the companies, what it costs, and the commands that settle it.
func plan(ctx context.Context, s *cli.Session) error {
	return cli.Show(ctx, s, http.MethodGet, api.PathProviderPlan, api.ListFilter{Tenant: s.Flags.Text("tenant")}, func(p providers.Plan) {
		now := s.Now()
		if len(p.Providers) == 0 {
			fmt.Fprint(s.Stdout, s.PastedText("There is no account. muster provider add KIND --key-file FILE adds one; muster help providers"))
			return
		}
		if len(p.Findings) > 0 {
			_ = s.List(findingColumns()).Write(cli.Rows(p.Findings, func(f providers.Finding) []string { return findingRow(f, now) }))
		}
		fmt.Fprintln(s.Stdout, planSum(p))
		for _, one := range p.Providers {
			fmt.Fprintln(s.Stdout, screen.Fold("  "+screen.Printable(accountLine(one, now)), s.Screen(), "    "))
		}
		leaving, waiting := leaving(p)
		notJudged(s, leaving, "is being given back", "are being given back")
		notJudged(s, waiting, "is not judged yet", "are not judged yet")
		notJudged(s, p.Foreign, "is another gateway's, and is not judged", "are another gateway's, and are not judged")
		settle(s, p.Findings)
	})
}

func findingColumns() []screen.Column {
	return []screen.Column{{Name: "FINDING"}, {Name: "INSTANCE", Least: longID, Most: longID}, {Name: "NODE", Rank: 2, Least: 8, Most: 40},
		{Name: "SINCE", Rank: 3}, {Name: "A DAY"}, {Name: "WHAT", Most: 80, Below: true}, {Name: "SEVERITY", Wide: true},
		{Name: "TENANT", Most: 24, Wide: true}, {Name: "NEXT", Most: 80, Wide: true}}
}

func findingRow(f providers.Finding, now time.Time) []string {
	return []string{f.Kind, reference(f.Provider, f.Instance), f.Node, screen.Age(now.Sub(f.Since)), screen.Money(f.PerDay), f.Text,
		f.Severity, f.Tenant, f.Next}
}

// reference names an instance as commands take it, or an account.
func reference(account, instance string) string {
	if instance == "" {
		return screen.OrUnknown(account)
	}
	return screen.Printable(account + "/" + instance)
}

// leaving are the machines of a plan that are being given back, and those that cannot be judged for another reason.
func leaving(p providers.Plan) (leaving, waiting []providers.Unjudged) {
	for _, u := range p.Unjudged {
		if u.Instance != "" {
			leaving = append(leaving, u)
		} else {
			waiting = append(waiting, u)
		}
	}
	return leaving, waiting
}

// planSum counts the findings, what is being given back, and their cost. What is not known is said, and is no zero.
func planSum(p providers.Plan) string {
	leaving, _ := leaving(p)
	if len(p.Findings)+len(leaving) == 0 {
		for _, one := range p.Providers {
			if !one.Known {
				return "Nothing is found, as far as the accounts were seen."
			}
		}
		return "Nothing is found."
	}
	unknown := 0
	for _, f := range p.Findings {
		if f.PerDay == nil {
			unknown++
		}
	}
	for _, u := range leaving {
		if u.PerDay == 0 {
			unknown++
		}
	}
	var parts []string
	if n := len(p.Findings); n > 0 {
		parts = append(parts, screen.Plural(n, "finding"))
	}
	if n := len(leaving); n > 0 {
		parts = append(parts, screen.Plural(n, "machine")+" being given back")
	}
	text := strings.Join(parts, " and ")
	if unknown == len(p.Findings)+len(leaving) {
		return text + ", whose cost is not known"
	}
	text += fmt.Sprintf(", %.2f a day", p.PerDay)
	if unknown > 0 {
		text += fmt.Sprintf("; of %d the cost is not known, or there is none", unknown)
	}
	return text
}

// notJudged says how many machines are neither well nor a finding, and why.
func notJudged(s *cli.Session, all []providers.Unjudged, one, many string) {
	sum := 0
	for _, u := range all {
		sum += u.Machines
	}
	switch sum {
	case 0:
		return
	case 1:
		fmt.Fprintln(s.Stdout, "1 machine "+one+":")
	default:
		fmt.Fprintf(s.Stdout, "%d machines %s:\n", sum, many)
	}
	for _, u := range all {
		line := fmt.Sprintf("  %d of %s: %s", u.Machines, screen.Printable(u.Provider), screen.Printable(u.Why))
		if u.Instance != "" {
			line = fmt.Sprintf("  %s: %s", reference(u.Provider, u.Instance), screen.Printable(u.Why))
		}
		fmt.Fprintln(s.Stdout, screen.Fold(line, s.Screen(), "    "))
	}
}

// accountLine says of when the picture of an account is.
func accountLine(p providers.Account, now time.Time) string {
	text := p.Name + ": " + seen(p)
	if p.SyncedAt != nil {
		text += ", seen " + screen.Ago(now, *p.SyncedAt)
	}
	if !p.Known && (p.SyncedAt != nil || p.FailedAt != nil) {
		text += "; " + state(p, now)
	}
	return text
}

// settle prints each next command once. What stands in one is foreign text: it is printed, and nobody runs it but a person.
func settle(s *cli.Session, findings []providers.Finding) {
	seen := map[string]bool{"": true}
	for _, f := range findings {
		if seen[f.Next] {
			continue
		}
		if len(seen) == 1 {
			fmt.Fprintln(s.Stdout, "\nWhat settles it:")
		}
		seen[f.Next] = true
		fmt.Fprint(s.Stdout, "  "+strings.TrimRight(s.PastedText(f.Next), "\n")+"\n")
	}
}
