package nodeapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"

	"muster/agent/sign"
	"muster/agent/wire"
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
	switch {
	case err != nil:
		a.refuseVisit(w, err)
	case release == nil:
		write(w, http.StatusNoContent, nil)
	default:
		var e sign.Envelope
		_ = json.Unmarshal(release.Pointer, &e) // the gateway made it, or has verified it
		lend(w, r, release, base64.StdEncoding.EncodeToString(e.Payload), base64.StdEncoding.EncodeToString(e.Signature), release.URL,
			release.Authorization)
	}
}
