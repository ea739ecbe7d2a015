package giveback

import (
	"cmp"
	"fmt"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/paste"
)

// fate is what has come of a node.
type fate struct {
	cli.Target
	begun   bool
	bill    string // what its company goes on charging, now that it is retired; empty: nothing, or it is not retired
	machine string // ACCOUNT/INSTANCE, if an account has it
	asked   bool   // the gateway is asked to destroy it, and goes on with that
	isOver  bool   // nothing is left to do
}

// bill notes what a company goes on charging for a node that is retired.
func (g *giveBack) bill(f *fate, node api.Node) {
	i, found := g.instanceOf(node)
	switch {
	case found:
		f.machine = i.Provider + "/" + i.ID
		f.bill = f.machine + " (" + node.Name + ")"
	case node.InstanceID != "":
		f.bill = screen.OrUnknown(node.Provider) + " " + node.InstanceID + " (" + node.Name + ")"
	case node.PricePerHour != nil:
		f.bill = fmt.Sprintf("%s, which costs %.4g an hour by its label", node.Name, *node.PricePerHour)
	}
	f.isOver = f.bill == ""
}

// left says what is not done, and how to go on. Of nodes that are not retired it says so only where the command was interrupted: else their
// trouble was told.
func (g *giveBack) left(all []*fate, interrupted bool) (text string) {
	var names, machines []string
	list := func(title string, which func(*fate) bool) {
		for _, f := range all {
			if f.isOver || !which(f) {
				continue
			}
			text, title = text+title+"  "+screen.Printable(cmp.Or(f.bill, f.Name))+"\n", ""
			switch {
			case f.bill == "":
				names = append(names, paste.Quote(f.Name))
			case f.machine != "" && !f.asked:
				machines = append(machines, f.machine)
			}
		}
	}
	list("still to be destroyed at the provider:\n", func(f *fate) bool { return f.bill != "" && !f.asked })
	list("being destroyed, which goes on; muster lease ls shows how far it is:\n", func(f *fate) bool { return f.asked })
	if interrupted {
		list("not given back yet:\n", func(f *fate) bool { return f.bill == "" && f.begun })
		list("not begun:\n", func(f *fate) bool { return !f.begun })
	}
	if len(machines) > 0 {
		text += "it is charged on until then: muster provider destroy " + strings.Join(machines, " ") + "\n"
	}
	if len(names) > 0 {
		text += "to go on: muster node return " + strings.Join(names, " ") + g.flags.text() + "\n"
	}
	return text
}

// text is how they are written.
func (f returnFlags) text() (text string) {
	for i, isGiven := range []bool{f.RemoveHome, f.Force, f.Destroy} {
		if isGiven {
			text += []string{" --remove-home", " --force", " --destroy"}[i]
		}
	}
	return text
}
