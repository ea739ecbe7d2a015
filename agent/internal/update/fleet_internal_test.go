package update

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/sign"
	"muster/agent/wire"
)

// fleet signs releases, and its node believes its keys.
type fleet struct {
	t       testing.TB
	key     ed25519.PrivateKey
	other   ed25519.PrivateKey // of another release key
	unknown ed25519.PrivateKey
	trust   ed25519.PrivateKey
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newFleet(t testing.TB) *fleet {
	return &fleet{t: t, key: newKey(t), other: newKey(t), unknown: newKey(t), trust: newKey(t)}
}

func encode(key ed25519.PrivateKey) string { return sign.EncodeKey(key.Public().(ed25519.PublicKey)) }

// state is the node's, with a trust set of these release keys; none: the fleet's two.
func (f *fleet) state(keys ...ed25519.PrivateKey) identity.State {
	if len(keys) == 0 {
		keys = []ed25519.PrivateKey{f.other, f.key}
	}
	set := wire.TrustSet{Number: int64(len(keys)), AnswerKeys: []string{encode(f.trust)}}
	for _, key := range keys {
		set.ReleaseKeys = append(set.ReleaseKeys, encode(key))
	}
	sealed := f.seal(f.trust, sign.RoleTrust, set)
	return identity.State{NodeID: "n1", Gateway: identity.Gateway{Channel: "stable", ChannelSequence: 3, Trust: sealed}}
}

func (f *fleet) seal(key ed25519.PrivateKey, role sign.Role, document any) json.RawMessage {
	f.t.Helper()
	payload, err := json.Marshal(document)
	if err != nil {
		f.t.Fatal(err)
	}
	envelope, err := json.Marshal(sign.Seal(key, role, payload))
	if err != nil {
		f.t.Fatal(err)
	}
	return envelope
}

func hexOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// pointer is one to a program that is its own layer.
func (f *fleet) pointer(program []byte) wire.ReleasePointer {
	now := time.Now().UTC()
	size := int64(len(program))
	digest := digestPrefix + hexOf(program)
	return wire.ReleasePointer{
		Channel: "stable", Sequence: 7, Digest: digestPrefix + hexOf([]byte("index")), Size: 5, Version: "2",
		NotBefore: now.Add(-time.Hour), Expires: now.Add(48 * time.Hour), Platforms: []wire.ReleasePlatform{
			{OS: "plan9", Arch: runtime.GOARCH, MediaType: wire.MediaProgram, Digest: digest, Size: 1, Program: digest, ProgramSize: 1},
			{OS: runtime.GOOS, Arch: runtime.GOARCH, MediaType: wire.MediaProgram, Digest: digest, Size: size, Program: digest, ProgramSize: size},
		},
	}
}

// release is what the gateway answers. change changes the pointer before it is signed.
func (f *fleet) release(program []byte, change func(*wire.ReleasePointer)) wire.Release {
	p := f.pointer(program)
	if change != nil {
		change(&p)
	}
	return wire.Release{
		Channel: p.Channel, Sequence: p.Sequence, Digest: p.Digest, Size: p.Size, URL: "https://registry.example/layer",
		Pointer: f.seal(f.key, sign.RoleRelease, p),
	}
}
