package nodeapi

import (
	"net/http"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/reply"
)

// sameProtocol is the hint for a signature that cannot be read.
const sameProtocol = "the agent and the gateway must be of the same protocol"

// node answers a request that has to prove a node's identity. The answer is proven too.
func (a *API) node(w http.ResponseWriter, r *http.Request, route *Route) {
	signature, err := signatureOf(r, "something between may have changed them; "+sameProtocol)
	var answer any
	if err == nil {
		answer, err = a.proven(w, r, signature, route)
	}
	if file, ok := answer.(Content); ok {
		a.send(w, r, signature, file)
		return
	}
	a.answer(w, signature, answer, err)
}

// signatureOf reads the signature of a request; nil if it has none. The refusal of one that cannot be read has the given hint.
func signatureOf(r *http.Request, hint string) (*sign.Signature, error) {
	signature, err := sign.ParseRequest(r)
	switch err {
	case nil:
		return signature, nil
	case sign.ErrUnsigned:
		return nil, nil
	}
	return nil, wire.Refuse(wire.CodeBadSignature, "the signature headers cannot be read: "+err.Error(), hint)
}

// proven checks the proof before it reads the body, so that a stranger cannot make the gateway hold bodies in memory. Reading may take
// long, so the identity is checked once more after it.
func (a *API) proven(w http.ResponseWriter, r *http.Request, s *sign.Signature, route *Route) (any, error) {
	proof := a.proof(r, s)
	id, err := a.identify(r, s, route.Purpose, proof)
	if err != nil {
		return nil, err
	}
	httpserver.Prove(r.Context(), id.NodeID)
	body, err := reply.ReadBody(w, r, route.MaxBody, route.BodyTime)
	if err != nil {
		return nil, err
	}
	if s != nil {
		if err := whole(r, body); err != nil {
			return nil, err
		}
	}
	if id, err = a.Fleet.Use(r.Context(), id, route.Purpose); err != nil {
		return nil, err
	}
	return route.Node(r.Context(), Call{Identity: id, Body: body, Proof: proof, request: r, signed: s != nil})
}

// whole refuses a body that is not the one which a verified signature covers.
func whole(r *http.Request, body []byte) error {
	if sign.VerifyDigest(r.Header.Get("Content-Digest"), body) == nil {
		return nil
	}
	return wire.Refuse(wire.CodeBadDigest, "the body is not the one that was signed", "something between the node and the gateway changed it")
}
