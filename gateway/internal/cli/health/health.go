package health

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func healthList(ctx context.Context, s *cli.Session, f api.FindingFilter) error {
	return cli.Show(ctx, s, http.MethodGet, api.PathFindings, f, func(list api.FindingList) {
		columns := []screen.Column{{Name: "NODE", Least: 12, Most: 40}, {Name: "TENANT", Rank: 3, Least: 8, Most: 24}, {Name: "SEVERITY"},
			{Name: "RULE"}, {Name: "SINCE", Rank: 1}, {Name: "WHAT", Least: 24}, {Name: "NEXT", Wide: true}, {Name: "GPU", Wide: true}}
		rows := cli.Rows(list.Findings, func(f api.NodeFinding) []string {
			return []string{f.Node, f.Tenant, f.Severity, f.Rule, screen.Age(s.Now().Sub(f.Since)), what(f.Finding), f.Next, f.GPU}
		})
		_ = s.List(columns).Write(rows) // the session remembers what Stdout refused
		if left := list.Total - len(list.Findings); left > 0 {
			fmt.Fprintf(s.Stdout, "and %d more: select nodes with -l\n", left)
		}
		if list.Total == 0 {
			fmt.Fprintln(s.Stderr, "nothing is found; muster health rules lists what is looked for")
		}
	})
}

func what(f api.Finding) string {
	if f.Old {
		return "(old) " + screen.Printable(f.Text)
	}
	return screen.Printable(f.Text)
}

func healthRules(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "RULE"}, {Name: "SEVERITY"}, {Name: "LIMIT"}, {Name: "SETTINGS", Least: 8, Most: 60},
		{Name: "MEANING", Rank: 1, Least: 24}, {Name: "NEXT", Wide: true}}
	return cli.ShowList(ctx, s, api.PathHealthRules, nil, columns, func(l api.HealthRuleList) [][]string {
		return cli.Rows(l.Rules,
			ruleRow)
	})
}

func ruleRow(r api.HealthRule) []string {
	var settings []string
	for _, set := range r.Settings {
		settings = append(settings, setting(r, set))
	}
	return []string{r.Rule, r.Severity, limit(r.Limit, r.Unit), strings.Join(settings, "; "), r.Meaning, r.Next}
}

// setting is such as "off for tier=lab".
func setting(r api.HealthRule, set api.HealthSetting) string {
	text := "off"
	if !set.Off && set.Limit != nil {
		text = limit(set.Limit, r.Unit)
	}
	if !set.Off && set.For > 0 {
		text = strings.TrimPrefix(text+" over "+screen.Age(time.Duration(set.For)), "off ")
	}
	if set.Selector == "" {
		return text + " for all"
	}
	return text + " for " + set.Selector
}

func limit(value *float64, unit string) string {
	if value == nil {
		return screen.Unknown
	}
	return strings.TrimSpace(strconv.FormatFloat(*value, 'g', -1, 64) + " " + screen.Printable(unit))
}

func healthSet(ctx context.Context, s *cli.Session, q api.HealthRuleRequest) error {
	text := s.Flags.Text("limit")
	if (text == "" && q.For == 0) == !q.Off {
		return cli.Usagef("muster health set gpu_hot --limit 85, or muster health set gpu_hot --off",
			"give --limit, --for or both, or --off alone")
	}
	if text != "" {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return cli.Usagef("write a number such as 85", "--limit %q is no number", text)
		}
		q.Limit = &value
	}
	return cli.Show(ctx, s, http.MethodPut, api.At(api.PathHealthRule, s.Words[0]), q, func(r api.HealthRule) {
		s.Printf("%s: %s.\n", r.Rule, setting(r, api.HealthSetting{Selector: q.Selector, Off: q.Off, Limit: q.Limit, For: q.For}))
	})
}

func healthUnset(ctx context.Context, s *cli.Session, f api.FindingFilter) error {
	return s.Drop(ctx, api.At(api.PathHealthRule, s.Words[0]), f, "", s.Words[0]+": the setting is dropped.")
}
