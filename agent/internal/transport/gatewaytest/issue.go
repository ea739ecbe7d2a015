package gatewaytest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"

	"muster/agent/sign"
	"muster/agent/wire"
)

// NodeID is the id of every node that this gateway enrols.
const NodeID = "n0123456789"

// Enrolment names the enrolment of every node.
const Enrolment = "e0123456789"

// Domain is the gateway's trust domain.
const Domain = "muster-test"

func (g *Gateway) register(q Request, r *http.Request) *Reply {
	presented, err := sign.ParseAuthorization(q.Header.Get("Authorization"))
	if err != nil {
		return Refusal(401, wire.CodeBadAuthorization)
	}
	key := g.credential(presented.CredentialID)
	if key == nil {
		return Refusal(401, wire.CodeUnknownCredential)
	}
	if presented.Verify(key, q.Body) != nil {
		return Refusal(401, wire.CodeBadMAC)
	}
	var request wire.RegisterRequest
	if json.Unmarshal(q.Body, &request) != nil {
		return Refusal(400, wire.CodeBadRequest)
	}
	now := g.Now().UTC()
	if now.Sub(request.Time).Abs() > wire.EnrollWindow {
		return g.JSON(401, wire.Error{Error: wire.ErrorDetail{Code: wire.CodeClockSkew}, Time: &now})
	}
	if q.Signature != nil {
		if refusal := g.identify(q, r); refusal != nil && !bytes.Contains(refusal.Body, []byte(wire.CodeUnknownCertificate)) {
			return refusal // an unknown key proves nothing, and the request is good without it
		}
	}
	return g.welcome(request)
}

// welcome gives the recorded answer to a key that was seen before, and token_used to another one.
func (g *Gateway) welcome(request wire.RegisterRequest) *Reply {
	csr := parseCSR(request.CSR)
	if csr == nil {
		return Refusal(400, wire.CodeBadCSR)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if recorded := g.welcomes[string(csr.RawSubjectPublicKeyInfo)]; recorded != nil {
		return &Reply{Status: 200, Body: recorded}
	}
	if len(g.welcomes) > 0 {
		return Refusal(409, wire.CodeTokenUsed)
	}
	g.generation = 1
	welcome := wire.Welcome{
		Protocol: 1, NodeID: NodeID, Enrolment: Enrolment, Name: request.Name, Tenant: "default", Certificate: g.issue(csr), Generation: 1,
		Roots: g.CA.RootPEM(), TrustKey: sign.EncodeKey(g.Trust.Public().(ed25519.PublicKey)),
		AnswerKey: sign.EncodeKey(g.Answer.Public().(ed25519.PublicKey)), Epoch: g.Epoch, IntervalSeconds: g.Interval, Time: g.Now().UTC(),
	}
	welcome.Trust = g.firstSet()
	if len(g.Sets) > 0 {
		welcome.Trust = g.Sets[len(g.Sets)-1]
	}
	if g.Welcome != nil {
		g.Welcome(&welcome)
	}
	body, _ := json.Marshal(welcome)
	g.welcomes[string(csr.RawSubjectPublicKeyInfo)] = body
	return &Reply{Status: 201, Body: body}
}

// firstSet is the trust set with number 1. It has the same bytes each time.
func (g *Gateway) firstSet() json.RawMessage {
	key := func(k ed25519.PrivateKey) string { return sign.EncodeKey(k.Public().(ed25519.PublicKey)) }
	set := wire.TrustSet{
		Number: 1, IssuedAt: g.CA.Root.NotBefore, TrustDomain: Domain, TrustKey: key(g.Trust), Roots: g.CA.RootPEM(),
		AnswerKeys: []string{key(g.Answer)},
	}
	for _, one := range g.Tasks {
		set.TaskKeys = append(set.TaskKeys, key(one))
	}
	return g.TrustSet(set)
}

// TrustSet signs a set.
func (g *Gateway) TrustSet(set wire.TrustSet) json.RawMessage {
	payload, _ := json.Marshal(set)
	raw, _ := json.Marshal(sign.Seal(g.Trust, sign.RoleTrust, payload))
	return raw
}

func (g *Gateway) renew(q Request) *Reply {
	var request wire.RenewRequest
	if json.Unmarshal(q.Body, &request) != nil {
		return Refusal(400, wire.CodeBadRequest)
	}
	csr := parseCSR(request.CSR)
	if csr == nil {
		return Refusal(400, wire.CodeBadCSR)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.generation++
	return g.JSON(200, wire.RenewAnswer{Certificate: g.issue(csr), Generation: g.generation, Time: g.Now().UTC()})
}

func (g *Gateway) issue(csr *x509.CertificateRequest) string {
	key := csr.PublicKey.(*ecdsa.PublicKey)
	leaf, chain := g.CA.Node(key, NodeID, g.Now(), g.TTL)
	g.keys[fingerprint(leaf)] = key
	return chain
}

// Forget makes the gateway forget every certificate that it issued, except these.
func (g *Gateway) Forget(keep ...*x509.Certificate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.keys)
	for _, certificate := range keep {
		g.keys[fingerprint(certificate)] = certificate.PublicKey.(*ecdsa.PublicKey)
	}
}

func parseCSR(text string) *x509.CertificateRequest {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		return nil
	}
	return csr
}
