package run_test

import (
	"strings"
	"testing"

	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
)

// TestListRefused: a gateway that has no list of nodes is told of as it is, and not as a node that is missing.
func TestListRefused(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	code, _, errs := g.Muster("run", "ls")
	if code != 1 || !strings.Contains(errs, "there is no nodes") || strings.Contains(errs, "is a program") {
		t.Errorf("code %d, %s", code, errs)
	}
}
