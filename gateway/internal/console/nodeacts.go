package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/form"
)

// Verbs of a node, as the paths of their forms have them.
const (
	doDrain   = "drain"
	doResume  = "resume"
	doRetire  = "retire"
	doBan     = "ban"
	doRecover = "allow-recovery"
	doLabels  = "labels"
	doGPUs    = "gpus"
	doCheck   = "check"
)

// act is a button of the page.
type act struct{ Verb, Name string }

// actsOf are what can be done in the node's state. The API decides; this leaves out what it would refuse.
func actsOf(n *api.NodeDetail) []act {
	if n.State == wire.StateRetired {
		return nil
	}
	var all []act
	has := func(word string) bool { return slices.Contains(n.StateReasons, word) }
	switch {
	case n.State == wire.StateActive:
		all = append(all, act{doDrain, "Drain"})
	case n.State == wire.StateDrained, n.State == wire.StateUnavailable && has(wire.ReasonSuspended):
		all = append(all, act{doResume, "Resume"})
	}
	if n.Status == wire.StatusStale || has(wire.ReasonConflict) || has(wire.ReasonExpired) {
		all = append(all, act{doRecover, "Let it back in"})
	}
	return append(all, act{doRetire, "Retire"}, act{doBan, "Ban"})
}

// nodePath is the page of a node.
func nodePath(name string) string { return api.PathConsole + "nodes/" + url.PathEscape(name) }

// deed is one thing that can be done to a node or to a channel: what it asks first, and what the API is told then.
type deed struct {
	question
	method, path string
	body         any
}

// perform does it, after the person has read what happens.
func (v *visit) perform(d deed, section string) (page, error) {
	if asks, ok := v.sure(d.question, section); !ok {
		return asks, nil
	}
	return page{to: d.Back}, v.do(d.method, d.path, d.body)
}

// actOnNode does something to a node, after the person has read what happens. Forms name the node by its id: a name may be another
// machine's by now.
func (v *visit) actOnNode() (page, error) {
	n, err := v.detail(v.r.PathValue("node"))
	if err != nil {
		return page{}, err
	}
	d, err := v.deed(&n)
	if err != nil {
		return page{}, err
	}
	d.Back = nodePath(n.Name)
	return v.perform(d, "fleet")
}

func (v *visit) deed(n *api.NodeDetail) (deed, error) {
	switch verb := v.r.PathValue("verb"); verb {
	case doDrain, doResume, doRetire, doBan:
		return deed{moveQuestion(verb, n.Name), "POST", api.At(api.PathNode, n.ID) + "/" + verb, nil}, nil
	case doRecover:
		return v.recovery(n), nil
	case doLabels:
		return v.labelling(n)
	case doGPUs:
		return v.countGPUs(n)
	case doCheck:
		return v.checking(n), nil
	}
	return deed{}, wire.Refuse(wire.CodeNotFound, "a node cannot do this", "drain, resume, retire, ban or label it")
}

// moveQuestion names what a move does to whom: a node by its name, or a number of nodes.
func moveQuestion(verb, whom string) question {
	const given = "Its certificates end at once. To come back it has to join again."
	const bill = "What a provider charges does not end by this: give the machine back there too."
	do := strings.ToUpper(verb[:1]) + verb[1:] + " " + whom
	q := question{Title: do + "?", Button: do, Danger: verb == doRetire || verb == doBan}
	switch verb {
	case doDrain:
		q.Says = []string{"A drained node gets no new work, but for tasks whose type allows it.", "Work that runs goes on.",
			"It stays drained until somebody resumes it."}
	case doResume:
		q.Says = []string{"A resumed node gets work again.", "The reasons that people gave against it are dropped."}
	case doRetire:
		q.Says = []string{"A retired node is gone for good. " + given, "Its name is free for another machine. Its record stays.", bill}
	case doBan:
		q.Says = []string{"A banned node is shut out. " + given,
			"Its name, its keys and the tokens that are bound to it are refused from now on.",
			"If it knows the pre-shared key, rotate that: muster psk rotate.", bill}
	}
	return q
}

// recovery lets a node back in. With a fingerprint it ends a conflict in favour of one certificate.
func (v *visit) recovery(n *api.NodeDetail) deed {
	fingerprint := v.field("fingerprint")
	ask := question{Title: "Let " + n.Name + " back in?", Button: "Let it back in", Says: []string{
		"For an hour its certificate may renew, however long ago it expired.",
		"In that time a machine with a token or the pre-shared key of its tenant may take its name over once."}}
	if fingerprint != "" {
		ask = question{Title: "Keep one certificate of " + n.Name + "?", Button: "Keep it, and revoke the others", Danger: true, Says: []string{
			fmt.Sprintf("The certificate %.16s becomes the only good one. All others end at once.", fingerprint),
			"The machine that shows another one is shut out.",
			"Where both machines show the same one, stop the one that should not be there first."}}
	}
	return deed{ask, "POST", api.At(api.PathRecovery, n.ID), api.RecoveryRequest{Fingerprint: fingerprint, For: api.Duration(time.Hour)}}
}

// labelling sets and removes labels, as an operator's.
func (v *visit) labelling(n *api.NodeDetail) (deed, error) {
	pairs, err := form.Pairs(v.field("set"))
	if err != nil {
		return deed{}, err
	}
	change := api.LabelsRequest{Set: pairs, Remove: form.Words(v.field("remove"))}
	if len(change.Set)+len(change.Remove) == 0 {
		return deed{}, wire.Refuse(wire.CodeBadRequest, "there is no label to set or to remove", "write tier=sovereign to set one")
	}
	ask := question{Title: "Change the labels of " + n.Name + "?", Button: "Change them"}
	ask.Says = append(labelsSay(change),
		"What picks nodes by these labels (channels, rules of health, selectors) may pick it, or leave it out.")
	return deed{ask, "POST", api.At(api.PathLabels, n.ID), change}, nil
}

// countGPUs puts on record how many GPUs a node should have; an empty field: as many as are seen.
func (v *visit) countGPUs(n *api.NodeDetail) (deed, error) {
	count, err := v.number("gpus")
	if err != nil {
		return deed{}, err
	}
	patch := api.NodePatch{GPUsExpected: &count}
	says := fmt.Sprintf("It should have %d GPUs, until somebody says another number or it enrols anew.", count)
	if v.field("gpus") == "" {
		patch = api.NodePatch{GPUsAsSeen: true}
		says = "It should have as many GPUs as are seen of it at most from now on."
	}
	ask := question{Title: "How many GPUs " + n.Name + " should have", Button: "Put it on record",
		Says: []string{says, "With fewer than that it is unavailable."}}
	return deed{ask, "PATCH", api.At(api.PathNode, n.ID), patch}, nil
}

// checking asks for evidence now. An empty form asks for what the node's profile asks for alone.
func (v *visit) checking(n *api.NodeDetail) deed {
	accept := v.field("accept") != ""
	ask := question{Title: "Check " + n.Name + " now?", Button: "Check it", Says: []string{
		"A task looks whether the machine is as its profile asks. It changes nothing there.",
		"What it finds takes the place of the evidence that there is. Where the machine has changed, its slots wait for approval."}}
	if accept {
		ask.Says = append(ask.Says, "It also measures the disk and the network, which takes some minutes and makes some traffic.")
	}
	return deed{ask, "POST", api.At(api.PathCheck, n.ID), api.CheckRequest{Accept: accept}}
}
