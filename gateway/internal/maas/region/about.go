package region

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"muster/agent/wire"
)

// Version is which MAAS answers, such as 3.6.1. It is asked without the key: so a URL can be tried before the key goes there.
func (c *Client) Version(ctx context.Context) (string, error) {
	version := ""
	err := c.do(ctx, request{path: "version/", bare: true}, one(func(raw struct{ Version string }) error {
		if version = wire.Plain(raw.Version, longestWord); version == "" {
			return errors.New("it has no version")
		}
		return nil
	}))
	return version, err
}

// User is whose key the client has.
type User struct {
	Name  string
	Admin bool // commissioning, mark_fixed and tags are for admins
}

// WhoAmI says whose key it is.
func (c *Client) WhoAmI(ctx context.Context) (User, error) {
	var u User
	err := c.do(ctx, request{path: "users/", op: "whoami"}, one(func(raw struct {
		Username string
		Admin    maybe[bool] `json:"is_superuser"`
	}) error {
		u.Name = wire.Plain(raw.Username, longestWord)
		if u.Name == "" || raw.Admin.v == nil {
			return errors.New("it names no user")
		}
		u.Admin = *raw.Admin.v
		return nil
	}))
	return u, err
}

// Setting reads one of MAAS's settings, as the JSON that it is.
func (c *Client) Setting(ctx context.Context, name string) (json.RawMessage, error) {
	var value json.RawMessage
	r := request{path: "maas/", op: "get_config", query: url.Values{"name": {name}}}
	err := c.do(ctx, r, one(func(raw json.RawMessage) error { value = raw; return nil }))
	return value, err
}

// Event is a line of MAAS's log.
type Event struct {
	ID      int64
	Machine string    // its system_id; empty: none
	Level   string    // such as DEBUG
	At      time.Time // zero: not known
	Type    string    // such as Node changed status
	Text    string    // such as From 'Ready' to 'Allocated' (to ann)
	User    string
}

// Changed is the type of the event of a changed status.
const Changed = "Node changed status"

// MostEvents is how many Events gives at once.
const MostEvents = 1000

// Events gives the events that follow one, the oldest first. There are more if it gives MostEvents. After 0 it gives the newest. MAAS
// numbers events before it shows them, so one may come late and be missed: an event is a hint, and the list of machines is the truth.
func (c *Client) Events(ctx context.Context, after int64) ([]Event, error) {
	q := url.Values{"level": {"DEBUG"}, "limit": {strconv.Itoa(MostEvents)}}
	if after > 0 {
		q.Set("after", strconv.FormatInt(after, 10))
	}
	var events []Event
	err := c.do(ctx, request{path: "events/", op: "query", query: q}, one(func(raw rawEvents) error {
		var err error
		events, err = raw.events()
		return err
	}))
	return events, err
}

type rawEvents struct {
	Events []struct {
		ID                          maybe[int64]
		Node, Hostname              string
		Level, Created              string
		Type, Description, Username string
	}
}

// events checks the numbers, and turns the order.
func (r rawEvents) events() ([]Event, error) {
	if r.Events == nil || len(r.Events) > MostEvents {
		return nil, errors.New("it has no events")
	}
	events := make([]Event, len(r.Events))
	for i, raw := range r.Events {
		if raw.ID.or() <= 0 || i > 0 && raw.ID.or() >= events[i-1].ID {
			return nil, fmt.Errorf("event %d has no number, or not that of its place", i)
		}
		at, _ := time.Parse("Mon, 02 Jan. 2006 15:04:05", raw.Created)
		events[i] = Event{
			ID: raw.ID.or(), Machine: wire.Plain(raw.Node, longestWord), Level: wire.Plain(raw.Level, longestWord), At: at,
			Type: wire.Plain(raw.Type, longestWord), Text: wire.Plain(raw.Description, longestText), User: wire.Plain(raw.Username, longestWord),
		}
	}
	slices.Reverse(events)
	return events, nil
}
