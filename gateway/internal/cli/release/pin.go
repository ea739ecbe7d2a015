package release

import (
	"context"
	"fmt"
	"slices"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// releasePin keeps nodes where they are, or gives them a release of their own.
func releasePin(ctx context.Context, s *cli.Session) error {
	verb := "hold where they are, whatever their channel says,"
	q := api.NewPins{}
	if name := s.Flags.Text("digest"); name != "" {
		r, err := cli.Get[api.Release](ctx, s, api.At(api.PathRelease, name), nil)
		if err != nil {
			return err
		}
		q.Digest = r.Digest
		verb = fmt.Sprintf("pin to %s (%s)", r.Version, short(r.Digest))
	}
	nodes, err := s.Chosen(ctx, s.Words, verb, false)
	if err != nil {
		return err
	}
	q.Nodes = ids(nodes)
	if q.Digest != "" {
		if q.Pointer, err = pinPointer(ctx, s, q.Digest); err != nil {
			return err
		}
	}
	if _, err := cli.Send[api.PinList](ctx, s, "POST", api.PathPins, q); err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "%s pinned.\n", screen.Plural(len(nodes), "node"))
	return nil
}

func releaseUnpin(ctx context.Context, s *cli.Session) error {
	nodes, err := s.Chosen(ctx, s.Words, "let follow their channel again", false)
	if err != nil {
		return err
	}
	pinned, err := cli.Get[api.PinList](ctx, s, api.PathPins, nil)
	if err != nil {
		return err
	}
	freed := 0
	for _, node := range nodes {
		if slices.ContainsFunc(pinned.Pins, func(p api.Pin) bool { return p.NodeID == node.ID || p.Node == node.ID }) {
			freed++
		}
	}
	q := api.NewPins{Nodes: ids(nodes)}
	if q.Pointer, err = pinPointer(ctx, s, ""); err != nil {
		return err
	}
	if _, err := cli.Send[api.Done](ctx, s, "POST", api.PathPinsDrop, q); err != nil {
		return err
	}
	switch {
	case freed == 0:
		fmt.Fprintln(s.Stdout, "None of them was pinned.")
	default:
		fmt.Fprintf(s.Stdout, "%s on the channel again.\n", screen.Plural(freed, "node"))
	}
	return nil
}

// pinPointer is the pointer that an operator signs for pinned nodes; with no digest it is the channel's own, under a new number.
func pinPointer(ctx context.Context, s *cli.Session, digest string) ([]byte, error) {
	name, err := channelOf(s)
	if err != nil {
		return nil, err
	}
	if digest == "" && s.Flags.Text("key") != "" {
		now, err := cli.Get[api.Channel](ctx, s, api.At(api.PathChannel, name), nil)
		if err != nil {
			return nil, err
		}
		digest = now.Digest
	}
	return pointerOf(ctx, s, name, digest)
}

func ids(nodes []cli.Target) []string {
	all := make([]string, 0, len(nodes))
	for _, n := range nodes {
		all = append(all, n.ID)
	}
	return all
}

func releasePins(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "NODE", Least: 12, Most: 40}, {Name: "TENANT", Rank: 3, Least: 8}, {Name: "RELEASE", Least: 8},
		{Name: "CHANNEL", Rank: 2}, {Name: "PINNED"}, {Name: "BY", Rank: 1, Least: 8}}
	return cli.ShowList(ctx, s, api.PathPins, nil, columns, func(l api.PinList) [][]string {
		return cli.Rows(l.Pins, func(p api.Pin) []string {
			release := "as it is"
			if p.Digest != "" {
				release = screen.OrUnknown(p.Version) + " " + short(p.Digest)
			}
			return []string{p.Node, p.Tenant, release, p.Channel, screen.Ago(s.Now(), p.At), p.By}
		})
	})
}
