package live

import (
	"cmp"
	"context"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
)

// Filter picks nodes. A zero field does not count.
type Filter struct {
	Selector, Status, State string
	All                     bool // retired ones too
}

// selector says the same as the filter: the stream knows selectors alone.
func (f Filter) selector() string {
	var terms []string
	for _, term := range []struct{ key, value string }{{"", f.Selector}, {"status=", f.Status}, {"state=", f.State}} {
		if term.value != "" {
			terms = append(terms, term.key+term.value)
		}
	}
	return strings.Join(terms, ",")
}

func (f Filter) fleet() api.FleetFilter {
	return api.FleetFilter{Selector: f.selector(), All: f.All}
}

// Check asks the gateway whether it takes the filter.
func (f Filter) Check(ctx context.Context, s *cli.Session) error {
	_, err := cli.Get[api.FleetView](ctx, s, api.PathFleet, f.fleet())
	return err
}

// News is what the gateway told. One field is set.
type News struct {
	Fleet *api.FleetView   // all nodes
	Nodes *api.StreamNodes // those that changed
	Lost  error            // nothing: it cannot be heard, and is tried again
}

// How long to wait before a lost gateway is tried again: longer each time.
const (
	firstPause = time.Second
	mostPause  = 15 * time.Second
)

// Follow tells what the gateway says about the nodes of a filter, until ctx ends, tell fails or the gateway refuses the account. If the
// gateway is lost it says so, and tries again.
func Follow(ctx context.Context, s *cli.Session, f Filter, tell func(News) error) error {
	pause := firstPause
	var deaf error // why nobody wants to hear more
	for {
		err := once(ctx, s, f, func(n News) error {
			pause = firstPause
			deaf = tell(n)
			return deaf
		})
		if ctx.Err() != nil || deaf != nil {
			return cmp.Or(deaf, ctx.Err())
		}
		if code := cli.Code(err); code == wire.CodeUnauthorized || code == wire.CodeForbidden { // to ask again is of no use
			return err
		}
		if err := tell(News{Lost: err}); err != nil {
			return err
		}
		if err := s.Pause(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, mostPause)
	}
}

// once follows one stream to its end. It loads all nodes after the stream has begun, so that no change falls between the two.
func once(ctx context.Context, s *cli.Session, f Filter, tell func(News) error) error {
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	load := func() error {
		view, err := s.WholeFleet(ctx, f.fleet())
		if err != nil {
			return err
		}
		return tell(News{Fleet: &view})
	}
	filter := api.StreamFilter{Selector: f.selector(), All: f.All, Kinds: []string{api.StreamNode}}
	return c.Stream(ctx, filter, load, func(kind string, data []byte) error {
		switch kind {
		case api.StreamLost:
			return load()
		case api.StreamNode:
			n, err := api.ReadStreamNodes(data)
			if err != nil {
				return err
			}
			return tell(News{Nodes: &n})
		}
		return nil // a newer gateway may tell more
	})
}
