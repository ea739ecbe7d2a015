package metrics

import (
	"sync"

	"muster/agent/wire"
	"muster/gateway/internal/account"
)

// Bounds of answers that are being made at once. Each costs processor time, and memory while its caller is slow.
const (
	mostAnswers  = 16
	mostOfCaller = 4 // of one holder
)

// Room counts the answers that are being made, on all listeners. The zero value is ready. It is safe for concurrent use.
type Room struct {
	mu  sync.Mutex
	all int
	by  map[string]int // by holder
}

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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]int{}
	}
	if r.all >= mostAnswers || r.by[holder] >= mostOfCaller {
		return nil, wire.Refuse(wire.CodeTooManyRequests, "too many answers with metrics are being made",
			"ask again later; where this is usual, raise scrape_interval, or let one Prometheus ask")
	}
	r.all++
	r.by[holder]++
	return func() { r.leave(holder) }, nil
}

func (r *Room) leave(holder string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.by[holder]--; r.by[holder] == 0 {
		delete(r.by, holder)
	}
}
