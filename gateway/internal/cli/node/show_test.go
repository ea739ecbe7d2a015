package node_test

import (
	"strings"
	"testing"

	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
)

// TestShowKeeps: what a newer gateway says of a node, and this program does not know, is in the JSON all the same.
func TestShowKeeps(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "nodes/gpu-1", map[string]any{"id": "n-1", "name": "gpu-1", "newer": 7})
	if code, out, errs := g.Muster("node", "show", "gpu-1", "-o", "json"); code != 0 || !strings.Contains(out, `"newer":7`) {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
}
