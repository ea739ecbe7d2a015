package nodeapi

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/reply"
)

// newcomer says what the channel of a bootstrap script's node points at, and where the agent for an architecture is. A caller that accepts
// text/plain gets four lines, because a shell reads no JSON: the signed pointer, its signature, the place, the header that opens it. The
// first two are empty if there is no pointer that a newcomer should obey. The fetch part of the token is enough: whoever has it could
// get the agents that the gateway carries without it, and the header opens nothing else than the agents of one repository for some
// minutes.
func (a *API) newcomer(w http.ResponseWriter, r *http.Request, route *Route) {
	v, err := a.visited(r, route)
	var release *wire.Release
	if err == nil && a.Newcomer != nil {
		release, err = a.Newcomer(r.Context(), v.node, r.URL.Query().Get(wire.BootstrapArch))
	}
	if err != nil {
		a.refuseVisit(w, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case release == nil:
		w.WriteHeader(http.StatusNoContent)
	case reply.Prefers(r, "text/plain"):
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, lines(release))
	default:
		reply.Write(w, http.StatusOK, reply.JSON(release))
	}
}

func lines(r *wire.Release) string {
	var e sign.Envelope
	_ = json.Unmarshal(r.Pointer, &e) // the gateway made it, or has verified it
	return base64.StdEncoding.EncodeToString(e.Payload) + "\n" + base64.StdEncoding.EncodeToString(e.Signature) + "\n" + r.URL + "\n" +
		r.Authorization + "\n"
}
