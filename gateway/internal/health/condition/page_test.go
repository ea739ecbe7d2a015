package condition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/cli/help"
	"muster/gateway/internal/health/condition"
)

// items are what the page of conditions has to say of each, one a line.
func items() string {
	var out strings.Builder
	for _, c := range condition.All() {
		facts := []string{c.Severity}
		if c.IsFound() {
			facts = append(facts, "found "+after(c.Found))
		}
		switch {
		case c.IsUnset():
			facts = append(facts, "limit yours, in "+c.Unit)
		case c.Unit != "":
			facts = append(facts, fmt.Sprintf("limit %g %s", c.Limit, c.Unit))
		}
		if c.IsTold() {
			facts = append(facts, "alert "+after(c.Told))
		}
		fmt.Fprintf(&out, "- `%s` (%s): %s %s\n", c.Name, strings.Join(facts, ", "), c.Meaning, c.Next)
	}
	return out.String()
}

func after(h condition.Hold) string {
	switch {
	case h.For == 0:
		return "at once"
	case h.For < time.Minute:
		return "after " + h.For.String()
	}
	return "after " + strings.TrimSuffix(h.For.String(), "0s")
}

// TestPage: the page says of each condition what the program does, in the order of the table.
func TestPage(t *testing.T) {
	words := strings.Join(strings.Fields(help.Text("conditions")), " ")
	if want := strings.Join(strings.Fields(items()), " "); !strings.Contains(words, want) {
		t.Errorf("the page's list of conditions should be:\n%s", items())
	}
}

// TestAlertsPage: the page of alerts names each condition that makes one, and no other.
func TestAlertsPage(t *testing.T) {
	page := help.Text("alerts")
	_, list, _ := strings.Cut(page, "\n## The causes\n")
	list, _, _ = strings.Cut(list, "\n## ")
	for _, c := range condition.All() {
		if named := strings.Contains(list, "`"+c.Name+"`"); named != c.IsTold() {
			t.Errorf("the page names %s: %v", c.Name, named)
		}
	}
}

// TestTable: each row can be read, opened and closed, and no name stands twice.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, c := range condition.All() {
		switch {
		case names[c.Name]:
			t.Errorf("%s stands twice", c.Name)
		case c.Meaning == "" || c.Next == "" || help.Text(c.Topic) == "":
			t.Errorf("%s lacks a word, or its page %q is not there", c.Name, c.Topic)
		case c.Severity != wire.SeverityWarn && c.Severity != wire.SeveritySevere:
			t.Errorf("%s has the severity %q", c.Name, c.Severity)
		case (c.Found.Looks > 0) != (c.Cured.Looks > 0) || (c.Told.Looks > 0) != (c.Over.Looks > 0):
			t.Errorf("%s opens and does not close", c.Name)
		case c.Word != isWord(c.Name):
			t.Errorf("%s: what a node says itself is %v", c.Name, c.Word)
		case c.Unit == "" && (c.Limit != 0 || c.Most != 0), c.Unit != "" && c.Most == 0, c.Limit > c.Most:
			t.Errorf("%s has a limit of %g, at most %g", c.Name, c.Limit, c.Most)
		}
		names[c.Name] = true
	}
	for _, reason := range []string{wire.ReasonConflict, wire.ReasonExpired, wire.ReasonSuspended, wire.CausePowerCable,
		wire.HealthGPUCountDropped, wire.HealthGPUFault, wire.HealthProbeFailed, wire.HealthProbeHung} {
		if !names[reason] {
			t.Errorf("a node's state may have the reason %s, which is in no row", reason)
		}
	}
	if condition.Named("gpu_sad") != nil {
		t.Error("there is a condition that is in no row")
	}
}

// isWord is true for the words of a heartbeat.
func isWord(name string) bool {
	return slices.Contains([]string{wire.HealthGPUCountDropped, wire.HealthGPUFault, wire.HealthProbeFailed, wire.HealthProbeHung}, name)
}
