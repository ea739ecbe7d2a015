package authority

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api/trust"
	"muster/store"
)

// mostKeys bounds the keys of one role in a set. Every node reads the whole set.
const mostKeys = 16

// SignTask signs a task's payload with the newest task key whose private half is in the database. Nodes that have not heard of the key
// fetch the set that names it. So a new key may sign at once. The refusal is a *wire.ErrorDetail if operators keep all task keys.
func (a *Authority) SignTask(payload []byte) (wire.SignedTask, error) {
	key := a.held.Load().signs(roleTask, a.config.Now())
	if key == nil {
		return wire.SignedTask{}, wire.Refuse(wire.CodeBadRequest, "this gateway has no task key of its own, so it cannot sign the task",
			"sign it with an operator's key: muster task run --key FILE; or give the gateway one: muster key rotate --task")
	}
	return sign.SealTask(key, payload), nil
}

// TaskKeys returns the task keys of the newest set, those of operators too. Nodes believe a task by each of them. The caller must not
// change them.
func (a *Authority) TaskKeys() []ed25519.PublicKey { return a.held.Load().public[roleTask] }

// SignRelease signs a release pointer's payload with the newest release key whose private half is in the database, and returns a
// sign.Envelope in JSON. The refusal is a *wire.ErrorDetail if operators keep all release keys.
func (a *Authority) SignRelease(payload []byte) ([]byte, error) {
	key := a.held.Load().signs(roleRelease, a.config.Now())
	if key == nil {
		return nil, wire.Refuse(wire.CodeSignatureWanted, "this gateway has no release key of its own, so it cannot sign the pointer",
			"sign it with an operator's key: muster release sign --key FILE; or give the gateway one: muster key rotate --release")
	}
	return json.Marshal(sign.Seal(key, sign.RoleRelease, payload))
}

// ReleaseKeys returns the release keys of the newest set, those of operators too. Nodes believe a pointer by each of them. The caller must
// not change them.
func (a *Authority) ReleaseKeys() []ed25519.PublicKey { return a.held.Load().public[roleRelease] }

// AddKey adds a key to the next set whose private half an operator keeps. The roles task and release have such keys. The key comes as
// sign.EncodeKey writes it. It goes behind the present ones, because the gateway cannot sign with it. A rotation leaves it where it is,
// and DropKey takes it out.
func (a *Authority) AddKey(ctx context.Context, role, encoded string, by store.Actor) (trust.TrustChange, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	if !operatorsKeep(role) {
		return trust.TrustChange{}, badChange(fmt.Sprintf("a key of the role %.40q cannot be added: operators keep keys for tasks and releases",
			role),
			"add a key: muster key add --task FILE, or muster key add --release FILE")
	}
	key, err := sign.DecodeKey(encoded)
	if err != nil {
		return trust.TrustChange{}, badChange("the new key is no public Ed25519 key", "send its 32 bytes in base64, as muster key add does")
	}
	next := a.next()
	encoded = sign.EncodeKey(key)
	if slices.Contains(keysNamed(&next), encoded) {
		return trust.TrustChange{}, wire.Refuse(wire.CodeAlreadyThere, "the newest set names the key "+sign.KeyID(key)+" already",
			"muster key ls shows the keys")
	}
	list, err := keysOf(&next, role)
	if err != nil {
		return trust.TrustChange{}, err
	}
	if len(*list) >= mostKeys {
		return trust.TrustChange{}, badChange(fmt.Sprintf("there are %d %s keys already", mostKeys, role),
			"drop one that nobody uses: muster key drop ID")
	}
	*list = append(*list, encoded)
	return a.propose(ctx, next, a.event("key.added", by, map[string]string{"role": role, "key": sign.KeyID(key)}))
}

// operatorsKeep tells whether operators may keep keys of a role.
func operatorsKeep(role string) bool { return role == roleTask || role == roleRelease }

// keysNamed are all keys that a set names, whatever their role.
func keysNamed(set *wire.TrustSet) []string {
	return slices.Concat([]string{set.TrustKey}, set.AnswerKeys, set.TaskKeys, set.ReleaseKeys)
}

// kept returns the keys of a role that stay when its newest key is replaced. Of the gateway's own, the newest stays, and none with
// atOnce. Keys of operators stay, because a key of the gateway that has leaked says nothing about them.
func (a *Authority) kept(ctx context.Context, role string, keys []string, atOnce bool) ([]string, error) {
	var stay []string
	enough := atOnce
	for _, encoded := range keys {
		found, err := a.keyOf(ctx, role, encoded)
		if err != nil {
			return nil, err
		}
		if operatorsKeep(role) && found.private == nil {
			stay = append(stay, encoded)
			continue
		}
		if !enough {
			stay = append(stay, encoded)
			enough = true
		}
	}
	return stay, nil
}
