package node

import (
	"context"
	"errors"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/paste"
)

// placementRows say which profile a node has, whether it is as that asks, and which tags it has and why. Who may not look at placement gets
// none, and a retired node is placed nowhere.
func (v view) placementRows(ctx context.Context, s *cli.Session) [][]string {
	if v.State == wire.StateRetired {
		return nil
	}
	e, err := cli.Get[api.NodeEvidence](ctx, s, api.At(api.PathCheck, v.ID), nil)
	var refusal *wire.ErrorDetail
	switch {
	case errors.As(err, &refusal) && (refusal.Code == wire.CodeForbidden || refusal.Code == wire.CodeNotFound):
		return nil
	case err != nil:
		return [][]string{{"  profile", notKnown}}
	}
	rows := [][]string{{"  profile", orNone(screen.OrUnknown(e.Profile))}, {"  evidence", v.evidenceLine(s, e)}}
	for _, line := range e.Missing {
		rows = append(rows, []string{"  missing", line})
	}
	for _, t := range e.Tags {
		rows = append(rows, []string{"  tag", t.Name + ", from " + t.From})
	}
	return rows
}

// evidenceLine says how old the evidence is, and whether it counts.
func (v view) evidenceLine(s *cli.Session, e api.NodeEvidence) string {
	again := screen.Printable(s.Pasted("node check " + paste.Quote(v.Name)))
	switch {
	case e.Pending != "":
		return "is looked for now, by task " + screen.Printable(e.Pending)
	case e.Evidence == nil:
		return none + ": " + again
	case !e.Current:
		return "of " + v.since(e.At) + " ago, of another boot or for another profile: " + again
	}
	return "of " + v.since(e.At) + " ago"
}
