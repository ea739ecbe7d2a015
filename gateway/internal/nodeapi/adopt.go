package nodeapi

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/view/reading"
)

// adopt answers a node whose certificate is not on record because the gateway was restored from an older backup. The node shows the
// certificate, and proves that it holds the key, as for any request.
func (a *API) adopt(w http.ResponseWriter, r *http.Request, route *Route) {
	signature, err := signatureOf(r, sameProtocol)
	var answer any
	if err == nil {
		answer, err = a.adopted(w, r, signature, route)
	}
	a.answer(w, signature, answer, err)
}

func (a *API) adopted(w http.ResponseWriter, r *http.Request, s *sign.Signature, route *Route) (any, error) {
	body, err := reply.ReadBody(w, r, route.MaxBody, route.BodyTime)
	if err != nil {
		return nil, err
	}
	var q wire.AdoptRequest
	if reading.Decode(body, &q) != nil || q.Generation < 0 || q.Generation > wire.MaxGeneration {
		return nil, wire.Refuse(wire.CodeBadRequest, "the body does not show a certificate in JSON", `{"certificate":"PEM","generation":1}`)
	}
	leaf, between, err := chainOf(q.Certificate)
	if err != nil {
		return nil, err
	}
	if err := a.holdsKey(r, s, leaf, body); err != nil {
		return nil, err
	}
	if err := a.issued(leaf, between, r.PathValue("id")); err != nil {
		return nil, err
	}
	generation, err := a.Fleet.Adopt(r.Context(), fleet.Adoptee{
		NodeID: r.PathValue("id"), Leaf: leaf, Chain: q.Certificate, Generation: q.Generation, Address: a.Address(r),
	})
	if err != nil {
		return nil, err
	}
	return wire.AdoptAnswer{Generation: generation, Time: a.Now().UTC()}, nil
}

// chainOf reads a leaf and the certificates between it and a root.
func chainOf(bundle string) (*x509.Certificate, *x509.CertPool, error) {
	var leaf *x509.Certificate
	between := x509.NewCertPool()
	for block, rest := pem.Decode([]byte(bundle)); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			break
		}
		if leaf == nil {
			leaf = certificate
			continue
		}
		between.AddCert(certificate)
	}
	if leaf != nil {
		if _, ok := leaf.PublicKey.(*ecdsa.PublicKey); ok {
			return leaf, between, nil
		}
	}
	return nil, nil, wire.Refuse(wire.CodeBadRequest, "the body holds no node's certificate in PEM",
		"send the chain as the gateway issued it, leaf first")
}

// holdsKey checks that the caller holds the certificate's key, by the TLS handshake, by a signature, or by both.
func (a *API) holdsKey(r *http.Request, s *sign.Signature, leaf *x509.Certificate, body []byte) error {
	sum := sha256.Sum256(leaf.Raw)
	fingerprint := hex.EncodeToString(sum[:])
	direct := clientFingerprint(r)
	switch {
	case direct == "" && s == nil:
		return wire.Refuse(wire.CodeNoIdentity, "this request carries neither a client certificate nor a signature",
			"sign it with the key of the certificate that it shows")
	case direct != "" && direct != fingerprint || s != nil && s.Fingerprint != fingerprint:
		return wire.Refuse(wire.CodeIdentityMismatch, "the request is proven by another certificate than it shows", "use one identity for both")
	case s == nil:
		return nil
	}
	if err := a.signed(r, s, &fleet.Identity{Key: leaf.PublicKey.(*ecdsa.PublicKey)}); err != nil {
		return err
	}
	return whole(r, body)
}

// issued checks that this gateway's issuer made the certificate for this node. It accepts one that has expired: the fleet judges that.
func (a *API) issued(leaf *x509.Certificate, between *x509.CertPool, nodeID string) error {
	roots := x509.NewCertPool()
	for _, root := range append(a.Authority.Roots(), a.Issuer.Roots()...) {
		roots.AddCert(root)
	}
	at := a.Now()
	if at.After(leaf.NotAfter) {
		at = leaf.NotAfter.Add(-time.Second)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	names := len(leaf.URIs) == 1 && leaf.URIs[0].String() == a.Authority.NodeURI(nodeID) &&
		len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) == 0
	if err == nil && (leaf.IsCA || !names) {
		err = errors.New("it does not name this node alone")
	}
	if err != nil {
		return wire.Refuse(wire.CodeUnknownCertificate, "this certificate is not on record here, nor one that this gateway issued to the node",
			"enrol this machine again with a new token: muster token create")
	}
	return nil
}
