package metrics

import (
	"muster/agent/wire"
	"muster/gateway/internal/account"
	"muster/gateway/internal/httpserver/limit"
)

// Bounds of answers that are being made at once. Each costs processor time, and memory while its caller is slow.
const (
	mostAnswers  = 16
	mostOfCaller = 4 // of one holder
)

// Room counts the answers that are being made, on all listeners. The zero value is ready. It is safe for concurrent use.
type Room struct{ places limit.Places }

// holder is under which name the answers to a caller are counted. A tenant makes accounts of its own: all of them share one part of the
// room, so that no tenant takes it from the others.
func holder(c account.Caller) string {
	if c.Tenant != "" {
		return "tenant/" + c.Tenant
	}
	return c.Account.ID
}

// enter counts an answer until leave is called.
func (r *Room) enter(holder string) (leave func(), err error) {
	if leave, err = r.places.Enter(holder, 1, mostOfCaller, mostAnswers); err != nil {
		return nil, wire.Refuse(wire.CodeTooManyRequests, "too many answers with metrics are being made",
			"ask again later; where this is usual, raise scrape_interval, or let one Prometheus ask")
	}
	return leave, nil
}
