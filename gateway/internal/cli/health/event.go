package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
)

const (
	eventsPause = time.Second
	usualEvents = 100
	eventPage   = 1000
)

// eventFlags are those of events and audit.
type eventFlags struct {
	Filter api.EventFilter
	Since  time.Duration
	Follow bool
}

func eventList(ctx context.Context, s *cli.Session, o eventFlags) error {
	return show(ctx, s, o, eventColumns(false))
}

func auditList(ctx context.Context, s *cli.Session, o eventFlags) error {
	o.Filter.Security = true
	return show(ctx, s, o, eventColumns(true))
}

// show prints events oldest first, as a log does. The latest are shown if nobody has said from when on, or how many.
func show(ctx context.Context, s *cli.Session, o eventFlags, columns []screen.Column) error {
	filter := o.Filter
	if o.Since > 0 {
		filter.Since = s.Now().Add(-o.Since)
	}
	if err := known(ctx, s, filter.Node); err != nil {
		return err
	}
	out := &eventWriter{Session: s, json: s.Form == cli.FormJSON, list: s.List(columns)}
	show := out.forward
	if filter.Since.IsZero() || filter.Limit > 0 {
		show = out.latest
	}
	if err := show(ctx, filter); err != nil || !o.Follow {
		return err
	}
	return out.follow(ctx, filter)
}

// known refuses the name of a node that never was. Such a node has no row and no event: events outlive their node. An account that may
// not look at nodes gets an empty list instead.
func known(ctx context.Context, s *cli.Session, node string) error {
	if node == "" {
		return nil
	}
	page, err := cli.Get[api.EventList](ctx, s, api.PathEvents, api.EventFilter{Node: node, Limit: 1})
	if err != nil || len(page.Events) > 0 {
		return err
	}
	if _, err = cli.Get[api.Node](ctx, s, api.At(api.PathNode, node), nil); client.IsNotFound(err) {
		return err
	}
	return nil
}

// longestWait is between two tries to reach a gateway that does not answer.
const longestWait = 30 * time.Second

// follow goes on with new events until ctx ends. A gateway that is away, as in a restart, is waited for; what happened meanwhile is
// shown then.
func (w *eventWriter) follow(ctx context.Context, f api.EventFilter) error {
	wait := eventsPause
	for {
		err := w.Pause(ctx, wait)
		if err == nil {
			err = w.forward(ctx, f)
		}
		var lost *lost
		switch {
		case err == nil && wait > eventsPause:
			fmt.Fprintln(w.Stderr, "muster: the gateway answers again")
			wait = eventsPause
		case err == nil:
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil // a person ended it
		case !errors.As(err, &lost) || !cli.Passing(err):
			return err
		case wait < longestWait:
			wait = min(2*wait, longestWait)
			fmt.Fprintf(w.Stderr, "muster: %s; trying again every %s, until it answers or this is ended\n", screen.Printable(err.Error()),
				wait)
		}
	}
}

// lost is a question to the gateway that was not answered.
type lost struct{ err error }

func (l *lost) Error() string { return l.err.Error() }

func (l *lost) Unwrap() error { return l.err }

// eventWriter prints events and remembers the last one.
type eventWriter struct {
	*cli.Session
	json  bool
	list  *screen.List
	shown bool // the header
	last  int64
}

// latest prints the newest events, as many as the filter says at most.
func (w *eventWriter) latest(ctx context.Context, f api.EventFilter) error {
	limit := cmp.Or(f.Limit, usualEvents)
	var events []api.Event
	for len(events) < limit {
		f.Limit = min(limit-len(events), eventPage)
		page, err := cli.Get[api.EventList](ctx, w.Session, api.PathEvents, f)
		if err != nil {
			return err
		}
		events = append(events, page.Events...)
		if len(page.Events) < f.Limit {
			break
		}
		f.Before = page.Events[len(page.Events)-1].ID
	}
	slices.Reverse(events)
	return w.write(events)
}

// forward prints everything after the last event that was printed.
func (w *eventWriter) forward(ctx context.Context, f api.EventFilter) error {
	f.Limit = eventPage
	for {
		f.After = &w.last
		page, err := cli.Get[api.EventList](ctx, w.Session, api.PathEvents, f)
		if err != nil {
			return &lost{err}
		}
		if err := w.write(page.Events); err != nil || len(page.Events) < f.Limit {
			return err
		}
	}
}

// write prints the header once, also if there is no event yet.
func (w *eventWriter) write(events []api.Event) error {
	rows := make([][]string, 0, len(events))
	for _, e := range events {
		w.last = max(w.last, e.ID)
		if !w.json {
			rows = append(rows, eventRow(e))
			continue
		}
		if err := w.WriteJSON(e); err != nil {
			return err
		}
	}
	if w.json || w.shown && len(rows) == 0 {
		return nil
	}
	w.shown = true
	return w.list.Write(rows)
}

// eventColumns says what to leave out first on a narrow screen. For events the detail stays longer than the actor; for the audit, which
// is about who did it, the actor stays longer.
func eventColumns(audit bool) []screen.Column {
	actor := 4
	detail := 3
	if audit {
		actor = 3
		detail = 4
	}
	return []screen.Column{
		{Name: "TIME"}, {Name: "KIND", Least: 18, Most: 30}, {Name: "NODE", Rank: 2, Least: 12, Most: 40},
		{Name: "ACTOR", Rank: actor, Least: 12, Most: 40}, {Name: "FROM", Rank: 5, Least: 9, Most: 40},
		{Name: "OUTCOME", Rank: 1, Least: 8, Most: 24}, {Name: "DETAIL", Rank: detail, Least: 14},
	}
}

func eventRow(e api.Event) []string {
	return []string{screen.Stamp(&e.At), e.Kind, cmp.Or(e.Node, e.NodeID), e.Actor, e.Address, e.Outcome, eventDetail(e.Detail)}
}

// eventDetail puts the states between which a node moved behind all else, because a narrow screen cuts the end.
func eventDetail(detail map[string]string) string {
	var pairs, moved []string
	for _, key := range slices.Sorted(maps.Keys(detail)) {
		pair := screen.Printable(key + "=" + detail[key])
		if key == "from" || key == "to" {
			moved = append(moved, pair)
		} else {
			pairs = append(pairs, pair)
		}
	}
	return strings.Join(append(pairs, moved...), " ")
}
