package nodeapi

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/account/secret"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/view/reading"
	"muster/store"
)

// register answers POST /nodes/register. If the credential is on record, every answer is proven with its key.
func (a *API) register(w http.ResponseWriter, r *http.Request, _ *Route) {
	admission, err := a.admission(r, attemptOf(r))
	if err != nil {
		a.refuseVisit(w, err)
		return
	}
	httpserver.Prove(r.Context(), admission.Node.ID)
	status := http.StatusOK
	if admission.New {
		status = http.StatusCreated
	}
	write(w, status, reply.JSON(a.welcome(r.Context(), admission)))
}

// admission checks, in this order: that no secret was sent, the credential, the body, the proof.
func (a *API) admission(r *http.Request, at *attempt) (fleet.Admission, error) {
	if text := secretIn(r); text != "" {
		return fleet.Admission{}, a.misused(r, visit{}, sentInstead(text, ""))
	}
	if at.err != nil {
		return fleet.Admission{}, a.noCredential(r, at)
	}
	if at.broken != nil {
		return fleet.Admission{}, at.broken
	}
	if err := a.Bootstrap.Proven(r.Context(), at.presented, at.token, at.raw, a.Address(r)); err != nil {
		if at.secret { // others may know it now, whoever sent it
			_ = a.misused(r, visit{}, sentInstead(string(at.raw), at.psk))
		}
		return fleet.Admission{}, err
	}
	return a.admit(r, at)
}

// noCredential refuses a request whose credential is not on record, or whose header is not good. A secret in the body goes first.
func (a *API) noCredential(r *http.Request, at *attempt) error {
	var unknown *wire.ErrorDetail
	switch {
	case at.secret:
		return a.misused(r, visit{}, sentInstead(string(at.raw), at.psk))
	case at.broken != nil && len(r.Header["Authorization"]) != 1:
		return at.broken
	case !at.known && errors.As(at.err, &unknown) && strings.HasPrefix(at.presented.CredentialID, string(sign.BootstrapToken)+"_"):
		return a.misused(r, visit{}, exposure{refusal: at.err, text: at.presented.CredentialID})
	}
	return at.err
}

// secretIn gives the header in which a secret itself is sent, empty if none is. Guard has looked at the query.
func secretIn(r *http.Request) string {
	for _, value := range r.Header["X-Cluster-Token"] {
		if value != "" {
			return value
		}
	}
	if text := secret.Header(r.Header["Authorization"]); secret.Carries(text) {
		return text
	}
	return ""
}

// sentInstead is a secret in a text that was sent instead of a proof of it. psk is the id of the PSK that it is, where that is known.
func sentInstead(text, psk string) exposure {
	if psk != "" || secret.HasPSK(text) {
		return exposure{plainPSK(), text, psk}
	}
	return exposure{refusal: plaintext(), text: text}
}

// admit reads a proven body and asks the fleet for an identity.
func (a *API) admit(r *http.Request, at *attempt) (fleet.Admission, error) {
	token := at.token
	raw := at.raw
	var q wire.RegisterRequest
	if err := sign.DecodeOnce(raw, &q); err != nil {
		return fleet.Admission{}, wire.Refuse(wire.CodeBadRequest, "the body is not a register request in JSON, or holds a key twice",
			"see the agent's version: muster-agent version")
	}
	if at.secret {
		err := a.misused(r, visit{}, sentInstead(string(raw)+" "+token.ID, at.psk))
		if told := noToken(&q); told != nil && at.psk == "" { // that says where it stands
			err = told
		}
		return fleet.Admission{}, err
	}
	if nonce, err := base64.StdEncoding.DecodeString(q.Nonce); err != nil || len(nonce) != 16 {
		return fleet.Admission{}, wire.Refuse(wire.CodeBadRequest, "the nonce is not 16 bytes in base64",
			"every attempt needs 16 new random bytes")
	}
	if err := a.Bootstrap.Timely(token.ID, q.Nonce, q.Time); err != nil {
		return fleet.Admission{}, err
	}
	csr, err := a.checkRequest(&q)
	if err != nil {
		return fleet.Admission{}, err
	}
	id, err := a.alsoSigned(r, raw)
	if err != nil {
		return fleet.Admission{}, err
	}
	hardware, notices := reading.OfRegister(&q)
	return a.Fleet.Enrol(r.Context(), fleet.Applicant{
		Hardware: hardware, Notices: notices, Credential: token, IsPSK: sign.IsPSKID(token.ID), Request: &q,
		KeyHash:  authority.KeyHash(csr.RawSubjectPublicKeyInfo),
		Identity: id, Address: a.Address(r), Issue: func(ctx context.Context, nodeID string) (store.Certificate, error) {
			return a.Issuer.Issue(ctx, authority.Request{NodeID: nodeID, CSR: csr})
		},
	})
}

