package nodeapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/nodeapi"
)

func TestPublic(t *testing.T) {
	s := newSite(t, nil)
	for path, want := range map[string]string{
		wire.PathHealth: `{"status":"ok"}`, wire.PathReady: `{"status":"ready"}`, wire.PathVersion: `{"protocol":1,"version":"v1"}`,
		wire.PathRoots: strings.TrimSpace(s.ca.RootPEM()), wire.PathAgent: `{"version":"v1","platforms":[]}`,
	} {
		if a := s.get(path); a.status != http.StatusOK || strings.TrimSpace(string(a.body)) != want {
			t.Errorf("%s: got %d %s, want %s", path, a.status, a.body, want)
		}
	}
	var sets struct {
		Sets []sign.Envelope `json:"sets"`
	}
	if err := json.Unmarshal(s.get(wire.PathTrust).body, &sets); err != nil || len(sets.Sets) != 1 {
		t.Fatalf("got %+v, %v, want one set", sets, err)
	}
	payload, err := sets.Sets[0].Open(s.ca.TrustKey(), sign.RoleTrust)
	var set wire.TrustSet
	if err != nil || sign.DecodeStrict(payload, &set) != nil || set.Roots != s.ca.RootPEM() || set.Number != 1 {
		t.Errorf("got %+v, %v", set, err)
	}
}

func TestNotReady(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	c := s.token(nil)
	raw := encode(t, s.application("other", newKey(t)))
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	s.want("readyz", s.get(wire.PathReady), http.StatusServiceUnavailable, wire.CodeUnavailable)
	if a := s.get(wire.PathHealth); a.status != http.StatusOK {
		t.Errorf("healthz: got %d %s: the process lives", a.status, a.body)
	}
	s.want("a heartbeat", s.beats(n), http.StatusInternalServerError, wire.CodeInternal)
	r := newRequest(t, http.MethodPost, s.plain.URL+wire.PathRegister, raw)
	r.Header.Set("Authorization", sign.Authorization(c.id, c.key, raw))
	s.want("an enrolment", s.do(http.DefaultClient, r), http.StatusInternalServerError, wire.CodeInternal)
}

func TestAgents(t *testing.T) {
	small := []byte("an agent")
	large := []byte(strings.Repeat("another agent ", 1000))
	s := newSite(t, func(c *nodeapi.Config) {
		c.Agents = nodeapi.NewAgents(fstest.MapFS{
			"linux-amd64/muster-agent": {Data: large}, "linux-arm64/muster-agent": {Data: small}, "README": {Data: small},
			"notes/muster-agent": {Data: small},
		}, "v1")
	})
	var got wire.Manifest
	if err := json.Unmarshal(s.get(wire.PathAgent).body, &got); err != nil {
		t.Fatal(err)
	}
	want := wire.Manifest{Version: "v1", Platforms: []wire.Platform{
		{OS: "linux", Arch: "amd64", Size: int64(len(large)), SHA256: digest(large), Path: "/agent/linux/amd64"},
		{OS: "linux", Arch: "arm64", Size: int64(len(small)), SHA256: digest(small), Path: "/agent/linux/arm64"},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	a := s.get("/agent/linux/amd64")
	if a.status != http.StatusOK || string(a.body) != string(large) || a.header.Get("Content-Type") != "application/octet-stream" ||
		a.header.Get("ETag") != `"sha256:`+digest(large)+`"` {
		t.Errorf("got %d, %d bytes, %v", a.status, len(a.body), a.header)
	}
	rest := s.get("/agent/linux/amd64", "Range", "bytes=100-", "If-Range", a.header.Get("ETag"))
	if rest.status != http.StatusPartialContent || string(rest.body) != string(large[100:]) {
		t.Errorf("the rest: got %d, %d bytes", rest.status, len(rest.body))
	}
	whole := s.get("/agent/linux/amd64", "Range", "bytes=100-", "If-Range", `"sha256:of-an-older-one"`)
	if whole.status != http.StatusOK || string(whole.body) != string(large) {
		t.Errorf("the rest of another build: got %d, %d bytes, want all of this one", whole.status, len(whole.body))
	}
	for _, path := range []string{"/agent/linux/riscv64", "/agent/notes/x", "/agent/..%2f..%2fetc/passwd", "/agent/linux-amd64/muster-agent",
		"/agent/%00/amd64"} {
		s.want(path, s.get(path), http.StatusNotFound, wire.CodeNotFound)
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
