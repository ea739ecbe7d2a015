package alert_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"muster/gateway/internal/health/alert"
)

// causeTable is the table of the causes as muster help alerts has it.
func causeTable() string {
	var out strings.Builder
	out.WriteString("| cause | severity | after | what it means | what to do |\n| --- | --- | --- | --- | --- |\n")
	for _, c := range alert.Causes() {
		after := "at once"
		if c.Hold > 0 {
			after = strings.TrimSuffix(c.Hold.String(), "0s")
			if c.Hold.Seconds() < 60 {
				after = c.Hold.String()
			}
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", c.Name, c.Severity, after, c.Meaning, c.Next)
	}
	return out.String()
}

// TestPage: the page says of each cause what the program does, and names each kind of receiver.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../cli/help/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), causeTable()) {
		t.Errorf("the page's table of causes should be:\n%s", causeTable())
	}
	for _, kind := range alert.Kinds() {
		if !strings.Contains(string(page), "--kind "+kind) {
			t.Errorf("the page does not show how to add a receiver of the kind %s", kind)
		}
	}
}
