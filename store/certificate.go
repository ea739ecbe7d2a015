package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"muster/store/engine"
)

// Status of a certificate on record.
const (
	CertificatePending    = "pending"    // issued by renewal, not used yet
	CertificateCurrent    = "current"    // the node's identity
	CertificateSuperseded = "superseded" // a later one has been used, or was issued before this one was used
	CertificateRevoked    = "revoked"    // ended by re-enrolment or by an operator
)

// Certificate is a node certificate on record. The record decides whether it is good, not the chain.
type Certificate struct {
	Fingerprint string     `sql:"fingerprint"` // SHA-256 of the leaf
	NodeID      string     `sql:"node_id"`
	EnrolmentID string     `sql:"enrolment_id"`
	Generation  int        `sql:"generation"` // 1, 2, ... within its enrolment
	Status      string     `sql:"status"`     // one of the Certificate constants
	KeyHash     string     `sql:"key_hash"`   // hex SHA-256 of PublicKey; no key is ever certified twice
	PublicKey   []byte     `sql:"public_key"` // SPKI DER
	Chain       string     `sql:"chain"`      // PEM, leaf first
	NotBefore   time.Time  `sql:"not_before"`
	NotAfter    time.Time  `sql:"not_after"`
	IssuedAt    time.Time  `sql:"issued_at"`
	FirstUsedAt *time.Time `sql:"first_used_at"`
	EndedAt     *time.Time `sql:"ended_at"`   // when it was superseded or revoked
	OverdueAt   *time.Time `sql:"overdue_at"` // when a sweep found that its renewal is overdue
	Recovery    bool       `sql:"recovery"`   // it was issued when the earlier one had expired
}

// Identity is a certificate and its node: everything that is needed to judge a node's request.
type Identity struct {
	Certificate     Certificate
	NodeName        string     `sql:"n.name"`
	Tenant          string     `sql:"n.tenant"`
	State           string     `sql:"n.state"`
	NodeEnrolmentID string     `sql:"n.enrolment_id"` // differs from the certificate's after the node enrolled again
	RecoveryUntil   *time.Time `sql:"n.recovery_until"`
	SuccessorUsedAt *time.Time // when a later certificate was first used, if this one is superseded; nil: not yet
	Reasons         []Reason
	Banned          bool `sql:"n.banned"`
	GPUsExpected    int  `sql:"n.gpus_expected"`
	GPUsSaid        bool // a person set GPUsExpected
	GPUsAsSeen      bool // a person wants the number that is seen; what the node remembers does not count
}

// NewCertificate fills in what the issuer knows of a certificate's row: everything except the node. der is the leaf, key its
// SubjectPublicKeyInfo. The dates are cut to whole seconds, as certificates have them.
func NewCertificate(der, key []byte, notBefore, notAfter time.Time, chain string) Certificate {
	fingerprint := sha256.Sum256(der)
	keyHash := sha256.Sum256(key)
	return Certificate{
		Fingerprint: hex.EncodeToString(fingerprint[:]), KeyHash: hex.EncodeToString(keyHash[:]), PublicKey: key, Chain: chain,
		NotBefore: notBefore.UTC().Truncate(time.Second), NotAfter: notAfter.UTC().Truncate(time.Second),
	}
}

var (
	certificates = engine.NewTable[Certificate]("certificates", "c", "")
	identities   = engine.NewTable[Identity]("certificates", "c", "")
)

// revokeCertificates revokes all certificates of a node. A superseded one keeps the time at which it ended.
func revokeCertificates(nodeID string, at time.Time) statement {
	return do("UPDATE certificates SET status = 'revoked', ended_at = COALESCE(ended_at, ?) WHERE node_id = ? AND status <> 'revoked'",
		millis(at), nodeID)
}

// successorUse is when a later certificate of the same enrolment was first used. Only superseded certificates have one. The later
// one may have the same generation: a certificate that was replaced before its first use leaves its generation to the next one.
const successorUse = `CASE WHEN c.status = 'superseded' THEN (SELECT min(s.first_used_at) FROM certificates s WHERE s.node_id = c.node_id
	AND s.enrolment_id = c.enrolment_id AND s.generation >= c.generation AND s.fingerprint <> c.fingerprint
	AND s.first_used_at >= c.issued_at) END`

// Identity returns the certificate with this fingerprint and its node, or ErrNotFound.
func (s *Store) Identity(ctx context.Context, fingerprint string) (Identity, error) {
	return first(ctx, s, readIdentity, do("SELECT "+identities.Columns+", n.gpus_said, "+successorUse+", "+nodeReasons+
		" FROM certificates c JOIN nodes n ON n.id = c.node_id WHERE c.fingerprint = ?", fingerprint))
}

