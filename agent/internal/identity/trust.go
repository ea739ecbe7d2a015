package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
)

// ErrRefused is wrapped by errors about a chain of sets that does not continue what is pinned. Nothing of it is taken.
var ErrRefused = errors.New("the trust sets are not believed")

// maxSets is the most sets that a document may have. A gateway adds one per rotation.
const maxSets = 10000

// chain is {"sets":[...]}, oldest first, beginning with number 1.
type chain struct {
	Sets []json.RawMessage `json:"sets"`
}

// FollowTrust verifies every set after the pinned one in a document of GET /trust. next is pinned with the newest set, and news says
// that there was a newer one. The error wraps ErrRefused, and next is then pinned without a change.
func FollowTrust(pinned Gateway, document []byte) (next Gateway, news bool, err error) {
	last, err := Pinned(pinned)
	if err != nil {
		return pinned, false, err
	}
	var c chain
	if err := json.Unmarshal(document, &c); err != nil || len(c.Sets) > maxSets {
		return pinned, false, fmt.Errorf("%w: not the document that a gateway gives", ErrRefused)
	}
	if int64(len(c.Sets)) < last.Number { // the gateway went back, or somebody hides the newest sets
		return pinned, false, fmt.Errorf("%w: the newest has number %d, this node knows number %d", ErrRefused, len(c.Sets), last.Number)
	}
	key, err := sign.DecodeKey(last.TrustKey)
	if err != nil {
		return pinned, false, fmt.Errorf("%w: the pinned set names no trust key", ErrRefused)
	}
	next = pinned
	for _, raw := range c.Sets[last.Number:] {
		if last, key, err = step(last, key, raw); err != nil {
			return pinned, false, err
		}
		next.Trust = raw
	}
	next.Roots = last.Roots
	next.TrustKey = last.TrustKey
	next.AnswerKeys = last.AnswerKeys
	return next, int64(len(c.Sets)) > TrustNumber(pinned), nil
}

// TrustHolds reports whether a document of GET /trust has the pinned set in its place. The document of the gateway that issued the set
// does. It compares bytes and verifies nothing.
func TrustHolds(pinned Gateway, document []byte) bool {
	var c chain
	place := TrustNumber(pinned) - 1 // the first set has number 1
	if place < 0 || json.Unmarshal(document, &c) != nil || int64(len(c.Sets)) <= place {
		return false
	}
	return same(pinned, Gateway{Trust: c.Sets[place]})
}

// Continues reports whether a set is the pinned one, or whether the signatures in a document of GET /trust lead from the pinned one
// to it.
func Continues(pinned Gateway, set, document []byte) bool {
	offered := Gateway{Trust: set}
	if same(pinned, offered) {
		return true
	}
	_, _, err := FollowTrust(pinned, document)
	return err == nil && TrustNumber(offered) > TrustNumber(pinned) && TrustHolds(offered, document)
}

// same reports whether two gateways have the same pinned set.
func same(one, other Gateway) bool {
	var ours, theirs sign.Envelope
	return json.Unmarshal(one.Trust, &ours) == nil && json.Unmarshal(other.Trust, &theirs) == nil &&
		len(ours.Payload) > 0 && bytes.Equal(ours.Payload, theirs.Payload)
}

// TrustRoots returns the roots of all sets in a document of GET /trust, in PEM. It verifies nothing, and old roots are among them.
func TrustRoots(document []byte) string {
	var c chain
	var all strings.Builder
	if json.Unmarshal(document, &c) != nil || len(c.Sets) > maxSets {
		return ""
	}
	for _, raw := range c.Sets {
		if set, err := Pinned(Gateway{Trust: raw}); err == nil {
			all.WriteString(set.Roots + "\n")
		}
	}
	return all.String()
}

// Pinned returns the set that a node believes now. Its signature was checked before it was pinned.
func Pinned(g Gateway) (wire.TrustSet, error) {
	var envelope sign.Envelope
	var set wire.TrustSet
	if json.Unmarshal(g.Trust, &envelope) != nil || json.Unmarshal(envelope.Payload, &set) != nil || set.Number < 1 ||
		len(set.AnswerKeys) == 0 {
		return wire.TrustSet{}, fmt.Errorf("%w: this node has pinned none", ErrRefused)
	}
	return set, nil
}

// TaskKeys returns the keys that the pinned set names for tasks.
func TaskKeys(g Gateway) []ed25519.PublicKey {
	set, _ := Pinned(g)
	return usable(set.TaskKeys)
}

// ReleaseKeys returns the keys that the pinned set names for releases.
func ReleaseKeys(g Gateway) []ed25519.PublicKey {
	set, _ := Pinned(g)
	return usable(set.ReleaseKeys)
}

func usable(texts []string) (keys []ed25519.PublicKey) {
	for _, text := range texts {
		if key, err := sign.DecodeKey(text); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// TrustNumber returns the number of the pinned set, 0 if there is none.
func TrustNumber(g Gateway) int64 {
	set, err := Pinned(g)
	if err != nil {
		return 0
	}
	return set.Number
}

// step verifies the set that follows last and that key must have signed. It returns the set, and the key that signs the next one.
func step(last wire.TrustSet, key ed25519.PublicKey, raw []byte) (wire.TrustSet, ed25519.PublicKey, error) {
	refuse := func(why string) (wire.TrustSet, ed25519.PublicKey, error) {
		return last, key, fmt.Errorf("%w: number %d: %s", ErrRefused, last.Number+1, why)
	}
	set, err := openSet(raw, key)
	switch {
	case err != nil:
		return refuse(err.Error())
	case set.Number != last.Number+1:
		return refuse(fmt.Sprintf("it says number %d", set.Number))
	case set.TrustDomain != last.TrustDomain:
		return refuse("it is of another trust domain")
	}
	next, err := check(set)
	if err != nil {
		return refuse(err.Error())
	}
	return set, next, nil
}

// openSet verifies a set with the key that must have signed it, and then reads it.
func openSet(raw []byte, key ed25519.PublicKey) (set wire.TrustSet, err error) {
	var envelope sign.Envelope
	if sign.DecodeStrict(raw, &envelope) != nil {
		return set, errors.New("no signed document")
	}
	payload, err := envelope.Open(key, sign.RoleTrust)
	if err != nil {
		return set, errors.New("not signed by the trust key")
	}
	if sign.DecodeStrict(payload, &set) != nil {
		return set, errors.New("not a trust set")
	}
	return set, nil
}

// check refuses a set with which this node could verify nothing later. It returns the key that signs the next set.
func check(set wire.TrustSet) (ed25519.PublicKey, error) {
	roots, err := ParseCertificates(set.Roots)
	if err != nil {
		return nil, errors.New("it names no roots")
	}
	for _, root := range roots {
		if !root.IsCA {
			return nil, errors.New("one of its roots is no CA")
		}
	}
	if len(set.AnswerKeys) == 0 {
		return nil, errors.New("it names no answer key")
	}
	for _, list := range [][]string{set.AnswerKeys, set.TaskKeys, set.ReleaseKeys} {
		for _, text := range list {
			if _, err := sign.DecodeKey(text); err != nil {
				return nil, errors.New("one of its keys is not an Ed25519 key")
			}
		}
	}
	next, err := sign.DecodeKey(set.TrustKey)
	if err != nil {
		return nil, errors.New("it names no trust key")
	}
	return next, nil
}
