package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/release/build"
	"muster/gateway/internal/task"
)

// hubs are registries elsewhere, without a network. Each gives the same manifest for the tag 1.
type hubs struct{ asked []string }

func (h *hubs) RoundTrip(r *http.Request) (*http.Response, error) {
	h.asked = append(h.asked, r.URL.Host+r.URL.Path)
	w := httptest.NewRecorder()
	_, password, _ := r.BasicAuth()
	switch {
	case r.URL.Path == "/v2/":
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://auth.docker.io/token",service="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/token" && password != "" && password != "pw":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/token":
		_, _ = io.WriteString(w, `{"token":"t"}`)
	case strings.HasSuffix(r.URL.Path, "/manifests/1") && r.Header.Get("Authorization") == "Bearer t":
		w.Header().Set("Content-Type", wire.MediaIndex)
		_, _ = io.WriteString(w, "{}")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

// TestTags: Docker's own images are asked for where Docker has them, with the login of the task. A refusal says how to do without.
func TestTags(t *testing.T) {
	h := &hubs{}
	finder := tags{nil, "https://gw.example:7443", build.NewRemote(build.RemoteConfig{Transport: h})}
	sum := sha256.Sum256([]byte("{}"))
	want := "sha256:" + hex.EncodeToString(sum[:])
	python := wire.Image{Host: "docker.io", Path: "library/python", Tag: "1"}
	for _, login := range []string{"", "ada:pw"} {
		digest, err := finder.digest(t.Context(), task.Tag{Image: python, Login: login})
		if err != nil || digest != want {
			t.Errorf("login %q: %s, %v", login, digest, err)
		}
	}
	if last := h.asked[len(h.asked)-1]; last != "registry-1.docker.io/v2/library/python/manifests/1" {
		t.Errorf("asked %s", last)
	}
	gone := python
	gone.Tag = "2"
	for says, tag := range map[string]task.Tag{
		"has no such content":               {Image: gone},
		"does not let the gateway read":     {Image: python, Login: "ada:wrong"},
		"wants the credential sent to auth": {Image: wire.Image{Host: "r.example", Path: "a", Tag: "1"}, Login: "ada:pw"},
	} {
		_, err := finder.digest(t.Context(), tag)
		if err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "@sha256:DIGEST") || strings.Contains(err.Error(), "muster release") {
			t.Errorf("want %q: %v", says, err)
		}
	}
}
