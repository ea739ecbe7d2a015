package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const (
	eventsPause = time.Second
	usualEvents = 100
	eventPage   = 1000
)

func eventList(ctx context.Context, s *cli.Session) error {
	return show(ctx, s, false, eventColumns(false))
}

func auditList(ctx context.Context, s *cli.Session) error {
	return show(ctx, s, true, eventColumns(true))
}

// show prints events oldest first, as a log does.
func show(ctx context.Context, s *cli.Session, audit bool, columns []screen.Column) error {
	filter, limit, err := eventFilter(s, audit)
	if err != nil {
		return err
	}
	var o struct{ Follow bool }
	if err := s.Flags.Into(&o); err != nil {
		return err
	}
	if err := known(ctx, s, filter.Node); err != nil {
		return err
	}
	out := &eventWriter{Session: s, json: s.Form == cli.FormJSON, list: s.List(columns)}
	if filter.Since.IsZero() || limit > 0 {
		err = out.latest(ctx, filter, limit)
	} else {
		err = out.forward(ctx, filter)
	}
	if err != nil || !o.Follow {
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
	_, err = cli.Get[json.RawMessage](ctx, s, api.At(api.PathNode, node), nil)
	var missing *wire.ErrorDetail
	if errors.As(err, &missing) && missing.Code == wire.CodeNotFound {
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
		case !errors.As(err, &lost) || !lost.passing():
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

// passing tells whether the trouble may pass by itself: it is on the way or in the gateway. A refusal of the question does not pass.
func (l *lost) passing() bool {
	var refused *wire.ErrorDetail
	return !errors.As(l.err, &refused) || refused.Code == wire.CodeUnavailable || refused.Code == wire.CodeInternal
}

// eventFilter gives limit 0 if nobody set one.
func eventFilter(s *cli.Session, audit bool) (f api.EventFilter, limit int, err error) {
	var o struct{ Since time.Duration }
	err = errors.Join(s.Flags.Into(&f), s.Flags.Into(&o))
	f.Security = f.Security || audit
	if o.Since > 0 {
		f.Since = s.Now().Add(-o.Since)
	}
	return f, f.Limit, err
}

// eventWriter prints events and remembers the last one.
type eventWriter struct {
	*cli.Session
	json  bool
	list  *screen.List
	shown bool // the header
	last  int64
}

// latest prints the newest events, at most limit of them.
func (w *eventWriter) latest(ctx context.Context, f api.EventFilter, limit int) error {
	if limit == 0 {
		limit = usualEvents
	}
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
	node := e.Node
	if node == "" {
		node = e.NodeID
	}
	return []string{screen.Stamp(&e.At), screen.OrUnknown(e.Kind), screen.OrUnknown(node), screen.OrUnknown(e.Actor),
		screen.OrUnknown(e.Address), screen.OrUnknown(e.Outcome), screen.OrUnknown(eventDetail(e.Detail))}
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
