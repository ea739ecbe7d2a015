package alert_test

import (
	"os"
	"strings"
	"testing"

	"muster/gateway/internal/health/alert"
)

// TestPage: the page shows how to add each kind of receiver.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../cli/help/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range alert.Kinds() {
		if !strings.Contains(string(page), "--kind "+kind) {
			t.Errorf("the page does not show how to add a receiver of the kind %s", kind)
		}
	}
}
