package api

import "time"

// Event is one row of the log.
type Event struct {
	ID       int64             `json:"id"`
	At       time.Time         `json:"at"`
	Kind     string            `json:"kind"`
	Actor    string            `json:"actor"`
	NodeID   string            `json:"node_id"`
	Node     string            `json:"node"` // its name
	Tenant   string            `json:"tenant"`
	Address  string            `json:"address"`
	Outcome  string            `json:"outcome"`
	Detail   map[string]string `json:"detail"`
	Security bool              `json:"security"`
}

// EventList answers GET events: newest first, but oldest first if the request has after.
type EventList struct {
	Events []Event `json:"events"`
}

// EventFilter picks events. A zero field does not count.
type EventFilter struct {
	Node     string    `json:"node,omitempty"`
	Actor    string    `json:"actor,omitempty"` // as events have it, or without its kind: account:ci or ci
	Kind     string    `json:"kind,omitempty"`
	Tenant   string    `json:"tenant,omitempty"`
	Security bool      `json:"security,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	After    *int64    `json:"after,omitempty"`  // oldest first, those after this id
	Before   int64     `json:"before,omitempty"` // this id
	Limit    int       `json:"limit,omitempty" most:"1000" usual:"100"`
}
