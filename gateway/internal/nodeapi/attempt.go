package nodeapi

import (
	"cmp"
	"net/http"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/reply"
	"muster/store"
)

// attempt is what is known of a request to the path of registering before anything answers it.
type attempt struct {
	presented sign.Presented
	token     store.Token
	err       error // why there is no credential on record, or what is wrong with the header
	known     bool  // the credential is on record

	raw    []byte // the body
	broken error  // why the body could not be read
	nonce  string // in the body
	secret bool   // the body holds a secret
	psk    string // the id of the live PSK that the body holds
}

// attemptKey is where a request's context holds its attempt.
type attemptKey struct{}

// attemptOf is what Guard has found of a request to the path of registering.
func attemptOf(r *http.Request) *attempt { return r.Context().Value(attemptKey{}).(*attempt) }

// look finds the credential first, and then reads the body: the nonce in it proves a refusal, and it may hold a secret that was sent
// instead of a proof of it.
func (a *API) look(w http.ResponseWriter, r *http.Request, route *Route) *attempt {
	at := &attempt{}
	at.presented, at.err = named(r.Header["Authorization"])
	if at.presented.CredentialID != "" {
		token, err := a.Bootstrap.Credential(r.Context(), at.presented.CredentialID)
		at.token, at.known = token, err == nil
		at.err = cmp.Or(at.err, err)
	}
	if at.raw, at.broken = reply.ReadBody(w, r, route.MaxBody, route.BodyTime); at.broken == nil {
		at.psk = a.Bootstrap.PSKInBody(r.Context(), at.raw)
		at.nonce, at.secret = inspect(at.raw)
		at.secret = at.secret || at.psk != ""
	}
	return at
}

// prover writes an answer with its proof. The whole body comes in one Write, as reply.Write does it.
type prover struct {
	http.ResponseWriter
	at     *attempt
	empty  bool // the answer is sent without its body
	status int
}

// WriteHeader keeps the status until the body comes: the proof covers both, and stands in a header.
func (p *prover) WriteHeader(status int) { p.status = status }

func (p *prover) Write(body []byte) (int, error) {
	proven := body
	if p.empty {
		proven = nil
	}
	p.Header().Set(wire.HeaderProof, sign.WelcomeProof(p.at.token.Key, p.at.nonce, p.status, proven))
	p.ResponseWriter.WriteHeader(p.status)
	return p.ResponseWriter.Write(body)
}

// Unwrap lets an http.ResponseController through.
func (p *prover) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// named reads the one Authorization header of a register request. If that names a credential and has no good MAC, it gives the
// credential with the refusal.
func named(header []string) (sign.Presented, error) {
	if len(header) != 1 {
		return firstNamed(header), wire.Refuse(wire.CodeBadAuthorization, "a register request needs one Authorization header",
			`Authorization: Muster credential="<id>", mac="<base64>"; the agent makes it from the token: muster-agent run --gateway URL`)
	}
	presented, err := sign.ParseAuthorization(header[0])
	if err != nil {
		return presented, wire.Refuse(wire.CodeBadAuthorization, err.Error(), `it looks like: Muster credential="<id>", mac="<base64>"`)
	}
	return presented, nil
}

// firstNamed finds the first of several headers that names a credential. The key of that one proves the refusal.
func firstNamed(headers []string) sign.Presented {
	for _, header := range headers {
		if presented, _ := sign.ParseAuthorization(header); presented.CredentialID != "" {
			return presented
		}
	}
	return sign.Presented{}
}
