package session

import (
	"time"

	"muster/agent/wire"
)

const (
	// updateTime is how long an update of the agent waits for sessions. Then it ends them.
	updateTime = time.Hour
	// stuckTime is how long it then waits for their ends. A disk that does not answer may keep one for ever.
	stuckTime = 5 * time.Minute
	// holdPause is more than the time between two calls of Hold for one update.
	holdPause = 5 * time.Minute
)

// Hold keeps new sessions out until release is called, if no session is open. It returns false if one is open. If that happened again and
// again for an hour, it ends the open sessions. It does not wait any longer for a session that does not end after that.
func (h *Host) Hold() (release func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if now.Sub(h.asked) > holdPause {
		h.waited = now
	}
	h.asked = now
	waited := now.Sub(h.waited)
	if len(h.open) > 0 && waited >= updateTime {
		h.endAll()
	}
	if len(h.open) > 0 && waited < updateTime+stuckTime {
		return nil, false
	}
	h.asked = time.Time{}
	h.shut = wire.Refuse(wire.CodeUnavailable, errUpdate.Error(), "the new version takes them")
	return h.letIn, true
}

func (h *Host) endAll() {
	for id, cancel := range h.open {
		h.Logger.Info("session is ended for an update of the agent", "session", id)
		cancel(errUpdate)
	}
}

func (h *Host) letIn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.Err() == nil {
		h.shut = nil
	}
}
