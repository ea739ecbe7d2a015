package oci_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/store"
)

// login asks for a pass.
func (h *house) login(as, query string) string {
	h.t.Helper()
	got := h.want(200, "GET", "token"+query, "", "Authorization", as)
	var told struct {
		Token       string
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
	}
	h.must(json.Unmarshal([]byte(got.text), &told))
	if told.Token == "" || told.Token != told.AccessToken || told.ExpiresIn < 60 || told.ExpiresIn > 600 ||
		got.Header.Get("Cache-Control") != "no-store" {
		h.t.Errorf("got %s, headers %v", got.text, got.Header)
	}
	return "Bearer " + told.Token
}

// TestChallenges: who is not let in is told where to log in, and what for.
func TestChallenges(t *testing.T) {
	h := newHouse(t)
	h.as = ""
	const realm = `Bearer realm="https://gw.example:7443/v2/token",service="gw.example:7443"`
	for path, want := range map[string]string{
		"GET ": realm, "GET team/app/tags/list": realm + `,scope="repository:team/app:pull"`,
		"POST team/app/blobs/uploads/":  realm + `,scope="repository:team/app:pull,push"`,
		"DELETE team/app/manifests/v1":  realm + `,scope="repository:team/app:pull,delete"`,
		"GET _catalog":                  realm + `,scope="registry:catalog:*"`,
		"GET token":                     `Basic realm="muster", charset="UTF-8"`,
		"GET Team%22%2Fapp/manifests/x": realm,
	} {
		method, path, _ := strings.Cut(path, " ")
		if got := h.want(401, method, path, ""); got.Header.Get("WWW-Authenticate") != want {
			t.Errorf("%s %s: %s", method, path, got.Header.Get("WWW-Authenticate"))
		}
	}
	h.as = "Bearer " + h.passes.PullToken("other", passLife)
	want := realm + `,scope="repository:team/app:pull",error="insufficient_scope"`
	if got := h.want(401, "GET", "team/app/tags/list", ""); got.Header.Get("WWW-Authenticate") != want {
		t.Errorf("a pass for another repository: %s", got.Header.Get("WWW-Authenticate"))
	}
}

// TestLogin: a pass opens what was asked for, as far as the account may do that.
func TestLogin(t *testing.T) {
	h := newHouse(t)
	_, digest := h.manifest(repository, "v1", "")
	reader := basic("reader", h.account(store.Account{Name: "reader", Scopes: []string{api.ScopeReleasesRead}}))
	tenant := basic("tenant", h.account(store.Account{Name: "tenant", Tenant: "platform", Scopes: []string{api.ScopeAll}}))
	stranger := basic("stranger", h.account(store.Account{Name: "stranger", Scopes: []string{api.ScopeNodesRead}}))
	writer := basic("ci", h.token)
	const all = "?service=gw.example:7443&scope=repository:team/app:pull,push,delete"
	for _, c := range []struct {
		name, as, query    string
		pull, push, remove int
	}{
		{"all of it", writer, all, 200, 202, 202},
		{"the star", writer, "?scope=repository:team/app:*", 200, 202, 202},
		{"to pull", writer, "?scope=repository:team/app:pull", 200, 401, 401},
		{"two in one", writer, "?scope=repository:x:pull%20repository:team/app:pull,push", 200, 202, 401},
		{"two apart", writer, "?scope=repository:x:pull&scope=repository:team/app:push,pull", 200, 202, 401},
		{"nothing", writer, "", 401, 401, 401},
		{"another repository", writer, "?scope=repository:team:pull,push", 401, 401, 401},
		{"nonsense", writer, "?scope=repository:&scope=x&scope=repository:..:pull&scope=registry:catalog:*", 401, 401, 401},
		{"a reader", reader, all, 200, 403, 403},
		{"of one tenant", tenant, all, 200, 403, 403},
		{"without the scope", stranger, all, 403, 403, 403},
	} {
		pass := h.login(c.as, c.query)
		for _, q := range []struct {
			want         int
			method, path string
		}{{c.pull, "HEAD", "/manifests/v1"}, {c.push, "POST", "/blobs/uploads/"}, {c.remove, "DELETE", "/manifests/v1"}} {
			if got := h.ask(q.method, repository+q.path, "", "Authorization", pass); got.StatusCode != q.want {
				t.Errorf("%s, %s: got %d %s, want %d", c.name, q.method, got.StatusCode, got.text, q.want)
			}
		}
		text := h.want(200, "GET", repository+"/manifests/"+digest, "").text
		h.want(201, "PUT", repository+"/manifests/v1", text, "Content-Type", manifestType)
		if again := h.login(pass, all); again != pass {
			t.Errorf("%s: a pass made another one", c.name)
		}
	}
}

// TestRevoked: a pass ends with its account.
func TestRevoked(t *testing.T) {
	h := newHouse(t)
	h.manifest(repository, "v1", "")
	pass := h.login(basic("ci", h.token), "?scope=repository:team/app:pull")
	h.want(200, "HEAD", repository+"/manifests/v1", "", "Authorization", pass)
	id := h.token[:strings.LastIndex(h.token, "_")]
	h.must(h.store.RevokeAccount(t.Context(), "", id, time.Now()))
	h.want(401, "HEAD", repository+"/manifests/v1", "", "Authorization", pass)
}
