package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// Target is one thing to act on, mostly a node: named by a person, or found by a selector and then held by its id.
type Target struct{ ID, Name string }

// Named returns the targets that a person named, each once.
func Named(names []string) []Target {
	named := make([]Target, 0, len(names))
	for _, name := range names {
		target := Target{ID: name, Name: name}
		if !slices.Contains(named, target) {
			named = append(named, target)
		}
	}
	return named
}

// Instance divides ACCOUNT/INSTANCE. isWhole is false for a word without a slash, which may be the name of a node.
func Instance(word string) (account, id string, isWhole bool, err error) {
	account, id, isWhole = strings.Cut(word, "/")
	if isWhole && (account == "" || id == "" || strings.Contains(id, "/")) {
		err = Usagef("write ACCOUNT/INSTANCE; muster provider instances lists them", "%s names no machine of a company", shown(word))
	}
	return account, id, isWhole, err
}

// NoneSelected is printed if a selector picks no node. That is no error.
const NoneSelected = "no node has what -l asks for; muster ls -o wide shows the labels, muster help selectors what else can be asked for"

// Targets returns the nodes named, or those that --selector picks.
func (s *Session) Targets(ctx context.Context, names []string) (nodes []Target, selected bool, err error) {
	_, err = s.Client(ctx)
	selector := s.Flags.Text("selector")
	switch {
	case err != nil:
		return nil, false, err
	case len(names) > 0 && s.Flags.Given("selector"):
		return nil, false, Usagef("leave one of them out", "nodes are either named or selected")
	case len(names) > 0:
		return Named(names), false, nil
	case selector == "":
		return nil, false, Usagef("name nodes, or select them with -l tier=sovereign; -l status=online selects all that are online",
			"muster %s: which nodes?", s.Name)
	}
	err = s.EachNode(ctx, api.NodeFilter{Selector: selector}, func(n api.Node) error {
		nodes = append(nodes, Target{ID: n.ID, Name: n.Name})
		return nil
	})
	if err == nil && len(nodes) == 0 {
		err = Hinted(fmt.Sprintf("no node matches %q", selector), "muster node ls -o wide shows all nodes with their labels")
	}
	return nodes, true, err
}

// Nodes returns the nodes that were named, or those that --selector picks; without either, all nodes that are not retired. If a name is
// refused, it returns the nodes of the names before it too.
func (s *Session) Nodes(ctx context.Context, names []string) (nodes []api.Node, err error) {
	if len(names) > 0 && s.Flags.Given("selector") {
		return nil, Usagef("leave one of them out", "nodes are either named or selected")
	}
	for _, name := range names {
		n, err := Get[api.Node](ctx, s, api.At(api.PathNode, name), nil)
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, n)
	}
	if len(names) > 0 {
		return nodes, nil
	}
	err = s.EachNode(ctx, api.NodeFilter{Selector: s.Flags.Text("selector")}, func(n api.Node) error {
		nodes = append(nodes, n)
		return nil
	})
	return nodes, err
}

// ActOn acts on the nodes that were named or selected. If several were selected, or if always is true, it asks the person first; verb is
// what is done, as in "drain these 3 nodes?".
func (s *Session) ActOn(ctx context.Context, names []string, verb string, always bool,
	act func(Target) (said string, err error)) error {
	nodes, err := s.Chosen(ctx, names, verb, always)
	if err != nil {
		return err
	}
	return s.OnEach(ctx, nodes, act)
}

// Chosen returns the nodes that were named or selected, after the person was asked as ActOn says.
func (s *Session) Chosen(ctx context.Context, names []string, verb string, always bool) ([]Target, error) {
	nodes, selected, err := s.Targets(ctx, names)
	if err != nil {
		return nil, err
	}
	return nodes, s.confirm(verb, nodes, selected, always)
}

// OnEach acts on one target after the other, and prints what act returns; it prints nothing for "". If it fails for a target, it goes on
// with the others. Only the end of ctx ends it early.
func (s *Session) OnEach(ctx context.Context, targets []Target, act func(Target) (string, error)) error {
	failed := false
	for _, target := range targets {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		said, err := act(target)
		if err != nil {
			s.Trouble(ctx, target.Name, err)
			failed = true
			continue
		}
		if said != "" {
			fmt.Fprintf(s.Stdout, "%s: %s\n", screen.Printable(target.Name), screen.Printable(said))
		}
	}
	if failed {
		return ErrReported
	}
	return nil
}

// LastHeard says when a node was heard last, as in "was last heard 5m ago". away is true if that is too long ago. If the node cannot be
// looked up, nothing is known of it, and away is false.
func (s *Session) LastHeard(ctx context.Context, node string) (text string, away bool) {
	n, err := Get[api.Node](ctx, s, api.At(api.PathNode, node), nil)
	switch {
	case err != nil:
		return "has not answered yet", false
	case n.LastSeen == nil:
		return "was never heard", true
	}
	ago := s.Now().Sub(*n.LastSeen)
	late := n.IntervalSeconds != nil && ago.Seconds() > 1.5**n.IntervalSeconds
	return "was last heard " + screen.Age(ago) + " ago", late || n.Status != wire.StatusOnline
}

// waitTime is how long a person waits for a node without a word.
const waitTime = 2 * time.Second

// TellWait says after a while that the command waits for a node, until stop is called. quiet means that nothing may come for long, as with
// a log that is followed: then it says so only if the node is away.
func (s *Session) TellWait(ctx context.Context, node Target, quiet bool, say func(string)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	stopped := s.After(waitTime, func() {
		if heard, away := s.LastHeard(ctx, node.ID); ctx.Err() == nil && (away || !quiet) {
			say("waiting for " + screen.Printable(node.Name) + ", which " + heard + "; ^C gives up")
		}
	})
	return func() {
		cancel()
		stopped()
	}
}

// PublicPart cuts a whole token down to the part that may stand in a URL and on a screen.
func PublicPart(id string) string {
	parts := strings.SplitN(id, "_", 3)
	return strings.Join(parts[:min(len(parts), 2)], "_")
}
