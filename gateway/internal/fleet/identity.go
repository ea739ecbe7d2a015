package fleet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"errors"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/httpserver/limit"
	"muster/store"
)

// Identity is one certificate on record and its node, as both were when they were looked up. Many requests share one
// Identity, so nobody may change it.
type Identity struct {
	NodeID      string
	Name        string
	Tenant      string
	Enrolment   string // that the certificate was issued in
	Fingerprint string // hex SHA-256 of the certificate's DER
	Generation  int
	Key         *ecdsa.PublicKey
	NotAfter    time.Time
	State       State
	Person      bool // a person put the node where it is
	Reasons     []store.Reason
	Replay      *limit.Memory // nonces that this identity has used

	certificate  string // one of the store's Certificate constants
	reenrolled   bool   // the node has a later enrolment
	banned       bool
	firstUsed    bool
	recovery     *time.Time // until then an operator lets it renew, however long ago it expired
	gpusExpected int        // how many GPUs the record says that the node has; 0: no record
	gpusSaid     bool       // a person set gpusExpected
	gpusAsSeen   bool       // a person wants the number that is seen; what the node remembers does not count
	succeeded    *time.Time // when a later certificate was first used; nil: none was
}

// Identity finds a certificate by its fingerprint. A fingerprint that is not on record is refused with code
// unknown_certificate. Check decides whether a known one may be used.
func (f *Fleet) Identity(ctx context.Context, fingerprint string) (*Identity, error) {
	f.watch(ctx)
	id, version := f.cache.lookup(fingerprint)
	if id != nil {
		return id, nil
	}
	row, err := f.store.Identity(ctx, fingerprint)
	if errors.Is(err, store.ErrNotFound) {
		return nil, wire.Refuse(
			wire.CodeUnknownCertificate, "this certificate is not on record here",
			"if the gateway was replaced or restored, enrol the node again with a new token")

	}
	if err != nil {
		return nil, err
	}
	id, err = identityOf(row, f.replay(row.Certificate.NodeID))
	if err != nil {
		return nil, err
	}
	f.cache.keep(id, version)
	return id, nil
}

// Reasons returns the names of the reasons that the identity's node has now. It reads the database only if the node has just
// changed. If that fails it returns nil: the request itself was good, and must not fail for this.
func (f *Fleet) Reasons(ctx context.Context, id *Identity) []string {
	now, err := f.Identity(ctx, id.Fingerprint)
	if err != nil {
		return nil
	}
	var names []string
	for _, reason := range now.Reasons {
		names = append(names, reason.Reason)
	}
	return names
}

// identityOf makes an Identity from its row. A key of another kind on record is a fault of the database.
func identityOf(row store.Identity, replay *limit.Memory) (*Identity, error) {
	public, err := x509.ParsePKIXPublicKey(row.Certificate.PublicKey)
	if err != nil {
		return nil, err
	}
	key, ok := public.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("a certificate on record has no P-256 key: " + row.Certificate.Fingerprint)
	}
	id := &Identity{
		NodeID: row.Certificate.NodeID, Name: row.NodeName, Tenant: row.Tenant, Enrolment: row.Certificate.EnrolmentID,
		Fingerprint: row.Certificate.Fingerprint, Generation: row.Certificate.Generation, Key: key,
		NotAfter: row.Certificate.NotAfter, State: State(row.State), Reasons: row.Reasons, Replay: replay,
		certificate: row.Certificate.Status, banned: row.Banned, firstUsed: row.Certificate.FirstUsedAt != nil,
		reenrolled: row.NodeEnrolmentID != row.Certificate.EnrolmentID, recovery: row.RecoveryUntil, succeeded: row.SuccessorUsedAt,
		gpusExpected: row.GPUsExpected, gpusSaid: row.GPUsSaid, gpusAsSeen: row.GPUsAsSeen,
	}
	id.Person = personSet(row.Reasons)
	return id, nil
}

// AddCertificate records the certificate of the next generation. It becomes the node's certificate when it is first used. If
// the present certificate has expired, this is a recovery: it is counted, and its event is one for the auditor.
func (f *Fleet) AddCertificate(ctx context.Context, id *Identity, next store.Certificate, address string) error {
	e := f.event("certificate.issued", id.about(), itself(id.NodeID, address),
		map[string]string{"fingerprint": next.Fingerprint, "generation": strconv.Itoa(next.Generation)})
	next.Status = store.CertificatePending
	next.IssuedAt = e.At
	next.Recovery = e.At.After(id.NotAfter)
	if next.Recovery {
		e.Kind = "certificate.recovered"
		e.Security = true
		e.Detail["expired"] = id.NotAfter.UTC().Format(time.RFC3339)
	}
	err := f.store.AddCertificate(ctx, next, id.Fingerprint, e)
	f.Forget(id.NodeID)
	if errors.Is(err, store.ErrConflict) {
		return wire.Refuse(wire.CodeKeyInUse, "this key has a certificate already, or a newer certificate came first",
			"make a new key and ask with the newest certificate")
	}
	return err
}