func readIdentity(r *row) Identity {
	i := identities.Read(r)
	said := r.Number()
	i.GPUsSaid = said == saidNumber
	i.GPUsAsSeen = said == saidAsSeen
	i.SuccessorUsedAt = r.Maybe()
	i.Reasons = readReasons(r)
	return i
}

// AddCertificate stores a pending certificate. An earlier pending one of the node becomes superseded. With Recovery it is counted in
// the node's recoveries. ErrConflict if currentFingerprint is not the node's current certificate any more, or if the key is known.
func (s *Store) AddCertificate(ctx context.Context, c Certificate, currentFingerprint string, events ...Event) error {
	c.Status = CertificatePending
	statements := []statement{
		guard("EXISTS(SELECT 1 FROM certificates WHERE fingerprint = ? AND node_id = ? AND status = 'current')", currentFingerprint,
			c.NodeID),
		do("UPDATE certificates SET status = 'superseded', ended_at = ? WHERE node_id = ? AND status = 'pending' AND key_hash <> ?",
			millis(c.IssuedAt), c.NodeID, c.KeyHash),
		certificates.Insert(c, ""),
	}
	if c.Recovery {
		statements = append(statements, do("UPDATE nodes SET recoveries = recoveries + 1 WHERE id = ?", c.NodeID))
	}
	return s.change(ctx, statements, events)
}

// PendingCertificate returns a node's pending certificate for this key, or ErrNotFound.
func (s *Store) PendingCertificate(ctx context.Context, nodeID, keyHash string) (Certificate, error) {
	return certificates.First(ctx, s.db, "WHERE c.key_hash = ? AND c.node_id = ? AND c.status = 'pending'", keyHash, nodeID)
}

// PromoteCertificate makes a pending certificate the current one, first used at this time. The earlier current one becomes
// superseded, and its open claims on tasks go to the new one. With Recovery it also ends the recovery that an operator allowed.
// ErrConflict if the certificate is not pending.
func (s *Store) PromoteCertificate(ctx context.Context, fingerprint string, at time.Time, events ...Event) error {
	return s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM certificates WHERE fingerprint = ? AND status = 'pending')", fingerprint),
		moveClaims(fingerprint),
		do(`UPDATE certificates SET status = 'superseded', ended_at = ?
			WHERE node_id = (SELECT node_id FROM certificates WHERE fingerprint = ?) AND status = 'current'`, millis(at), fingerprint),
		do("UPDATE certificates SET status = 'current', first_used_at = ? WHERE fingerprint = ?", millis(at), fingerprint),
		do("UPDATE nodes SET recovery_until = NULL WHERE id = (SELECT node_id FROM certificates WHERE fingerprint = ? AND recovery = 1)",
			fingerprint),
	}, events)
}

// MarkFirstUse notes the first use of a certificate. Later calls change nothing.
func (s *Store) MarkFirstUse(ctx context.Context, fingerprint string, at time.Time) error {
	return s.change(ctx, []statement{
		do("UPDATE certificates SET first_used_at = ? WHERE fingerprint = ? AND first_used_at IS NULL", millis(at), fingerprint),
	}, nil)
}

// BannedKey reports whether the key with this hash belonged to a banned node.
func (s *Store) BannedKey(ctx context.Context, keyHash string) (bool, error) {
	_, err := s.value(ctx, do("SELECT n.id FROM certificates c JOIN nodes n ON n.id = c.node_id WHERE c.key_hash = ? AND n.banned = 1",
		keyHash))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Certificates returns the newest eight certificates of a node's present enrolment, newest first, and the current and the pending one if
// they are older than those. An operator chooses from them when two machines use the identity. An earlier choice may have made an old
// generation the current one.
func (s *Store) Certificates(ctx context.Context, nodeID string) ([]Certificate, error) {
	const newest = ` ORDER BY c.generation DESC, c.issued_at DESC, c.fingerprint`
	const ofEnrolment = `JOIN nodes n ON n.id = c.node_id WHERE n.id = ? AND c.enrolment_id = n.enrolment_id`
	return certificates.All(ctx, s.db, ofEnrolment+" AND (c.status IN ('current', 'pending') OR c.fingerprint IN "+
		"(SELECT c.fingerprint FROM certificates c "+ofEnrolment+newest+" LIMIT 8))"+newest, nodeID, nodeID)
}
