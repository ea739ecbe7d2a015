package node

import (
	"context"
	"fmt"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func nodeMove(verb string) func(context.Context, *cli.Session) error {
	noWayBack := verb == "retire" || verb == "ban"
	return func(ctx context.Context, s *cli.Session) error {
		return s.ActOn(ctx, s.Words, verb, noWayBack, func(t cli.Target) (string, error) {
			n, err := cli.Send[api.Node](ctx, s, "POST", api.At(api.PathNode, t.ID)+"/"+verb, nil)
			if n.Banned {
				n.State += ", banned"
			}
			if verb == "retire" && err == nil && n.PricePerHour != nil {
				n.State += fmt.Sprintf("; its machine goes on costing %s an hour, by its label, until you end it at its provider",
					screen.Price(n.PricePerHour))
			}
			return n.State, err
		})
	}
}

func nodeLabel(ctx context.Context, s *cli.Session) error {
	names, change, err := labelArguments(s.Words)
	if err != nil {
		return err
	}
	if _, set := change.Set["price"]; set {
		fmt.Fprintln(s.Stderr, "Note: price is a label like any other; what a node costs is the label price_per_hour")
	}
	return s.ActOn(ctx, names, "label", false, func(t cli.Target) (string, error) {
		n, err := cli.Send[api.Node](ctx, s, "POST", api.At(api.PathLabels, t.ID), change)
		if len(n.Labels) == 0 {
			return "no labels", err
		}
		return screen.Labels(n.Labels), err
	})
}

// labelArguments separates names from KEY=VALUE and KEY-. That is safe: no name has a = or ends in -.
func labelArguments(args []string) (names []string, change api.LabelsRequest, err error) {
	change.Set = map[string]string{}
	given := map[string]bool{}
	for _, arg := range args {
		key, value, sets := strings.Cut(arg, "=")
		removed, removes := strings.CutSuffix(arg, "-")
		switch {
		case sets:
			change.Set[key] = value
		case removes:
			key = removed
			change.Remove = append(change.Remove, removed)
		default:
			names = append(names, arg)
			continue
		}
		if given[key] {
			return nil, change, cli.Twice("the label", key)
		}
		given[key] = true
	}
	if len(change.Set)+len(change.Remove) == 0 {
		err = cli.Usagef("write tier=sovereign to set one, tier- to remove one", "there is no label to set or to remove")
	}
	return names, change, err
}
