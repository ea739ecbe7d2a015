package nodeapi

import (
	"context"
	"net/http"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/reply"
)

func (a *API) healthz(w http.ResponseWriter, _ *http.Request) {
	reply.Write(w, http.StatusOK, reply.JSON(map[string]string{"status": "ok"}))
}

func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	if err := a.Store.Ready(ctx); err != nil {
		a.Logger.Error("not ready: the database takes no writes", "error", err)
		a.Info.WriteError(w, refuse(wire.CodeUnavailable, "the database takes no writes", "see the gateway's log and the disk's free space"))
		return
	}
	reply.Write(w, http.StatusOK, reply.JSON(map[string]string{"status": "ready"}))
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
