package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/client"
)

const (
	usualEvents = 100
	eventPage   = 1000
)

// eventList prints events oldest first, as a log does.
func eventList(ctx context.Context, s *session) error {
	filter, limit, err := s.eventFilter()
	if err != nil {
		return err
	}
	format, err := s.format()
	if err != nil {
		return err
	}
	follow, err := s.options.flag("follow")
	if err != nil {
		return err
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	if err := known(ctx, c, filter.Node); err != nil {
		return err
	}
	out := &eventWriter{session: s, json: format == "json", list: s.list(format, eventColumns(s.command.name == "audit"))}
	if filter.Since.IsZero() || limit > 0 {
		err = out.latest(ctx, c, filter, limit)
	} else {
		err = out.forward(ctx, c, filter)
	}
	if err != nil || !follow {
		return err
	}
	return out.follow(ctx, c, filter)
}

// known refuses the name of a node that there never was: one without any event, for those of a node stay after its end, and
// without a row. Who may not look at nodes is not told.
func known(ctx context.Context, c *client.Client, node string) error {
	if node == "" {
		return nil
	}
	page, err := c.Events(ctx, client.EventFilter{Node: node, Limit: 1})
	if err != nil || len(page.Events) > 0 {
		return err
	}
	_, err = c.Node(ctx, node)
	var missing *wire.ErrorDetail
	if errors.As(err, &missing) && missing.Code == wire.CodeNotFound {
		return err
	}
	return nil
}

// longestWait is between two tries to reach a gateway that does not answer.
const longestWait = 30 * time.Second

// follow goes on with new events until ctx ends. A gateway that is away, as in a restart, is waited for: what happened meanwhile
// comes behind the last event that was shown.
func (w *eventWriter) follow(ctx context.Context, c *client.Client, f client.EventFilter) error {
	wait := eventsPause
	for {
		err := w.pause(ctx, wait)
		if err == nil {
			err = w.forward(ctx, c, f)
		}
		var lost *lost
		switch {
		case err == nil && wait > eventsPause:
			fmt.Fprintln(w.Stderr, "muster: the gateway answers again")
			wait = eventsPause
		case err == nil:
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil // the way to end it
		case !errors.As(err, &lost) || !lost.passing():
			return err
		case wait < longestWait:
			wait = min(2*wait, longestWait)
			fmt.Fprintf(w.Stderr, "muster: %s; trying again every %s, until it answers or this is ended\n", printable(err.Error()), wait)
		}
	}
}

// lost is a question to the gateway that was not answered.
type lost struct{ err error }

func (l *lost) Error() string { return l.err.Error() }

func (l *lost) Unwrap() error { return l.err }

// passing tells trouble on the way, or in the gateway, from its word that the question is wrong.
func (l *lost) passing() bool {
	var refused *wire.ErrorDetail
	return !errors.As(l.err, &refused) || refused.Code == wire.CodeUnavailable || refused.Code == wire.CodeInternal
}

func (s *session) eventFilter() (f client.EventFilter, limit int, err error) {
	f.Node, f.Kind, f.Tenant = s.options.text("node"), s.options.text("kind"), s.options.text("tenant")
	if f.Security, err = s.options.flag("security"); err != nil {
		return f, 0, err
	}
	since, err := s.options.duration("since", 0)
	if err != nil {
		return f, 0, err
	}
	if since > 0 {
		f.Since = s.now().Add(-since)
	}
	limit, err = s.options.number("limit", 1)
	return f, limit, err
}

// eventWriter prints events and remembers the last one.
type eventWriter struct {
	*session
	json  bool
	list  *list
	shown bool // the header
	last  int64
}

// latest prints the newest events, at most limit of them.
func (w *eventWriter) latest(ctx context.Context, c *client.Client, f client.EventFilter, limit int) error {
	if limit == 0 {
		limit = usualEvents
	}
	var events []client.Event
	for len(events) < limit {
		f.Limit = min(limit-len(events), eventPage)
		page, err := c.Events(ctx, f)
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
func (w *eventWriter) forward(ctx context.Context, c *client.Client, f client.EventFilter) error {
	f.Forward, f.Limit = true, eventPage
	for {
		f.After = w.last
		page, err := c.Events(ctx, f)
		if err != nil {
			return &lost{err}
		}
		if err := w.write(page.Events); err != nil || len(page.Events) < f.Limit {
			return err
		}
	}
}

func (w *eventWriter) write(events []client.Event) error {
	rows := make([][]string, 0, len(events))
	for _, e := range events {
		w.last = max(w.last, e.ID)
		if !w.json {
			rows = append(rows, eventRow(e))
			continue
		}
		if err := w.writeJSON(e); err != nil {
			return err
		}
	}
	if w.json || w.shown && len(rows) == 0 {
		return nil
	}
	w.shown = true
	return w.list.write(rows)
}

// eventColumns keeps, where there is little room, what happened to which node and how it ended, or, for the audit, who did it.
func eventColumns(audit bool) []column {
	actor, detail := 4, 3
	if audit {
		actor, detail = 3, 4
	}
	return []column{{name: "TIME"}, {name: "KIND", least: 18, most: 30}, {name: "NODE", rank: 2, least: 12, most: 40}, {name: "ACTOR", rank: actor, least: 12, most: 40},
		{name: "FROM", rank: 5, least: 9, most: 40}, {name: "OUTCOME", rank: 1, least: 8, most: 24}, {name: "DETAIL", rank: detail, least: 14}}
}

func eventRow(e client.Event) []string {
	node := e.Node
	if node == "" {
		node = e.NodeID
	}
	return []string{stamp(&e.At), orUnknown(e.Kind), orUnknown(node), orUnknown(e.Actor), orUnknown(e.Address), orUnknown(e.Outcome),
		orUnknown(eventDetail(e.Detail))}
}

// eventDetail has what happened before the states between which it moved the node: a narrow screen cuts the end.
func eventDetail(detail map[string]string) string {
	var pairs, moved []string
	for _, key := range slices.Sorted(maps.Keys(detail)) {
		pair := printable(key + "=" + detail[key])
		if key == "from" || key == "to" {
			moved = append(moved, pair)
		} else {
			pairs = append(pairs, pair)
		}
	}
	return strings.Join(append(pairs, moved...), " ")
}
