package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/agent/wire"
)

// hubs are registries elsewhere, without a network. Each gives the same manifest for the tag 1.
type hubs struct {
	asked []string
	lent  int // logins
}

func (h *hubs) RoundTrip(r *http.Request) (*http.Response, error) {
	h.asked = append(h.asked, r.URL.Host+r.URL.Path)
	w := httptest.NewRecorder()
	_, password, _ := r.BasicAuth()
	switch {
	case r.URL.Host == "away.example":
		return nil, io.ErrUnexpectedEOF
	case r.URL.Path == "/v2/":
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://auth.docker.io/token",service="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/token" && password != "" && password != "pw":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/token" && password == "" && strings.Contains(r.URL.Query().Get("scope"), "private"):
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
	remote := NewRemote(RemoteConfig{Transport: h})
	finder := Digests{nil, "https://gw.example:7443", remote, remote}
	sum := sha256.Sum256([]byte("{}"))
	want := "sha256:" + hex.EncodeToString(sum[:])
	python := wire.Image{Host: "docker.io", Path: "library/python", Tag: "1"}
	login := func(login string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { h.lent++; return login, nil }
	}
	private := wire.Image{Host: "docker.io", Path: "ada/private", Tag: "1"}
	type asks struct {
		image wire.Image
		login func(context.Context) (string, error)
	}
	for i, tag := range []asks{{image: python}, {python, login("ada:pw")}, {private, login("ada:pw")}} {
		digest, err := finder.Find(t.Context(), tag.image, false, tag.login)
		if err != nil || digest != want || (h.lent > 0) != (tag.image == private) {
			t.Errorf("%d: %s, %v, lent %d times", i, digest, err, h.lent)
		}
	}
	if last := h.asked[len(h.asked)-1]; last != "registry-1.docker.io/v2/ada/private/manifests/1" {
		t.Errorf("asked %s", last)
	}
	_, err := finder.Find(t.Context(), wire.Image{Host: "away.example", Path: "a", Tag: "1"}, false, nil)
	var away *wire.ErrorDetail
	if !errors.As(err, &away) || away.Code != wire.CodeUnavailable || away.RetrySeconds == 0 {
		t.Errorf("a registry that is away: %v", err)
	}
	gone := python
	gone.Tag = "2"
	for says, tag := range map[string]asks{
		"has no such content":               {image: gone},
		"does not let the gateway read":     {private, login("ada:wrong")},
		"wants the credential sent to auth": {wire.Image{Host: "r.example", Path: "private", Tag: "1"}, login("ada:pw")},
	} {
		_, err := finder.Find(t.Context(), tag.image, false, tag.login)
		if err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "@sha256:DIGEST") || strings.Contains(err.Error(), "muster release") {
			t.Errorf("want %q: %v", says, err)
		}
	}
}

// TestTagsOfTenant: the gateway connects to no address of its own machine or network that a tenant names, and says what to do instead.
func TestTagsOfTenant(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	reached := make(chan struct{}, 10)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			reached <- struct{}{}
			connection.Close()
		}
	}()
	finder := NewDigests(nil, "https://gw.example:7443")
	image := wire.Image{Host: listener.Addr().String(), Path: "a", Tag: "1"}
	_, err = finder.Find(t.Context(), image, true, nil)
	if err == nil || !strings.Contains(err.Error(), "does not ask") || !strings.Contains(err.Error(), "@sha256:DIGEST") || len(reached) > 0 {
		t.Errorf("of a tenant: %v, reached %d times", err, len(reached))
	}
	_, err = finder.Find(t.Context(), image, false, nil)
	if err == nil || strings.Contains(err.Error(), "does not ask") {
		t.Errorf("of an operator: %v", err)
	}
	<-reached
	image.Host = "169.254.169.254"
	if _, err = finder.Find(t.Context(), image, false, nil); err == nil || !strings.Contains(err.Error(), "does not ask") {
		t.Errorf("the cloud's address: %v", err)
	}
}
