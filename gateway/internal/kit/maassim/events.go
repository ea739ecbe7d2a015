package maassim

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

type event struct {
	id                int
	node, host        string
	level, kind, text string
	at                time.Time
}

// tell adds an event.
func (s *Sim) tell(m *Machine, level, kind, text string, at time.Time) {
	id := 1
	if n := len(s.events); n > 0 {
		id = s.events[n-1].id + 1
	}
	s.events = append(s.events, event{id, m.ID, m.Hostname, level, kind, text, at})
}

func (e event) json() map[string]any {
	return map[string]any{"id": e.id, "node": e.node, "hostname": e.host, "level": e.level, "type": e.kind, "description": e.text,
		"created": e.at.UTC().Format("Mon, 02 Jan. 2006 15:04:05"), "username": muster}
}

// queryEvents gives the newest first, in each case: after one, it is the oldest of those that follow, in that order.
func (s *Sim) queryEvents(c *call) reply {
	limit, err := strconv.Atoi(c.query.Get("limit"))
	switch {
	case c.query.Get("limit") == "":
		limit = usualEventLimit
	case err != nil:
		return form("limit", "Please enter an integer value")
	case limit > mostEvents:
		return text(http.StatusBadRequest, fmt.Sprintf("Requested number of events %d is greater than limit: %d", limit, mostEvents))
	}
	var found []event
	for _, e := range s.events {
		if e.level != "DEBUG" || c.query.Get("level") == "DEBUG" {
			if ids := c.query["id"]; len(ids) == 0 || slices.Contains(ids, e.node) {
				found = append(found, e)
			}
		}
	}
	if text := c.query.Get("after"); text != "" {
		after, err := strconv.Atoi(text)
		if err != nil {
			return form("after", "Please enter an integer value")
		}
		found = slices.DeleteFunc(found, func(e event) bool { return e.id <= after })
		found = found[:min(limit, len(found))]
	} else {
		found = found[max(0, len(found)-limit):]
	}
	slices.Reverse(found)
	shown := []any{}
	for _, e := range found {
		shown = append(shown, e.json())
	}
	return asJSON(http.StatusOK, map[string]any{"count": len(shown), "events": shown, "next_uri": "", "prev_uri": nil})
}
