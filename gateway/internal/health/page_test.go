package health_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"muster/gateway/internal/health"
)

// ruleTable is the table of the rules as muster help health has it.
func ruleTable() string {
	var out strings.Builder
	out.WriteString("| rule | severity | limit | what it means | what to do |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range health.Rules() {
		limit := "none"
		switch {
		case r.Unit != "" && r.Limit == 0:
			limit = "yours, in " + r.Unit
		case r.Unit != "":
			limit = fmt.Sprintf("%g %s", r.Limit, r.Unit)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", r.Name, r.Severity, limit, r.Meaning, r.Next)
	}
	return out.String()
}

// TestPage: the page says of each rule what the program does.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../cli/help/health.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), ruleTable()) {
		t.Errorf("the page's table of rules should be:\n%s", ruleTable())
	}
}
