package release_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/artifact/executable"
	"muster/gateway/internal/release"
)

const (
	there    = "registry.example:5000"
	password = "s3cret-of-the-operator"
)

// foreign is a registry elsewhere, with content by digest and tokens for who knows the password.
type foreign struct {
	mu      sync.Mutex
	content map[string][]byte
	types   map[string]string
	lie     bool // it gives other bytes
}

func newForeign() *foreign {
	return &foreign{content: map[string][]byte{}, types: map[string]string{}}
}

func (f *foreign) put(mediaType string, content []byte) map[string]any {
	digest := artifact.DigestOf(content)
	f.content[digest] = content
	f.types[digest] = mediaType
	return map[string]any{"mediaType": mediaType, "digest": digest, "size": len(content)}
}

func (f *foreign) document(mediaType string, m map[string]any) map[string]any {
	return f.put(mediaType, []byte(asJSON(m)))
}

// release puts a release there and gives its digest.
func (f *foreign) release() string {
	m := map[string]any{"schemaVersion": 2, "mediaType": wire.MediaManifest, "config": f.put(wire.MediaEmpty, []byte("{}")),
		"layers": []any{f.put(wire.MediaProgram, executable.Least("amd64", "elsewhere"))}}
	entry := f.document(wire.MediaManifest, m)
	entry["platform"] = map[string]string{"os": "linux", "architecture": "amd64"}
	index := map[string]any{"schemaVersion": 2, "mediaType": wire.MediaIndex, "manifests": []any{entry}}
	return f.document(wire.MediaIndex, index)["digest"].(string)
}

// RoundTrip answers without a network.
func (f *foreign) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := httptest.NewRecorder()
	_, secret, _ := r.BasicAuth()
	switch digest := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; {
	case r.URL.Host != there || r.URL.Scheme != "https":
		return nil, fmt.Errorf("no such host: %s", r.URL.Host)
	case r.URL.Path == "/token" && secret == password:
		fmt.Fprint(w, `{"token":"lent","expires_in":300}`)
	case r.Header.Get("Authorization") != "Bearer lent":
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+there+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	case f.content[digest] != nil:
		w.Header().Set("Content-Type", f.types[digest])
		content := f.content[digest]
		if f.lie {
			content = append([]byte(" "), content[1:]...)
		}
		w.Write(content)
	case r.URL.Path != "/v2/":
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

// TestElsewhere: a release in another registry is checked like one here, and a node gets its URL with a token that ends soon.
func TestElsewhere(t *testing.T) {
	h := newHall(t, "n")
	f := newForeign()
	h.config.Transport = f
	h.open()
	digest := f.release()
	add := api.NewRelease{Digest: digest, Version: "1", Reference: there + "/team/agent", Credential: "ci"}
	_, err := h.Add(t.Context(), add, operator)
	wantCode(t, err, wire.CodeNotFound) // no such credential
	ci := release.Credential{Name: "ci", Host: there, Username: "puller", Password: password}
	must(t, h.SetCredential(t.Context(), ci, operator))
	f.lie = true
	_, err = h.Add(t.Context(), add, operator)
	wantCode(t, err, wire.CodeReleaseUnusable)
	f.lie = false
	missing := add
	missing.Digest = sum("none")
	_, err = h.Add(t.Context(), missing, operator)
	wantCode(t, err, wire.CodeReleaseUnusable)
	r, err := h.Add(t.Context(), add, operator)
	must(t, err)
	layer := artifact.DigestOf(executable.Least("amd64", "elsewhere"))
	if r.Reference != there+"/team/agent" || r.Programs[0].Program != layer {
		t.Errorf("got %+v", r)
	}
	h.point(digest, nil)
	h.look()
	got, err := h.Wanted(t.Context(), "id-n")
	must(t, err)
	if got.URL != "https://"+there+"/v2/team/agent/blobs/"+layer || got.Authorization != "Bearer lent" {
		t.Errorf("got %+v", got)
	}
	_, err = h.Layer(t.Context(), "id-n", layer)
	wantCode(t, err, wire.CodeNotFound)
	wantCode(t, h.DropCredential(t.Context(), "ci", operator), wire.CodeReleaseInUse)
}

// TestCredentials: they are kept sealed, and shown without the password.
func TestCredentials(t *testing.T) {
	h := newHall(t)
	ci := release.Credential{Name: "ci", Host: there, Realm: "tokens.example", Username: "puller", Password: password}
	must(t, h.SetCredential(t.Context(), ci, operator))
	all, err := h.Credentials(t.Context())
	ci.Password = ""
	if err != nil || len(all) != 1 || all[0] != ci {
		t.Errorf("got %+v, %v", all, err)
	}
	rows, err := h.store.Records().Query(t.Context(), statement("SELECT value FROM secrets WHERE name LIKE 'registry-credential/%'"))
	if err != nil || len(rows) != 1 || strings.Contains(rows[0][0].(string), password) {
		t.Errorf("on the disk: %v, %v", rows, err)
	}
	events, err := json.Marshal(append(h.events("registry_credential.set"), h.events("registry_credential.dropped")...))
	if err != nil || bytes.Contains(events, []byte(password)) || len(h.events("registry_credential.set")) != 1 {
		t.Errorf("the log has %s, %v", events, err)
	}
	for name, c := range map[string]release.Credential{
		"no name": {Host: there, Password: "p"}, "a name": {Name: "a b/", Host: there, Password: "p"}, "no password": {Name: "a", Host: there},
		"no host": {Name: "a", Password: "p"}, "a URL": {Name: "a", Host: "https://x", Password: "p"},
		"a path":  {Name: "a", Host: "x/y", Password: "p"},
		"a realm": {Name: "a", Host: "x", Realm: "x y", Password: "p"}, "a colon": {Name: "a", Host: "x", Username: "a:b", Password: "p"},
	} {
		if err := h.SetCredential(t.Context(), c, operator); err == nil {
			t.Errorf("%s is taken", name)
		} else {
			wantCode(t, err, wire.CodeBadRequest)
		}
	}
	must(t, h.DropCredential(t.Context(), "ci", operator))
	wantCode(t, h.DropCredential(t.Context(), "ci", operator), wire.CodeNotFound)
}
