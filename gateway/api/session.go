package api

import (
	"encoding/json"
	"time"

	"muster/agent/wire"
)

// Session is a session as the API shows it: bytes that go between an operator and a node.
type Session struct {
	ID           string            `json:"id"`
	Node         string            `json:"node"` // its name
	NodeID       string            `json:"node_id"`
	Tenant       string            `json:"tenant"`
	Type         string            `json:"type"`   // one of wire.SessionTypes
	Params       json.RawMessage   `json:"params"` // as they were signed, for who opened it and while it lives; else null
	About        map[string]string `json:"about"`  // what of them everybody may see: no arguments of programs
	Status       string            `json:"status"` // one of SessionStatuses
	CreatedBy    string            `json:"created_by"`
	Address      string            `json:"address"` // of who opened it
	CreatedAt    time.Time         `json:"created_at"`
	OpenedAt     *time.Time        `json:"opened_at"` // when the node said that it has begun
	EndedAt      *time.Time        `json:"ended_at"`
	End          string            `json:"end"` // why it ended, for people
	ExitCode     *int              `json:"exit_code"`
	BytesIn      *int64            `json:"bytes_in"`  // to the node; nil: lost with a gateway that was killed
	BytesOut     *int64            `json:"bytes_out"` // from the node; likewise
	Recorded     bool              `json:"recorded"`
	SigningKeyID string            `json:"signing_key_id"`
	IdleSeconds  int               `json:"idle_seconds"`  // it ends after so long without a byte
	LimitSeconds int               `json:"limit_seconds"` // it ends after so long in any case
}

// States of a session.
const (
	SessionWaiting = "waiting" // for its node
	SessionOpen    = "open"
	SessionEnded   = "ended"
)

// SessionStatuses are all states of a session.
func SessionStatuses() []string { return []string{SessionWaiting, SessionOpen, SessionEnded} }

// SessionAsk asks for a session. Either Type and Params are given, and the gateway signs; or Signed is, with an operator's key.
type SessionAsk struct {
	Type   string           `json:"type,omitempty"`
	Params json.RawMessage  `json:"params,omitempty"`
	Signed *wire.SignedTask `json:"signed,omitempty"`
}

// SessionPage is one page of a list of sessions, newest first.
type SessionPage struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next"` // cursor of the next page, empty on the last
}

// SessionFilter picks sessions. A zero field does not count.
type SessionFilter struct {
	Node   string `json:"-"` // it is part of the path
	Type   string `json:"type,omitempty"`
	Status string `json:"status,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Limit  int    `json:"limit,omitempty" most:"1000" usual:"100"`
	Cursor string `json:"cursor,omitempty"`
}

// Path returns the path of the sessions with a node, or with all nodes.
func (f SessionFilter) Path() string {
	if f.Node == "" {
		return PathSessions
	}
	return At(PathNodeSessions, f.Node)
}

// ParamChannel is the parameter of a session's stream that names the channel; without it, it is pipe.Main.
const ParamChannel = "channel"

// WatchKind is the media type of what a watcher of a session reads: frames of package pipe, Output and Size, and at last Exit.
const WatchKind = "application/vnd.muster.frames"
