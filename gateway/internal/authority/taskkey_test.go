package authority_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api/trust"
	"muster/gateway/internal/authority"
	"muster/store"
)

// operatorKey is a key that the gateway never has.
func operatorKey(t *testing.T) (ed25519.PrivateKey, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return private, sign.EncodeKey(public)
}

// signer is the id of the key by which nodes with the newest set believe a task that the gateway signs.
func signer(t *testing.T, a *authority.Authority) string {
	t.Helper()
	payload := []byte(`{"task_id":"t","node_id":"n","enrolment":"e","type":"diag.collect","params":{},"nonce":"x"}`)
	signed, err := a.SignTask(payload)
	if err != nil {
		t.Fatal(err)
	}
	task, key, err := sign.OpenTask(signed, a.TaskKeys())
	if err != nil || task.TaskID != "t" || sign.KeyID(key) != signed.SigningKeyID {
		t.Fatalf("a node reads %+v by the key %x: %v", task, key, err)
	}
	return sign.KeyID(key)
}

// TestTaskKeys: the gateway signs with its own newest key, wherever the keys of operators stand, also after a restart.
func TestTaskKeys(t *testing.T) {
	s := newStore(t)
	a := open(t, s, newClock().Now)
	first := signer(t, a)
	_, held := operatorKey(t)
	change := published(t)(a.AddKey(t.Context(), "task", held, operator))
	set := newest(t, a)
	if change.Number != 2 || len(set.TaskKeys) != 2 || set.TaskKeys[1] != held || len(a.TaskKeys()) != 2 {
		t.Fatalf("the set names %q", set.TaskKeys)
	}
	if got := signer(t, a); got != first {
		t.Errorf("%s signs, not %s", got, first)
	}
	published(t)(a.RotateKey(t.Context(), "task", false, operator))
	published(t)(a.RotateKey(t.Context(), "task", false, operator))
	set = newest(t, a)
	if len(set.TaskKeys) != 3 || set.TaskKeys[2] != held {
		t.Errorf("after two rotations the set names %q", set.TaskKeys)
	}
	second := signer(t, a)
	if key, err := sign.DecodeKey(set.TaskKeys[0]); err != nil || sign.KeyID(key) != second || second == first {
		t.Errorf("%s signs", second)
	}
	published(t)(a.RotateKey(t.Context(), "task", true, operator))
	set = newest(t, a)
	if len(set.TaskKeys) != 2 || set.TaskKeys[1] != held || signer(t, a) == second {
		t.Errorf("after a leak the set names %q", set.TaskKeys)
	}
	if got := signer(t, open(t, s, newClock().Now)); got != signer(t, a) {
		t.Errorf("after a restart %s signs", got)
	}
	events, err := s.Events(t.Context(), store.EventQuery{Kind: "key.added"})
	if err != nil || len(events) != 1 || !events[0].Security || events[0].Detail["role"] != "task" || events[0].Actor != operator.Name {
		t.Errorf("the log has %+v, %v", events, err)
	}
}

// TestOperatorsAlone: without a task key of its own the gateway signs no task and says what to do, and it may get a key again.
func TestOperatorsAlone(t *testing.T) {
	a := open(t, newStore(t), newClock().Now)
	own := signer(t, a)
	_, held := operatorKey(t)
	published(t)(a.AddKey(t.Context(), "task", held, operator))
	published(t)(a.DropKey(t.Context(), own, operator))
	_, err := a.SignTask([]byte("{}"))
	var refused *wire.ErrorDetail
	if !errors.As(err, &refused) || refused.Code != wire.CodeBadRequest {
		t.Errorf("got %v", err)
	}
	wantError(t, err, "no task key of its own", "muster task run --key FILE")
	overview, err := a.Overview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(overview.Keys, func(k trust.Key) bool { return k.Role == "task" })
	if k := overview.Keys[at]; k.Online || k.InUse {
		t.Errorf("an operator's key is shown as %+v", k)
	}
	published(t)(a.RotateKey(t.Context(), "task", false, operator))
	if set := newest(t, a); len(set.TaskKeys) != 2 || set.TaskKeys[1] != held || signer(t, a) == own {
		t.Errorf("after a rotation the set names %q", set.TaskKeys)
	}
}

