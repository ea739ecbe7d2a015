package sign

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"muster/agent/wire"
)

// Role says what a key signs. The role is part of the signed text, so a document of one role never passes for one of another.
type Role string

// Roles of keys.
const (
	RoleTrust   Role = "trust"   // root and verifier sets, nothing else
	RoleTask    Role = "task"    // work for nodes
	RoleRelease Role = "release" // agent builds
)

// Envelope is a signed document: the payload's exact bytes and a signature over their pre-authentication encoding, as in
// DSSE (https://github.com/secure-systems-lab/dsse). KeyID is a hint for finding the key and is never trusted.
type Envelope struct {
	Role      Role   `json:"role"`
	Payload   []byte `json:"payload"`
	KeyID     string `json:"key_id"`
	Signature []byte `json:"signature"`
}

// Seal signs payload in a role.
func Seal(key ed25519.PrivateKey, role Role, payload []byte) Envelope {
	return Envelope{
		Role: role, Payload: payload, KeyID: KeyID(key.Public().(ed25519.PublicKey)),
		Signature: ed25519.Sign(key, preAuth(role, payload)),
	}
}

// Open verifies an envelope in the role that the caller expects and gives its payload. The error is ErrBadProof.
func (e Envelope) Open(key ed25519.PublicKey, role Role) ([]byte, error) {
	if e.Role != role || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, preAuth(role, e.Payload), e.Signature) {
		return nil, ErrBadProof
	}
	return e.Payload, nil
}

// KeyID names a key: the first 16 hex digits of its SHA-256.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// preAuth is DSSE's pre-authentication encoding. The lengths in it make sure that no other role and payload have the same bytes.
func preAuth(role Role, payload []byte) []byte {
	kind := "application/vnd.muster." + string(role) + "+json"
	out := []byte("DSSEv1 " + strconv.Itoa(len(kind)) + " " + kind + " " + strconv.Itoa(len(payload)) + " ")
	return append(out, payload...)
}

// SealTask signs a task's payload.
func SealTask(key ed25519.PrivateKey, payload []byte) wire.SignedTask {
	e := Seal(key, RoleTask, payload)
	return wire.SignedTask{Payload: e.Payload, Signature: e.Signature, SigningKeyID: e.KeyID}
}

// OpenTask verifies a task's signature with any of the keys, and only then reads the payload, strictly. It returns the key that
// verified; the id in the message is not looked at. The error is ErrBadProof, or wraps ErrMalformed.
func OpenTask(signed wire.SignedTask, keys []ed25519.PublicKey) (wire.TaskPayload, ed25519.PublicKey, error) {
	var task wire.TaskPayload
	if len(signed.Payload) > wire.MaxTaskPayload {
		return task, nil, ErrBadProof
	}
	e := Envelope{Role: RoleTask, Payload: signed.Payload, Signature: signed.Signature}
	key, err := e.decode(keys, RoleTask, &task)
	return task, key, err
}

// OpenRelease verifies a release pointer, an Envelope in JSON, with any of the keys, and only then reads the payload, strictly. It returns
// the key that verified. The error is ErrBadProof, or wraps ErrMalformed.
func OpenRelease(envelope []byte, keys []ed25519.PublicKey) (wire.ReleasePointer, ed25519.PublicKey, error) {
	var pointer wire.ReleasePointer
	var e Envelope
	if len(envelope) > 2*wire.MaxPointer || json.Unmarshal(envelope, &e) != nil || len(e.Payload) > wire.MaxPointer {
		return pointer, nil, ErrBadProof
	}
	key, err := e.decode(keys, RoleRelease, &pointer)
	return pointer, key, err
}

// decode verifies an envelope with any of the keys, and only then reads the payload. It returns the key that verified.
func (e Envelope) decode(keys []ed25519.PublicKey, role Role, into any) (ed25519.PublicKey, error) {
	for _, key := range keys {
		if payload, err := e.Open(key, role); err == nil {
			return key, DecodeStrict(payload, into)
		}
	}
	return nil, ErrBadProof
}
