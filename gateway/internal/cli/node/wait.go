package node

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
	"muster/gateway/internal/paste"
)

const (
	waitPause  = time.Second
	usualWait  = 5 * time.Minute
	noSuchNode = "not there yet"
)

// goal is what nodes are waited for. A node that counts as online, but was not heard since the gateway's start, is not there yet.
type goal struct{ status, state string }

func (g goal) reached(v view) bool {
	return (g.status == "" || v.StatusText() == g.status) && (g.state == "" || v.State == g.state)
}

func (g goal) String() string {
	if g.status == "" || g.state == "" {
		return g.status + g.state
	}
	return g.status + " and " + g.state
}

// next is the command that says more about a node that is not as wanted.
func (g goal) next(seen []view) string {
	for _, v := range seen {
		if v.ID != "" && !g.reached(v) {
			return "muster node show " + paste.Quote(v.Name) + " says more"
		}
	}
	return "muster node ls --all shows which nodes there are, muster help not-joining why one may not come"
}

// wanted is what --status and --state say; empty: they say nothing.
func wanted(s *cli.Session) (g goal, err error) {
	g.status, err = s.Flags.OneOf("status", "", wire.Statuses()...)
	if err != nil {
		return g, err
	}
	g.state, err = s.Flags.OneOf("state", "", wire.States()...)
	return g, err
}

// nodeWait looks again and again until every node is as wanted, and tells each change that it sees.
func nodeWait(ctx context.Context, s *cli.Session, o struct {
	Timeout  time.Duration
	Selector string
}) error {
	goal, err := wanted(s)
	if err != nil {
		return err
	}
	if goal.status == "" && goal.state == "" {
		goal.status = wire.StatusOnline
	}
	o.Timeout = cmp.Or(o.Timeout, usualWait)
	if len(s.Words) == 0 && o.Selector == "" || len(s.Words) > 0 && s.Flags.Given("selector") {
		return cli.Usagef("write muster node wait NAME..., or select them with -l tier=sovereign", "muster node wait: which nodes?")
	}
	tell := s.Changes()
	var seen []view
	missing := 0
	done, err := s.Poll(ctx, waitPause, o.Timeout, func() (bool, error) {
		var err error
		if seen, err = look(ctx, s, o.Selector); err != nil {
			return false, err
		}
		missing = progress(goal, seen, tell)
		return missing == 0 && len(seen) > 0, nil
	})
	switch {
	case err != nil:
		return err
	case !done && len(seen) == 0: // by a selector: a node that was named is in the list even while there is none
		return cli.Hinted(fmt.Sprintf("after %s, no node matches %q", screen.Age(o.Timeout), o.Selector), goal.next(seen))
	case !done:
		return cli.Hinted(fmt.Sprintf("after %s, not %s: %d of %s", screen.Age(o.Timeout), goal, missing, screen.Plural(len(seen), "node")),
			goal.next(seen))
	}
	fmt.Fprintf(s.Stdout, "%s: %s\n", screen.Plural(len(seen), "node"), goal)
	return nil
}

// look fetches the nodes that are waited for. One that is not there yet has no state.
func look(ctx context.Context, s *cli.Session, selector string) ([]view, error) {
	var seen []view
	if len(s.Words) == 0 {
		err := s.EachNode(ctx, api.NodeFilter{Selector: selector}, func(n api.Node) error {
			seen = append(seen, viewOf(n, s.Now()))
			return nil
		})
		return seen, err
	}
	for _, name := range s.Words {
		n, err := cli.Get[api.Node](ctx, s, api.At(api.PathNode, name), nil)
		switch {
		case client.IsNotFound(err):
			n.Name = name
		case err != nil:
			return nil, err
		}
		seen = append(seen, viewOf(n, s.Now()))
	}
	return seen, nil
}

// progress tells what changed since the last look, and counts the nodes that are not as wanted.
func progress(g goal, seen []view, tell func(thing, line string)) (missing int) {
	for _, v := range seen {
		if !g.reached(v) {
			missing++
		}
		now := noSuchNode
		if v.ID != "" {
			now = v.StatusText() + ", " + v.state(true)
		}
		tell(v.Name, v.Name+": "+now)
	}
	return missing
}
