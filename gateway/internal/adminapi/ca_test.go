package adminapi_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/trust"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/backup/archive"
	"muster/gateway/internal/client"
)

func (h *house) client() *client.Client {
	h.t.Helper()
	c, err := client.Dial(h.t.Context(), client.Target{DataDir: h.onSocket()})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// TestTrustRoutes goes through what an operator changes, with the client.
func TestTrustRoutes(t *testing.T) {
	h := newHouse(t)
	c := h.client()
	ctx := t.Context()
	first, err := client.Get[trust.CA](ctx, c, api.PathCA, nil)
	if err != nil || first.TrustNumber != 1 || len(first.Roots) != 1 || len(first.Keys) != 4 || !first.Intermediate.Online {
		t.Fatalf("ca: %+v, %v", first, err)
	}
	if change, err := client.Send[trust.TrustChange](ctx, c, "POST", api.PathKeysRotate, trust.RotateRequest{Role: "task"}); err != nil ||
		change.Number != 2 || !change.Published ||
		len(change.Draft) != 0 {
		t.Errorf("rotate: %+v, %v", change, err)
	}
	now, err := client.Get[trust.CA](ctx, c, api.PathCA, nil)
	if err != nil || len(now.Keys) != 5 {
		t.Fatalf("ca: %+v, %v", now, err)
	}
	for _, key := range now.Keys {
		if key.Role == "task" && !key.InUse {
			if change, err := client.Send[trust.TrustChange](ctx, c, "DELETE", api.At(api.PathKey, key.ID), nil); err != nil ||
				change.Number != 3 {
				t.Errorf("drop: %+v, %v", change, err)
			}
		}
	}
	if change, err := client.Send[trust.TrustChange](ctx, c, "POST", api.PathRoots, trust.RootRequest{}); err != nil || change.Number != 4 {
		t.Errorf("add a root: %+v, %v", change, err)
	}
	if _, err := client.Send[trust.IntermediateAnswer](ctx, c, "POST", api.PathIntermediate, trust.IntermediateRequest{}); err != nil {
		t.Error(err)
	}
	if change, err := client.Send[trust.TrustChange](ctx, c, "DELETE", api.At(api.PathRoot, first.Roots[0].Pin), nil); err != nil ||
		change.Number != 5 {
		t.Errorf("drop a root: %+v, %v", change, err)
	}
	after, err := client.Get[trust.CA](ctx, c, api.PathCA, nil)
	if err != nil || len(after.Roots) != 1 || after.Roots[0].Pin == first.Roots[0].Pin ||
		after.Intermediate.Fingerprint == first.Intermediate.Fingerprint {
		t.Errorf("ca: %+v, %v", after, err)
	}
	if g, err := client.Get[api.Gateway](ctx, c, api.PathGateway, nil); err != nil || g.RootPin != after.Roots[0].Pin {
		t.Errorf("the gateway's pin is %s, %v", g.RootPin, err)
	}
	for _, kind := range []string{"key.rotated", "key.dropped", "ca.root_announced", "ca.intermediate_changed", "ca.root_dropped"} {
		if list, err := client.Get[api.EventList](ctx, c, api.PathEvents, api.EventFilter{Kind: kind, Security: true}); err != nil ||
			len(list.Events) != 1 ||
			list.Events[0].Actor != "operator:socket" {
			t.Errorf("%s: %+v, %v", kind, list, err)
		}
	}
}

// TestTrustInTwoSteps: with root and trust key elsewhere, what was drafted here comes back signed.
func TestTrustInTwoSteps(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	root := t.TempDir()
	file := filepath.Join(t.TempDir(), "trust.key")
	clock := h.api.Now
	if err := h.api.Authority.ExportRoot(ctx, root); err != nil {
		t.Fatal(err)
	}
	if err := h.api.Authority.ExportTrustKey(ctx, file); err != nil {
		t.Fatal(err)
	}
	c := h.client()
	if _, err := client.Send[trust.IntermediateAnswer](ctx, c, "POST", api.PathIntermediate, trust.IntermediateRequest{}); err == nil ||
		!strings.Contains(err.Error(), "--root DIR") {
		t.Errorf("without a root: %v", err)
	}
	prepared, err := client.Send[trust.IntermediateAnswer](ctx, c, "POST", api.PathIntermediate, trust.IntermediateRequest{Prepare: true})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := authority.SignIntermediate(root, prepared.Request, prepared.TrustDomain, clock)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Send[trust.IntermediateAnswer](ctx, c, "POST", api.PathIntermediate,
		trust.IntermediateRequest{Certificates: signed}); err != nil {
		t.Error(err)
	}
	change, err := client.Send[trust.TrustChange](ctx, c, "POST", api.PathKeysRotate, trust.RotateRequest{Role: "answer", Now: true})
	if err != nil || change.Published || len(change.Draft) == 0 {
		t.Fatalf("rotate: %+v, %v", change, err)
	}
	key, err := authority.ReadTrustKey(file)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Send[trust.TrustChange](ctx, c, "POST", api.PathTrust, trust.SignedSet{Set: sign.Seal(stranger, sign.RoleTrust,
		change.Draft)}); err == nil {
		t.Error("a stranger's signature was taken")
	}
	if done, err := client.Send[trust.TrustChange](ctx, c, "POST", api.PathTrust, trust.SignedSet{Set: sign.Seal(key, sign.RoleTrust,
		change.Draft)}); err != nil || !done.Published || done.Number != 2 {
		t.Errorf("publish: %+v, %v", done, err)
	}
}

func TestTrustRefusals(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "keys/rotate", `{"role":"serving"}`, 400, wire.CodeBadRequest},
		{"POST", "keys/rotate", `{"what":1}`, 400, wire.CodeBadRequest},
		{"DELETE", "keys/0123456789abcdef", "", 404, wire.CodeNotFound},
		{"DELETE", "ca/roots/sha256:00000000", "", 404, wire.CodeNotFound},
		{"POST", "ca/roots", `{"certificate":"x"}`, 400, wire.CodeBadRequest},
		{"POST", "ca/roots", `{"what":1}`, 400, wire.CodeBadRequest},
		{"POST", "ca/intermediate", `{"prepare":true,"certificates":"x"}`, 400, wire.CodeBadRequest},
		{"POST", "ca/intermediate", `{"certificates":"x"}`, 400, wire.CodeBadRequest},
		{"POST", "ca/intermediate", `{"what":1}`, 400, wire.CodeBadRequest},
		{"POST", "trust", `{"set":{"role":"trust","payload":"e30=","key_id":"","signature":""}}`, 400, wire.CodeBadRequest},
		{"POST", "trust", `{"what":1}`, 400, wire.CodeBadRequest},
		{"GET", "ca?x=1", "", 400, wire.CodeBadRequest},
		{"GET", "backup?x=1", "", 400, wire.CodeBadRequest},
	} {
		if status, body := h.ask(c.method, c.path, "", c.body); status != c.status || code(body) != c.code {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, status, body)
		}
	}
	mine := h.account("mine", "platform", "*")
	for _, path := range []string{"ca", "keys", "backup"} {
		if status, body := h.ask("GET", path, mine, ""); status != 403 || code(body) != wire.CodeForbidden {
			t.Errorf("%s for an account of one tenant: %d %s", path, status, body)
		}
	}
	h.api.Scratch = ""
	if status, body := h.ask("GET", "backup", "", ""); status != 400 {
		t.Errorf("a backup with no place for it: %d %s", status, body)
	}
	h.store.Close()
	for _, c := range []struct{ method, path string }{{"GET", "ca"}, {"POST", "ca/intermediate"}, {"POST", "ca/roots"}} {
		if status, body := h.ask(c.method, c.path, "", "{}"); status != 500 {
			t.Errorf("%s with a broken store: %d %s", c.path, status, body)
		}
	}
}

