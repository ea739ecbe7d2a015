package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/form"
	"muster/gateway/internal/console/picture"
)

// mostChanged bounds the nodes of one form: a person reads the names before they say yes.
const mostChanged = 200

// doLabel changes labels of nodes that are selected, beside drain, resume and retire.
const doLabel = "label"

// changeNodes does one thing with the nodes that were selected, after it has named them. From the question on they are named by their ids:
// a name may be another machine's by now.
func (v *visit) changeNodes() (page, error) {
	verb := v.field("verb")
	var labels api.LabelsRequest
	var err error
	if verb == doLabel {
		labels, err = form.Labels(v.field("labels"))
	}
	if err == nil {
		err = checkChange(v.r.PostForm["node"], verb)
	}
	var nodes []pair
	if err == nil {
		nodes, err = v.selected()
	}
	if err != nil {
		return page{}, err
	}
	back := cmp.Or(safePath(v.field("back")), api.PathConsole+"fleet")
	if asks, ok := v.sure(changeQuestion(nodes, verb, labels, back), "fleet"); !ok {
		return asks, nil
	}
	var failed []string
	for _, node := range nodes {
		if err = v.changeNode(node.Name, verb, labels); err != nil {
			_, answer := v.Info.Answer(err)
			failed = append(failed, node.Value+": "+answer.Error.Message)
		}
	}
	if len(failed) > 0 {
		said := fmt.Sprintf("%d of %d nodes stayed as they were. %s", len(failed), len(nodes), strings.Join(failed, "; "))
		return page{}, wire.Refuse(wire.CodeIllegalMove, said, "look at these nodes, then do it again for them")
	}
	return page{to: back}, nil
}

// selected are the nodes of the form, each once: id and name. The form that asks again has their ids.
func (v *visit) selected() ([]pair, error) {
	var nodes []pair
	var ids []string
	for _, given := range v.r.PostForm["node"] {
		n, err := v.detail(given)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, n.ID) {
			nodes = append(nodes, pair{n.ID, n.Name})
			ids = append(ids, n.ID)
		}
	}
	v.r.PostForm["node"] = ids
	return nodes, nil
}

func (v *visit) changeNode(node, verb string, labels api.LabelsRequest) error {
	if verb == doLabel {
		return v.do("POST", api.At(api.PathLabels, node), labels)
	}
	return v.do("POST", api.At(api.PathNode, node)+"/"+verb, nil)
}

func checkChange(nodes []string, verb string) error {
	switch {
	case len(nodes) == 0:
		return wire.Refuse(wire.CodeBadRequest, "no node is selected", "select nodes in the first column, or by the key x")
	case len(nodes) > mostChanged:
		return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%d nodes are selected, and %d can be changed at once", len(nodes), mostChanged),
			"select fewer, or use the command line for them all")
	}
	switch verb {
	case doDrain, doResume, doRetire, doLabel:
		return nil
	}
	return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("nodes cannot be changed by %.40q", verb), "choose what to do from the list")
}

// changeQuestion names the nodes and what happens to them.
func changeQuestion(nodes []pair, verb string, labels api.LabelsRequest, back string) question {
	whom := picture.Many(len(nodes)) + " nodes"
	if len(nodes) == 1 {
		whom = "1 node"
	}
	q := moveQuestion(verb, whom)
	if verb == doLabel {
		q = question{Title: "Change labels of " + whom + "?", Button: "Change the labels", Says: labelsSay(labels)}
	}
	var names []string
	for _, node := range nodes {
		names = append(names, node.Value)
	}
	q.Says = append([]string{strings.Join(names, ", ")}, q.Says...)
	q.Back = back
	if verb == doRetire && len(nodes) > 1 {
		q.Word = verb
	}
	return q
}

func labelsSay(labels api.LabelsRequest) []string {
	var says []string
	for _, p := range labelPairs(labels.Set) {
		says = append(says, "Set "+p.Name+"="+p.Value+".")
	}
	for _, name := range labels.Remove {
		says = append(says, "Remove "+name+".")
	}
	return says
}
