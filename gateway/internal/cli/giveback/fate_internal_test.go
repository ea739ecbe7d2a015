package giveback

import (
	"testing"

	"muster/gateway/internal/cli"
)

// TestLeft: what is charged and what was not begun is named, with the command for each.
func TestLeft(t *testing.T) {
	t.Parallel()
	named := func(name string, f fate) *fate {
		f.Target = cli.Target{Name: name}
		return &f
	}
	all := []*fate{named("a", fate{begun: true, bill: "v/1 (a)", machine: "v/1", asked: true}),
		named("b", fate{begun: true, bill: "v/2 (b)", machine: "v/2"}), named("c", fate{begun: true, bill: "vast_ai 3 (c)"}),
		named("d", fate{begun: true}), named("e", fate{}), named("f", fate{begun: true, bill: "v/6 (f)", asked: true, isOver: true})}
	const still = "still to be destroyed at the provider:\n  v/2 (b)\n  vast_ai 3 (c)\n" +
		"being destroyed, which goes on; muster lease ls shows how far it is:\n  v/1 (a)\n"
	const settles = "it is charged on until then: muster provider destroy v/2\n"
	g := &giveBack{flags: returnFlags{RemoveHome: true, Destroy: true}}
	if got := g.left(all, false); got != still+settles {
		t.Errorf("got\n%s", got)
	}
	const want = still + "not given back yet:\n  d\nnot begun:\n  e\n" + settles + "to go on: muster node return d e --remove-home --destroy\n"
	if got := g.left(all, true); got != want {
		t.Errorf("interrupted: got\n%s", got)
	}
	if got := g.left(all[5:], true); got != "" {
		t.Errorf("where all is done: %s", got)
	}
}