// registry gives the house a registry with blobs, and gives its folder.
func (h *house) registry(texts ...string) string {
	h.t.Helper()
	folder := h.t.TempDir()
	r, err := artifact.Open(h.t.Context(), artifact.Config{Folder: folder, Records: h.store.Records()})
	for _, text := range texts {
		err = errors.Join(err, r.Put(h.t.Context(), "muster/agent", artifact.DigestOf([]byte(text)), int64(len(text)), strings.NewReader(text)))
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.api.Artifacts = r
	return folder
}

// spoil changes a byte of a blob on disk.
func spoil(t *testing.T, folder, text string) {
	t.Helper()
	path := filepath.Join(folder, "blobs", strings.Replace(artifact.DigestOf([]byte(text)), ":", "/", 1))
	if err := os.WriteFile(path, []byte("x"+text[1:]), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBackup: the copy comes whole, nothing of it stays behind, and one that broke off is an error.
func TestBackup(t *testing.T) {
	h := newHouse(t)
	h.node("one", "platform", "")
	var copied bytes.Buffer
	if n, err := h.client().Backup(t.Context(), &copied); err != nil || n != int64(copied.Len()) ||
		!bytes.HasPrefix(copied.Bytes(), []byte("SQLite format 3\x00")) {
		t.Errorf("%d bytes, %v", n, err)
	}
	copied.Reset()
	blobs := h.registry("one", "three")
	n, err := h.client().BackupAll(t.Context(), &copied)
	said, wrong := archive.Read(&copied, archive.Visitor{})
	if err != nil || wrong != nil || n <= said.Database || said.Blobs != 2 || said.Bytes != 8 {
		t.Errorf("with the registry: %d bytes, %v, %+v, %v", n, err, said, wrong)
	}
	spoil(t, blobs, "three")
	copied.Reset()
	_, err = h.client().BackupAll(t.Context(), &copied)
	if said, wrong := archive.Read(&copied, archive.Visitor{}); wrong != nil || err != nil || said.Blobs != 1 || said.Lacks != 1 {
		t.Errorf("with a damaged blob: %v, %+v, %v", err, said, wrong)
	}
	if left, err := os.ReadDir(h.api.Scratch); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if at, err := h.store.BackupAt(t.Context()); err != nil || !at.Equal(h.now) {
		t.Errorf("noted %v, %v", at, err)
	}
	c := h.client()
	h.store.Close()
	copied.Reset()
	if _, err := c.Backup(t.Context(), &copied); err == nil || copied.Len() > 0 {
		t.Errorf("of a broken store: %d bytes, %v", copied.Len(), err)
	}
	if _, err := (&client.Client{BaseURL: "http://127.0.0.1:1", HTTP: c.HTTP}).Backup(t.Context(), &copied); err == nil {
		t.Error("of no gateway")
	}
}
