package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/api/providers"
	"muster/gateway/internal/health/condition"
	"muster/store/releases"
)

// TestDashboard: what Grafana needs to import it: a variable for the data source, which every panel uses, and places that do not overlap.
func TestDashboard(t *testing.T) {
	type source struct{ UID string }
	var d struct {
		ID            *int
		UID           string
		Title         string
		SchemaVersion int
		GraphTooltip  *int
		Editable      *bool
		Time          struct{ From, To string }
		Templating    struct{ List []struct{ Name, Type string } }
		Panels        []struct {
			ID         int
			Type       string
			Title      string
			Datasource source
			GridPos    struct{ X, Y, W, H int }
			Targets    []struct {
				Expr, RefID string
				Datasource  source
			}
		}
	}
	if err := json.Unmarshal([]byte(dashboard), &d); err != nil {
		t.Fatal(err)
	}
	// By Grafana's schema (docs/sources/developers/kinds/core/dashboard/schema-reference.md) schemaVersion is required, and in earlier
	// versions of it editable and graphTooltip too. An id would take the place of another dashboard, a uid has 8 to 40 characters.
	if d.ID != nil || len(d.UID) < 8 || len(d.UID) > 40 || d.Title == "" || d.SchemaVersion < 36 || d.GraphTooltip == nil ||
		d.Editable == nil ||
		d.Time.From == "" || d.Time.To == "" {
		t.Errorf("the dashboard's own fields: %+v", d)
	}
	if len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" || d.Templating.List[0].Name != "datasource" {
		t.Errorf("variables: %+v", d.Templating.List)
	}
	places := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if p.Type != "row" && (p.Datasource.UID != "${datasource}" || len(p.Targets) == 0) || ids[p.ID] {
			t.Errorf("panel %q: %+v", p.Title, p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" || target.Expr == "" || target.RefID == "" {
				t.Errorf("panel %q: %+v", p.Title, target)
			}
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if before := places[[2]int{x, y}]; before != "" || x >= 24 {
					t.Errorf("%q lies on %q, or beyond the edge", p.Title, before)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestRules: each rule has its tests for promtool, one in which it fires and one in which it must not; it says what to do; the words that
// it asks for are words of the gateway.
func TestRules(t *testing.T) {
	tests, err := os.ReadFile("testdata/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(alerts, -1)
	for _, name := range names {
		calm := "alertname: " + name[1] + ", exp_alerts: []"
		fires := "alertname: " + name[1] + "\n        exp_alerts:\n          - exp_labels:"
		if strings.Count(string(tests), calm) != 1 || strings.Count(string(tests), fires) != 1 {
			t.Errorf("%s is not tried both ways", name[1])
		}
	}
	unsaid := []string{condition.NodeWarning, condition.TokenMisuse, condition.LogShippingFailing,
		condition.GatewayAlone, condition.StoreNodeSilent, condition.AllocationEnding, providers.FoundBilledSilent, providers.FoundNeverEnrolled,
		providers.FoundDown, providers.FoundGone, providers.FoundStorage, providers.FoundEndsSoon, providers.FoundOutbid, providers.FoundPrice,
		providers.FoundUnknown, providers.FoundEnding, providers.FoundOverdue, machines.ToldSevere, machines.ToldWarning,
		machines.ToldUnseen} // no figure tells them
	for _, c := range condition.All() {
		isAsked := slices.ContainsFunc(names, func(name []string) bool {
			return strings.EqualFold(name[1], "muster"+strings.ReplaceAll(c.Name, "_", ""))
		})
		if c.IsTold() && isAsked == slices.Contains(unsaid, c.Name) {
			t.Errorf("%s: a rule is called so: %v", c.Name, isAsked)
		}
	}
	n := len(names)
	if n < 12 || strings.Count(alerts, "summary: ") != n || strings.Count(alerts, "description: ") != n ||
		strings.Count(alerts, "severity: w")+
			strings.Count(alerts, "severity: critical") != n {
		t.Errorf("%d rules, and not each has a summary, a description and a severity", n)
	}
	for word, named := range map[string]string{
		wire.StateDrained: "state=", wire.StateUnavailable: "state=", releases.Halted: "state=", wire.ReasonConflict: "reason=",
		wire.SeveritySevere: "severity=",
	} {
		if !strings.Contains(alerts, named+`"`+word+`"`) {
			t.Errorf("no rule asks for %s%q", named, word)
		}
	}
}
