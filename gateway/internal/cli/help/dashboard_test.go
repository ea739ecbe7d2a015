package help_test

import (
	"encoding/json"
	"strings"
	"testing"

	"muster/gateway/internal/cli/help"
)

// TestLogsDashboard: the dashboard that a person copies from the page can be imported, as Grafana's schema has it
// (docs/sources/developers/kinds/core/dashboard/schema-reference.md), and all of its panels ask the Loki that is chosen in it.
func TestLogsDashboard(t *testing.T) {
	_, rest, _ := strings.Cut(help.Text("logs"), "```\n{\"title\"")
	text, _, _ := strings.Cut(rest, "```")
	type source struct{ Type, UID string }
	var d struct {
		Title, UID    string
		ID            *int
		SchemaVersion int
		GraphTooltip  *int
		Editable      *bool
		Templating    struct {
			List []struct {
				Name, Type string
				Datasource source
			}
		}
		Panels []struct {
			ID         int
			Title      string
			Datasource source
			Targets    []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal([]byte(`{"title"`+text), &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || len(d.UID) < 8 || d.ID != nil || d.SchemaVersion < 36 || d.GraphTooltip == nil || d.Editable == nil || len(d.Panels) != 2 {
		t.Errorf("%+v", d)
	}
	loki := source{"loki", "${loki}"}
	if v := d.Templating.List; len(v) != 2 || v[0].Name != "loki" || v[0].Type != "datasource" || v[1].Datasource != loki {
		t.Errorf("variables: %+v", v)
	}
	for i, p := range d.Panels {
		if p.ID != i+1 || p.Title == "" || p.Datasource != loki || len(p.Targets) != 1 || p.Targets[0].RefID == "" ||
			!strings.Contains(p.Targets[0].Expr, `{node=~"$node"}`) {
			t.Errorf("%+v", p)
		}
	}
}
