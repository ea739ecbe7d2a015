package api

import (
	"time"

	"muster/agent/wire"
)

// Statuses of tokens and accounts.
const (
	StatusLive    = "live"
	StatusUsed    = "used" // every use of a token is taken
	StatusExpired = "expired"
	StatusRevoked = "revoked"
)

// UTC is a time in UTC: the API shows no other zone.
func UTC(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	u := at.UTC()
	return &u
}

// StatusUnheard is what people read of a node that is online by what was heard before the gateway's start, its restore or a standstill,
// and not since. In the API its status is online, with unheard.
const StatusUnheard = wire.StatusOnline + "?"

func statusText(status string, unheard bool) string {
	if unheard {
		return StatusUnheard
	}
	return status
}

// StatusText is the node's status as people read it.
func (n Node) StatusText() string { return statusText(n.Status, n.Unheard) }

// StatusText is the node's status as people read it.
func (g *NodeRow) StatusText() string { return statusText(g.Status, g.Unheard) }

// Each gives the shapes of rows. It is never nil, because a list in the API is never null.
func Each[Row, Shape any](rows []Row, shape func(Row) Shape) []Shape {
	out := make([]Shape, 0, len(rows))
	for _, row := range rows {
		out = append(out, shape(row))
	}
	return out
}

// Texts are these texts, and never null.
func Texts(texts map[string]string) map[string]string {
	if texts == nil {
		return map[string]string{}
	}
	return texts
}
