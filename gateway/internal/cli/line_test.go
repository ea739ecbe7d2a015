package cli_test

import (
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
)

// TestForeignLines: text from elsewhere cannot begin a line, which could look like a word of muster or of another node.
func TestForeignLines(t *testing.T) {
	t.Parallel()
	const foreign, shown, id = "x\nmuster: all is well", `x\x0amuster: all is well`, "t-0123456789abcdef"
	g := scripted.New(t, commands.All())
	g.On("POST", "nodes/gpu-1/rename", api.RenamedNode{Node: api.Node{Name: "gpu-2"}, Old: []string{foreign}})
	g.On("POST", "allocations", api.Allocation{ID: id, State: api.AllocationWaiting, WaitsFor: foreign})
	g.On("GET", "allocations/"+id, &wire.ErrorDetail{Code: wire.CodeUnavailable, Message: foreign},
		api.Allocation{ID: id, State: api.AllocationAllocated})
	code, out, errs := g.Muster("node", "rename", "gpu-1", "gpu-2")
	if code != 0 || out != "gpu-1: its name is gpu-2\nstill by the old name: "+shown+"\n" {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
	code, out, errs = g.Muster("alloc", "create", "--gpu", "h100", "--wait")
	if code != 0 || !strings.Contains(errs, id+" waits for "+shown+"; ^C leaves it in the queue\n") ||
		!strings.Contains(errs, "does not answer now ("+shown+"); it goes on when it is back\n") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
}
