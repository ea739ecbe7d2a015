package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/client"
)

const (
	waitPause   = time.Second
	usualWait   = 5 * time.Minute
	noSuchNode  = "not there yet"
	eventsPause = time.Second
)

// goal is what nodes are waited for.
type goal struct{ status, state string }

func (g goal) reached(v view) bool {
	return (g.status == "" || v.Status == g.status) && (g.state == "" || v.State == g.state)
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
			return "muster node show " + QuoteWord(v.Name) + " says more"
		}
	}
	return "muster node ls --all shows which nodes there are, muster help not-joining why one may not come"
}

// wanted is what --status and --state say, empty where they say nothing.
func (s *session) wanted() (g goal, err error) {
	g.status, err = s.options.oneOf("status", "", wire.Statuses()...)
	if err != nil {
		return g, err
	}
	g.state, err = s.options.oneOf("state", "", wire.States()...)
	return g, err
}

func (s *session) goal() (goal, error) {
	g, err := s.wanted()
	if g.status == "" && g.state == "" {
		g.status = wire.StatusOnline
	}
	return g, err
}

// nodeWait looks again and again until every node is as wanted, telling each change it sees.
func nodeWait(ctx context.Context, s *session) error {
	goal, err := s.goal()
	if err != nil {
		return err
	}
	timeout, err := s.options.duration("timeout", usualWait)
	if err != nil {
		return err
	}
	if len(s.args) == 0 && s.options.text("selector") == "" || len(s.args) > 0 && s.options.given("selector") {
		return usagef("write muster node wait NAME..., or select them with -l tier=sovereign", "muster node wait: which nodes?")
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	end, said := s.now().Add(timeout), map[string]string{}
	for {
		seen, err := s.look(ctx, c)
		if err != nil {
			return err
		}
		missing := s.progress(goal, seen, said)
		if missing == 0 && len(seen) > 0 {
			fmt.Fprintf(s.Stdout, "%s: %s\n", plural(len(seen), "node"), goal)
			return nil
		}
		if !s.now().Before(end) {
			if len(seen) == 0 { // by a selector: a node that was named is among them also while there is none
				return hinted(fmt.Sprintf("after %s no node matches %q", age(timeout), s.options.text("selector")), goal.next(seen))
			}
			return hinted(fmt.Sprintf("after %s %d of %s not %s", age(timeout), missing, plural(len(seen), "node"), goal), goal.next(seen))
		}
		if err := s.pause(ctx, waitPause); err != nil {
			return err
		}
	}
}

// look fetches the nodes that are waited for. One that does not exist has no state.
func (s *session) look(ctx context.Context, c *client.Client) ([]view, error) {
	var seen []view
	add := func(raw json.RawMessage) error {
		v, err := readNode(raw, s.now())
		seen = append(seen, v)
		return err
	}
	if len(s.args) == 0 {
		err := eachPage(ctx, c, client.NodeFilter{Selector: s.options.text("selector")}, func(page client.NodeRows) error {
			for _, raw := range page.Nodes {
				if err := add(raw); err != nil {
					return err
				}
			}
			return nil
		})
		return seen, err
	}
	for _, name := range s.args {
		raw, err := c.Node(ctx, name)
		if client.IsNotFound(err) {
			seen = append(seen, view{Node: client.Node{Name: name}})
			continue
		}
		if err == nil {
			err = add(raw)
		}
		if err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// progress tells what changed since the last look, and counts the nodes that are not as wanted.
func (s *session) progress(g goal, seen []view, said map[string]string) (missing int) {
	for _, v := range seen {
		if !g.reached(v) {
			missing++
		}
		now := noSuchNode
		if v.ID != "" {
			now = v.Status + ", " + v.state(true)
		}
		if said[v.Name] != now {
			said[v.Name] = now
			fmt.Fprintf(s.Stderr, "%s: %s\n", printable(v.Name), printable(now))
		}
	}
	return missing
}
