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

// EventList answers GET events: newest first, but oldest first where the request has after.
type EventList struct {
	Events []Event `json:"events"`
}

// EventFilter picks events. A zero field does not count.
type EventFilter struct {
	Node, Kind, Tenant string
	Security           bool
	Since              time.Time
	Forward            bool  // oldest first, those after the id After
	After, Before      int64 // ids
	Limit              int
}
