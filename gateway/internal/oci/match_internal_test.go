package oci

import (
	"net/http"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/artifact"
)

// TestMatch: the name of a repository is what stands before a route's own words, also if it holds such words.
func TestMatch(t *testing.T) {
	for _, c := range []struct{ method, path, want, name, what string }{
		{"GET", "", "GET /v2/", "", ""},
		{"GET", "token", "GET /v2/token", "", ""},
		{"GET", "token/tags/list", "GET /v2/{name}/tags/list", "token", ""},
		{"HEAD", "a/blobs/d", "GET /v2/{name}/blobs/{digest}", "a", "d"},
		{"GET", "a/manifests/blobs/d", "GET /v2/{name}/blobs/{digest}", "a/manifests", "d"},
		{"GET", "a/blobs/uploads/manifests/x", "GET /v2/{name}/manifests/{reference}", "a/blobs/uploads", "x"},
		{"GET", "blobs/uploads/blobs/uploads/x", "GET /v2/{name}/blobs/uploads/{upload}", "blobs/uploads", "x"},
		{"POST", "a/b/blobs/uploads/", "POST /v2/{name}/blobs/uploads/", "a/b", ""},
		{"GET", "a/blobs/uploads/", "", "", ""},
		{"POST", "a/blobs/uploads", "", "", ""},
		{"GET", "blobs/d", "", "", ""},
		{"GET", "/blobs/d", "", "", ""},
		{"GET", "a/blobs/", "", "", ""},
		{"GET", "a/tags/list/", "", "", ""},
		{"DELETE", "token", "", "", ""},
	} {
		var found []string
		var at place
		for _, route := range Table() {
			if here, ok := route.match(c.path); ok && route.takes(c.method) {
				found = append(found, route.Pattern())
				at = here
			}
		}
		if strings.Join(found, " and ") != c.want || at != (place{c.name, c.what}) {
			t.Errorf("%s %s: %q with %+v", c.method, c.path, found, at)
		}
	}
}

// FuzzMatch: at most one route is for a request, and what a path names is in that path, in its order.
func FuzzMatch(f *testing.F) {
	for _, route := range Table() {
		f.Add(route.Method, route.Path)
	}
	f.Add("GET", "a//blobs//")
	f.Fuzz(func(t *testing.T, method, path string) {
		matches := 0
		for _, route := range Table() {
			at, ok := route.match(path)
			if !ok || !route.takes(method) {
				continue
			}
			matches++
			if !strings.HasPrefix(path, at.name) || !strings.HasSuffix(path, at.what) && route.Path != "{name}/tags/list" {
				t.Errorf("%q is %+v", path, at)
			}
			if strings.Contains(at.what, "/") || strings.Contains(route.Path, "{name}") == (at.name == "") {
				t.Errorf("%q is %+v", path, at)
			}
		}
		if matches > 1 {
			t.Errorf("%d routes for %s %q", matches, method, path)
		}
	})
}

// FuzzOffset: a Content-Range is two numbers that fit the body, or none.
func FuzzOffset(f *testing.F) {
	for _, text := range []string{"0-0", "5-10", "10-5", "-1-5", "bytes 0-1/2", "9223372036854775807-9223372036854775807", "1-", "-"} {
		f.Add(text, int64(6))
	}
	f.Fuzz(func(t *testing.T, text string, length int64) {
		r, err := http.NewRequest("PATCH", wire.PathRegistry, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Range", text)
		r.ContentLength = length
		c := &call{r: r}
		if first, err := c.offset(); err == nil && (first < -1 || first == -1 != (text == "")) {
			t.Errorf("%q begins at %d", text, first)
		}
	})
}

// FuzzPage: a page has no negative size, whatever is asked for.
func FuzzPage(f *testing.F) {
	for _, text := range []string{"", "0", "-1", "1e3", "99999999999999999999", "+5", " 5"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := &call{query: map[string][]string{"n": {text}}}
		if n, _, err := c.page(); err == nil && n < 0 {
			t.Errorf("%q is %d", text, n)
		}
	})
}

// FuzzScopes: whatever a client asks for, a pass names only repositories, opens no more than the account may, and stays small.
func FuzzScopes(f *testing.F) {
	for _, text := range []string{
		"repository:a:pull", "repository:a/b:pull,push repository:c:*", "repository:::", "registry:catalog:*", ":", " ",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := &call{query: map[string][]string{"scope": {text, text}}, caller: account.Caller{Scopes: []string{api.ScopeReleasesRead}}}
		grants := c.grants()
		if len(grants) > mostGrants {
			t.Errorf("%d grants", len(grants))
		}
		for _, g := range grants {
			if artifact.CheckName(g.Repository) != nil || len(g.Actions) != 1 || g.Actions[0] != account.ActionPull {
				t.Errorf("%q opens %+v", text, g)
			}
		}
	})
}
