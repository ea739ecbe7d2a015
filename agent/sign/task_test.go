package sign_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
)

func taskKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func publicOf(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// TestOpenTask: a task is believed by one of the keys that are given, whatever id the message names, and read strictly after that.
func TestOpenTask(t *testing.T) {
	ours := taskKey(t)
	other := taskKey(t)
	payload := []byte(`{"task_id":"a","node_id":"n","enrolment":"e","type":"diag.collect","params":{"x":1},` +
		`"issued_at":"2026-11-22T10:00:00Z","expires_at":"2026-11-22T11:00:00Z","nonce":"r"}`)
	signed := sign.SealTask(ours, payload)
	signed.SigningKeyID = sign.KeyID(publicOf(other))
	task, by, err := sign.OpenTask(signed, []ed25519.PublicKey{publicOf(other), publicOf(ours)})
	if err != nil || task.TaskID != "a" || string(task.Params) != `{"x":1}` || !by.Equal(publicOf(ours)) {
		t.Errorf("got %+v by %x, %v", task, by, err)
	}
	if _, _, err := sign.OpenTask(signed, []ed25519.PublicKey{publicOf(other)}); !errors.Is(err, sign.ErrBadProof) {
		t.Errorf("without its key: %v", err)
	}
	if _, _, err := sign.OpenTask(signed, nil); !errors.Is(err, sign.ErrBadProof) {
		t.Errorf("without any key: %v", err)
	}
	keys := []ed25519.PublicKey{publicOf(ours)}
	for i := range payload {
		changed := signed
		changed.Payload = append([]byte(nil), payload...)
		changed.Payload[i] ^= 1
		if _, _, err := sign.OpenTask(changed, keys); !errors.Is(err, sign.ErrBadProof) {
			t.Fatalf("with byte %d changed: %v", i, err)
		}
	}
	release := sign.Seal(ours, sign.RoleRelease, payload)
	foreign := wire.SignedTask{Payload: payload, Signature: release.Signature}
	if _, _, err := sign.OpenTask(foreign, keys); !errors.Is(err, sign.ErrBadProof) {
		t.Errorf("signed as a release: %v", err)
	}
	long := sign.SealTask(ours, make([]byte, wire.MaxTaskPayload+1))
	if _, _, err := sign.OpenTask(long, keys); !errors.Is(err, sign.ErrBadProof) {
		t.Errorf("too long: %v", err)
	}
	for _, loose := range []string{
		`{"task_id":"a","task_id":"b"}`, `{"Task_ID":"a"}`, `{"task_id":"a","more":1}`, `{"task_id":"a"}{}`, `null`, `[]`,
	} {
		if _, _, err := sign.OpenTask(sign.SealTask(ours, []byte(loose)), keys); !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("%s: %v", loose, err)
		}
	}
}

// FuzzOpenTask: what is not signed is never read, whatever it is, and what is signed is read in one way only.
func FuzzOpenTask(f *testing.F) {
	key := taskKey(f)
	f.Add([]byte(`{"task_id":"a","params":{}}`), []byte("no signature"))
	f.Add([]byte(`{"task_id":"a","TASK_ID":"b"}`), make([]byte, ed25519.SignatureSize))
	f.Fuzz(func(t *testing.T, payload, signature []byte) {
		keys := []ed25519.PublicKey{publicOf(key)}
		if _, _, err := sign.OpenTask(wire.SignedTask{Payload: payload, Signature: signature}, keys); !errors.Is(err, sign.ErrBadProof) {
			t.Fatalf("believed: %v", err)
		}
		task, _, err := sign.OpenTask(sign.SealTask(key, payload), keys)
		if err != nil {
			return
		}
		again, err := json.Marshal(task)
		if err != nil {
			t.Fatal(err)
		}
		same, _, err := sign.OpenTask(sign.SealTask(key, again), keys)
		if err != nil || same.TaskID != task.TaskID || same.NodeID != task.NodeID || same.Type != task.Type {
			t.Errorf("%q was read as %+v and as %+v, %v", payload, task, same, err)
		}
	})
}
