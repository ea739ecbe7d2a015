package placement_test

import (
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
)

// TestNodeShow: a node is shown with its profile, what is missing, and its tags with what they follow from.
func TestNodeShow(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	node := api.NodeDetail{Node: api.Node{ID: "n-1", Name: "gpu-1", State: wire.StateActive}}
	g.On("GET", "nodes/gpu-1", node)
	at := g.Now.Add(-2 * time.Hour)
	well := evidence(&at, "ecc: unknown\x1b")
	old := evidence(&at)
	old.Current = false
	pending := evidence(&at)
	pending.Pending = "t1"
	never := evidence(nil)
	never.Profile = ""
	for name, c := range map[string]struct {
		answer      any
		says, never string
	}{
		"missing": {well, "  profile      container\n  evidence     of 2h ago\n  missing      ecc: unknown\\x1b\n" +
			"  tag          gpu-nvidia-h100, from 8 x PCI 10de:2330\n", "muster node check"},
		"another boot": {old, "of 2h ago, of another boot or for another profile: muster node check gpu-1\n", "missing"},
		"under way":    {pending, "  evidence     is looked for now, by task t1\n", "missing"},
		"never":        {never, "  profile      none\n  evidence     none: muster node check gpu-1\n", "missing"},
		"no right":     {&wire.ErrorDetail{Code: wire.CodeForbidden}, "  state        active\n", "profile"},
		"an older one": {&wire.ErrorDetail{Code: wire.CodeNotFound}, "  state        active\n", "profile"},
		"broken":       {&wire.ErrorDetail{Code: wire.CodeInternal}, "  profile      unknown\n", "evidence"},
	} {
		g.On("GET", "nodes/n-1/check", c.answer)
		code, out, errs := g.Muster("node", "show", "gpu-1")
		if code != 0 || !strings.Contains(out, c.says) || strings.Contains(out, c.never) {
			t.Errorf("%s: code %d\n%s%s", name, code, out, errs)
		}
	}
	node.State = wire.StateRetired
	g.On("GET", "nodes/gpu-1", node)
	g.Requests()
	if _, out, _ := g.Muster("node", "show", "gpu-1"); strings.Contains(out, "profile") || len(g.Requests()) != 1 {
		t.Errorf("a retired node is placed:\n%s", out)
	}
}
