package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"muster/gateway/internal/client"
)

// target is a node to act on: named by a person, or found by a selector and then held by its id.
type target struct{ id, name string }

// targets are the nodes named, or those that --selector picks.
func (s *session) targets(ctx context.Context, c *client.Client, names []string) (nodes []target, selected bool, err error) {
	selector := s.options.text("selector")
	switch {
	case len(names) > 0 && s.options.given("selector"):
		return nil, false, usagef("leave one of them out", "nodes are either named or selected")
	case len(names) > 0:
		for _, name := range names {
			nodes = append(nodes, target{name, name})
		}
		return nodes, false, nil
	case selector == "":
		return nil, false, usagef("name nodes, or select them with -l tier=sovereign", "muster %s: which nodes?", s.command.name)
	}
	err = eachPage(ctx, c, client.NodeFilter{Selector: selector}, func(page client.NodeRows) error {
		for _, raw := range page.Nodes {
			v, err := readNode(raw, s.now())
			if err != nil {
				return err
			}
			nodes = append(nodes, target{v.ID, v.Name})
		}
		return nil
	})
	if err == nil && len(nodes) == 0 {
		err = hinted(fmt.Sprintf("no node matches %q", selector), "muster node ls -o wide shows all nodes with their labels")
	}
	return nodes, true, err
}

// shownNames is how many of the matches a question shows, where what it asks for can be undone.
const shownNames = 10

// confirm asks before a command acts: on several selected nodes, and always where there is no way back. Then it shows all of them.
func (s *session) confirm(verb string, nodes []target, selected, always bool) error {
	if selected {
		shown, more := nodes, ""
		if len(nodes) > shownNames && !always {
			shown, more = nodes[:shownNames], ", ..."
		}
		names := make([]string, 0, len(shown))
		for _, n := range shown {
			names = append(names, printable(n.name))
		}
		fmt.Fprintf(s.Stderr, "%s: %s%s\n", plural(len(nodes), "node"), strings.Join(names, ", "), more)
	}
	yes, err := s.options.flag("yes")
	if err != nil || yes || !always && !selected {
		return err
	}
	if !s.interactive() {
		if !always && len(nodes) == 1 {
			return nil
		}
		return usagef("add --yes", "to %s %s needs a yes, and there is no terminal to ask on", verb, plural(len(nodes), "node"))
	}
	fmt.Fprintf(s.Stderr, "%s %s? [y/N] ", verb, question(nodes))
	answer, err := bufio.NewReader(s.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was done")
}

func question(nodes []target) string {
	if len(nodes) == 1 {
		return printable(nodes[0].name)
	}
	return "these " + plural(len(nodes), "node")
}

// trouble prints what went wrong with one of several; the command goes on with the others and then fails.
func (s *session) trouble(ctx context.Context, name string, err error) bool {
	message, hint := s.explain(ctx, err)
	s.report(name+": "+message, hint)
	return true
}

// onEach acts on nodes one after the other. What fails for one does not keep it from the others, but for the end of ctx.
func (s *session) onEach(ctx context.Context, nodes []target, act func(target) (string, error)) error {
	failed := false
	for _, node := range nodes {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		said, err := act(node)
		if err != nil {
			failed = s.trouble(ctx, node.name, err)
			continue
		}
		fmt.Fprintf(s.Stdout, "%s: %s\n", printable(node.name), printable(said))
	}
	if failed {
		return errReported
	}
	return nil
}

// actOn acts on the nodes that were named or selected, once the person agrees to verb where that is asked.
func (s *session) actOn(ctx context.Context, names []string, verb string, always bool,
	act func(*client.Client, target) (string, error)) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	nodes, selected, err := s.targets(ctx, c, names)
	if err != nil {
		return err
	}
	if err := s.confirm(verb, nodes, selected, always); err != nil {
		return err
	}
	return s.onEach(ctx, nodes, func(t target) (string, error) { return act(c, t) })
}

func nodeMove(verb string) func(context.Context, *session) error {
	noWayBack := verb == "retire" || verb == "ban"
	return func(ctx context.Context, s *session) error {
		return s.actOn(ctx, s.args, verb, noWayBack, func(c *client.Client, t target) (string, error) {
			n, err := c.Apply(ctx, t.id, verb)
			if n.Banned {
				n.State += ", banned"
			}
			return n.State, err
		})
	}
}

func nodeLabel(ctx context.Context, s *session) error {
	names, change, err := labelArguments(s.args)
	if err != nil {
		return err
	}
	return s.actOn(ctx, names, "label", false, func(c *client.Client, t target) (string, error) {
		n, err := c.SetLabels(ctx, t.id, change)
		if len(n.Labels) == 0 {
			return "no labels", err
		}
		return labelText(n.Labels), err
	})
}

// labelArguments tells names from KEY=VALUE and KEY-: no name has a = or ends in -.
func labelArguments(args []string) (names []string, change client.LabelsRequest, err error) {
	change.Set = map[string]string{}
	for _, arg := range args {
		key, value, sets := strings.Cut(arg, "=")
		removed, removes := strings.CutSuffix(arg, "-")
		switch {
		case sets:
			change.Set[key] = value
		case removes:
			change.Remove = append(change.Remove, removed)
		default:
			names = append(names, arg)
		}
	}
	if len(change.Set)+len(change.Remove) == 0 {
		err = usagef("write tier=sovereign to set one, tier- to remove one", "there is no label to set or to remove")
	}
	return names, change, err
}
