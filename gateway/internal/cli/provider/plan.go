package provider

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// plan shows what is wrong between the fleet and the companies, what it costs, and the commands that settle it.
func plan(ctx context.Context, s *cli.Session) error {
	return cli.Show(ctx, s, http.MethodGet, api.PathProviderPlan, ofTenant{s.Flags.Text("tenant")}, func(p providers.Plan) {
		now := s.Now()
		if len(p.Providers) == 0 {
			fmt.Fprint(s.Stdout, s.PastedText("There is no account. muster provider add KIND --key-file FILE adds one; muster help providers"))
			return
		}
		if len(p.Findings) > 0 {
			listFindings(s, p.Findings, now)
		}
		fmt.Fprintln(s.Stdout, planSum(p))
		for _, one := range p.Providers {
			fmt.Fprintln(s.Stdout, screen.Fold("  "+screen.Printable(accountLine(one, now)), s.Screen(), "    "))
		}
		settle(s, p.Findings)
	})
}

// listFindings prints a table. On a screen, what a finding says stands below its row, so that all of it can be read.
func listFindings(s *cli.Session, findings []providers.Finding, now time.Time) {
	columns := findingColumns()
	rows := cli.Rows(findings, func(f providers.Finding) []string { return findingRow(f, now) })
	if s.Screen() == 0 || s.Form != cli.FormTable {
		_ = s.List(columns).Write(rows)
		return
	}
	what := slices.IndexFunc(columns, func(c screen.Column) bool { return c.Name == "WHAT" })
	columns[what].Wide = true
	var table strings.Builder
	_ = screen.NewList(&table, false, s.Screen(), columns).Write(rows)
	for i, line := range strings.Split(strings.TrimSpace(table.String()), "\n") {
		fmt.Fprintln(s.Stdout, line)
		if i > 0 {
			fmt.Fprintln(s.Stdout, screen.Fold("  "+rows[i-1][what], s.Screen(), "  "))
		}
	}
}

func findingColumns() []screen.Column {
	return []screen.Column{{Name: "FINDING"}, {Name: "INSTANCE", Least: 12, Most: 40}, {Name: "NODE", Rank: 2, Least: 8, Most: 40},
		{Name: "SINCE", Rank: 3}, {Name: "A DAY"}, {Name: "WHAT", Rank: 1, Least: 20, Most: 80}, {Name: "SEVERITY", Wide: true},
		{Name: "TENANT", Most: 24, Wide: true}, {Name: "NEXT", Most: 80, Wide: true}}
}

func findingRow(f providers.Finding, now time.Time) []string {
	return []string{screen.OrUnknown(f.Kind), reference(f.Provider, f.Instance), screen.OrUnknown(f.Node), screen.Age(now.Sub(f.Since)),
		screen.Money(f.PerDay), screen.OrUnknown(f.Text), screen.OrUnknown(f.Severity), screen.OrUnknown(f.Tenant), screen.OrUnknown(f.Next)}
}

// reference names an instance as commands take it, or an account.
func reference(account, instance string) string {
	if instance == "" {
		return screen.OrUnknown(account)
	}
	return screen.Printable(account + "/" + instance)
}

// notYet is what no finding says.
const notYet = " A machine that has just begun to run has 15 minutes to join before it is told of."

// planSum counts the findings and their cost. What is not known is said, and is no zero.
func planSum(p providers.Plan) string {
	if len(p.Findings) == 0 {
		for _, one := range p.Providers {
			if !one.Known {
				return "Nothing is found, as far as the accounts were seen." + notYet
			}
		}
		return "Nothing is found." + notYet
	}
	unknown := 0
	for _, f := range p.Findings {
		if f.PerDay == nil {
			unknown++
		}
	}
	if unknown == len(p.Findings) {
		return screen.Plural(unknown, "finding") + ", whose cost is not known"
	}
	text := fmt.Sprintf("%s, %.2f a day", screen.Plural(len(p.Findings), "finding"), p.PerDay)
	if unknown > 0 {
		text += fmt.Sprintf("; of %d the cost is not known, or there is none", unknown)
	}
	return text
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