// checkRequest refuses what is wrong whatever the credential is.
func (a *API) checkRequest(q *wire.RegisterRequest) (*x509.CertificateRequest, error) {
	if q.Protocol != wire.ProtocolVersion {
		return nil, wire.Refuse(wire.CodeBadRequest, "the agent speaks another protocol than this gateway",
			"fetch the agent from this gateway: GET /agent")
	}
	if agent := reply.JSON(q.Agent); len(agent) > wire.MaxSelf {
		return nil, wire.Refuse(wire.CodeBadRequest, "agent is not a small object", "see wire.AgentInfo")
	}
	if err := noToken(q); err != nil {
		return nil, err
	}
	for _, err := range []error{wire.CheckName(q.Name), wire.CheckLabels(q.Labels), wire.CheckInstance(q.Provider, q.InstanceID),
		reading.CheckObject(q.Hardware)} {
		if err != nil {
			return nil, err
		}
	}
	csr, err := authority.CheckCSR(q.CSR, authority.Subject{Names: []string{q.Name}})
	if err != nil {
		return nil, wire.Refuse(wire.CodeBadCSR, err.Error(), "the agent asks for a P-256 key and nothing more than its own name")
	}
	return csr, nil
}

// noToken refuses a token in a field that everybody is shown.
func noToken(q *wire.RegisterRequest) error {
	if secret.TokenLike(q.Name) {
		return wire.Refuse(wire.CodeBadName, "the node's name looks like a token",
			"choose another with --name, and revoke the token if it is one: muster token revoke ID")
	}
	for key, value := range q.Labels {
		if secret.Redact(key+"="+value) != key+"="+value {
			return wire.Refuse(wire.CodeBadLabel, "a label holds a token",
				"labels are shown to everybody: leave it out, and revoke the token if it is one: muster token revoke ID")
		}
	}
	for _, text := range [...]string{q.Provider, q.InstanceID, q.Agent.Version, q.Agent.OS, q.Agent.Arch} {
		if secret.TokenLike(text) {
			return wire.Refuse(wire.CodeBadRequest, "what the request says of its machine or agent looks like a token",
				"provider, instance and agent are shown to everybody: leave it out, and revoke the token if it is one: muster token revoke ID")
		}
	}
	return nil
}

// alsoSigned gives the identity of a node whose present key signs the register request too. So a machine proves that it is the node
// whose name it asks for.
func (a *API) alsoSigned(r *http.Request, raw []byte) (*fleet.Identity, error) {
	s, err := sign.ParseRequest(r)
	if err == sign.ErrUnsigned {
		return nil, nil
	}
	if err != nil {
		return nil, wire.Refuse(wire.CodeBadSignature, err.Error(), "leave the signature out, or sign with the node's present key")
	}
	id, err := a.Fleet.Identity(r.Context(), s.Fingerprint)
	if _, is := errors.AsType[*wire.ErrorDetail](err); is {
		return nil, nil // a key that is not on record proves nothing, and the request is good without it
	}
	if err != nil {
		return nil, err
	}
	if err := a.signed(r, s, id); err != nil {
		return nil, err
	}
	if sign.VerifyDigest(r.Header.Get("Content-Digest"), raw) != nil || a.Fleet.Check(id, fleet.ForEnrolment) != nil {
		return nil, nil
	}
	return id, a.fresh(s, id)
}

func (a *API) welcome(ctx context.Context, ad fleet.Admission) wire.Welcome {
	pinned := a.Authority.Welcome()
	welcome := wire.Welcome{
		Protocol: wire.ProtocolVersion, NodeID: ad.Node.ID, Enrolment: ad.Node.EnrolmentID, Name: ad.Node.Name, Tenant: ad.Node.Tenant,
		Certificate: ad.Certificate.Chain, Generation: ad.Certificate.Generation, Roots: pinned.Roots,
		TrustKey: sign.EncodeKey(pinned.Key), Trust: pinned.Set,
		AnswerKey: sign.EncodeKey(pinned.AnswerKey), Epoch: a.Info.Epoch,
		IntervalSeconds: int(a.Interval.Seconds()), GPUsExpected: ad.Node.GPUsExpected, Time: a.Now().UTC(),
		Gateways: a.Gateways(),
	}
	if a.Releases != nil {
		welcome.Channel, welcome.ChannelSequence = a.Releases.Floor(ctx, ad.Node.ID)
	}
	return welcome
}
