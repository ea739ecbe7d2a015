package nodeapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/reply"
)

// healthz says only that the process answers. A supervisor that restarts the gateway should ask here and not at readyz: a restart does
// not mend a full disk.
func (a *API) healthz(w http.ResponseWriter, _ *http.Request) {
	reply.Write(w, http.StatusOK, reply.JSON(map[string]string{"status": "ok"}))
}

// readyz says whether the database takes writes, which is what a gateway needs to serve.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	if err := a.ready.check(ctx, a.Now(), a.Store.Ready); err != nil {
		a.Logger.Error("not ready: the database takes no writes", "error", err)
		a.Info.WriteError(w, wire.Refuse(wire.CodeUnavailable, "the database takes no writes", "see the gateway's log and the disk's free space"))
		return
	}
	answer := map[string]string{"status": "ready"}
	if a.Role != "" {
		answer["role"] = a.Role
	}
	reply.Write(w, http.StatusOK, reply.JSON(answer))
}

func (a *API) version(w http.ResponseWriter, _ *http.Request) {
	reply.Write(w, http.StatusOK, reply.JSON(map[string]any{"version": a.Version, "protocol": wire.ProtocolVersion}))
}

func (a *API) roots(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/pem-certificate-chain")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(a.Authority.RootPEM()))
}

func (a *API) trust(w http.ResponseWriter, _ *http.Request) {
	reply.Write(w, http.StatusOK, reply.JSON(map[string]any{"sets": a.Authority.TrustSets()}))
}

// recentCheck is how long the last look at the database counts: anyone may ask, and each look is a write.
const recentCheck = 2 * time.Second

// readiness is what the last look at the database found.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// check gives the last finding, or a new one where that is too old. Callers wait for one look together: the lock is held meanwhile.
func (r *readiness) check(ctx context.Context, now time.Time, look func(context.Context) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || now.Sub(r.at) >= recentCheck || now.Before(r.at) {
		r.at = now
		r.err = look(ctx)
	}
	return r.err
}