func TestAddKeyRefused(t *testing.T) {
	a := open(t, newStore(t), newClock().Now)
	set := newest(t, a)
	_, held := operatorKey(t)
	for _, c := range []struct{ role, key, code, want string }{
		{"task", "", wire.CodeBadRequest, "no public Ed25519 key"},
		{"task", held[:len(held)-4], wire.CodeBadRequest, "no public Ed25519 key"},
		{"task", set.TaskKeys[0], wire.CodeAlreadyThere, "already"},
		{"task", set.TrustKey, wire.CodeAlreadyThere, "already"},
		{"task", set.AnswerKeys[0], wire.CodeAlreadyThere, "already"},
		{"task", set.ReleaseKeys[0], wire.CodeAlreadyThere, "already"},
		{"answer", held, wire.CodeBadRequest, "operators keep keys for tasks and releases"},
		{"trust", held, wire.CodeBadRequest, "operators keep keys for tasks and releases"},
		{"", held, wire.CodeBadRequest, "operators keep keys for tasks and releases"},
	} {
		_, err := a.AddKey(t.Context(), c.role, c.key, operator)
		var refused *wire.ErrorDetail
		if !errors.As(err, &refused) || refused.Code != c.code {
			t.Errorf("%s %q: got %v, want %s", c.role, c.key, err, c.code)
			continue
		}
		wantError(t, err, c.want)
	}
	if a.TrustNumber() != 1 {
		t.Errorf("a refusal made set %d", a.TrustNumber())
	}
	for a.TrustNumber() < 16 {
		_, one := operatorKey(t)
		published(t)(a.AddKey(t.Context(), "task", one, operator))
	}
	_, err := a.AddKey(t.Context(), "task", held, operator)
	wantError(t, err, fmt.Sprint(len(a.TaskKeys()), " task keys already"), "muster key drop")
}

// TestAddKeyOffline: where the trust key is kept elsewhere, a new task key counts once the set with it was signed there.
func TestAddKeyOffline(t *testing.T) {
	a := open(t, newStore(t), newClock().Now)
	file := filepath.Join(t.TempDir(), "trust.key")
	if err := a.ExportTrustKey(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	_, held := operatorKey(t)
	change, err := a.AddKey(t.Context(), "task", held, operator)
	if err != nil || change.Published || len(a.TaskKeys()) != 1 {
		t.Fatalf("got %+v, %v", change, err)
	}
	envelope, err := authority.SignSet(file, change.Draft)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Publish(t.Context(), envelope, operator); err != nil || len(a.TaskKeys()) != 2 {
		t.Errorf("%d task keys, %v", len(a.TaskKeys()), err)
	}
}

// TestReleaseKeys: release keys are kept as task keys are, and a pointer by each of them is believed.
func TestReleaseKeys(t *testing.T) {
	s := newStore(t)
	a := open(t, s, newClock().Now)
	payload := []byte(`{"channel":"stable","seq":1,"digest":"d","size":1,"version":"v","platforms":[],` +
		`"not_before":"2026-11-22T12:00:00Z","expires":"2026-11-23T12:00:00Z"}`)
	by := func() string {
		t.Helper()
		envelope, err := a.SignRelease(payload)
		if err != nil {
			t.Fatal(err)
		}
		pointer, key, err := sign.OpenRelease(envelope, a.ReleaseKeys())
		if err != nil || pointer.Sequence != 1 {
			t.Fatalf("a node reads %+v: %v", pointer, err)
		}
		if _, _, err := sign.OpenRelease(envelope, a.TaskKeys()); err == nil {
			t.Fatal("a task key verifies a release")
		}
		return sign.KeyID(key)
	}
	first := by()
	private, held := operatorKey(t)
	published(t)(a.AddKey(t.Context(), "release", held, operator))
	published(t)(a.RotateKey(t.Context(), "release", true, operator))
	set := newest(t, a)
	if len(set.ReleaseKeys) != 2 || set.ReleaseKeys[1] != held || len(set.TaskKeys) != 1 {
		t.Errorf("after a leak the set names %q", set.ReleaseKeys)
	}
	second := by()
	if second == first {
		t.Error("the key that leaked signs")
	}
	offline, err := json.Marshal(sign.Seal(private, sign.RoleRelease, payload))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := sign.OpenRelease(offline, a.ReleaseKeys()); err != nil {
		t.Errorf("the operator's pointer: %v", err)
	}
	a = open(t, s, newClock().Now)
	if by() != second {
		t.Error("after a restart another key signs")
	}
	published(t)(a.DropKey(t.Context(), second, operator))
	_, err = a.SignRelease(payload)
	var refused *wire.ErrorDetail
	if !errors.As(err, &refused) || refused.Code != wire.CodeSignatureWanted {
		t.Errorf("got %v", err)
	}
	wantError(t, err, "no release key of its own", "muster release sign --key FILE")
	overview, err := a.Overview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(overview.Keys, func(k trust.Key) bool { return k.Role == "release" })
	if k := overview.Keys[at]; k.Online || k.InUse || len(a.ReleaseKeys()) != 1 {
		t.Errorf("an operator's key is shown as %+v", k)
	}
}
