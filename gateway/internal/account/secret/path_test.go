package secret_test

import (
	"muster/gateway/internal/account/secret"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestLogPath(t *testing.T) {
	for path, want := range map[string]string{
		"/nodes/register": "/nodes/register",
		"/api/v1/bootstrap/nodes/msb_ab12cd34ef56_0123456789abcdefghijkl/script": "/api/v1/bootstrap/nodes/msb_ab12cd34ef56_.../script",
		"/api/v1/bootstrap/nodes/justsecret/script":                              "/api/v1/bootstrap/nodes/.../script",
		"/api/v1/bootstrap/nodes/msb_ab12/script":                                "/api/v1/bootstrap/nodes/msb_ab12/script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch%2FSECRET/script":                 "/api/v1/bootstrap/nodes/msb_ab12_.../.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch,SECRET/script":                   "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch%20SECRET/script":                 "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch-SECRET/script":                   "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch:SECRET/script":                   "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch;SECRET/script":                   "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12_fetch%0ASECRET/script":                 "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/msb_ab12-fetch.SECRET/script":                   "/api/v1/bootstrap/nodes/msb_ab12_.../script",
		"/api/v1/bootstrap/nodes/SECRET/msb_ab12_fetch/registry-credential":      "/api/v1/bootstrap/nodes/.../msb_ab12_.../registry-credential",
		"/api/v1/bootstrap/nodes/fetch/SECRET/script":                            "/api/v1/bootstrap/nodes/.../.../script",
		"/agent/linux/msb_ab12_fetch%2FSECRET":                                   "/agent/linux/msb_ab12_.../...",
		"/api/v1/admin/nodes/msb_ab12%2Ffetch.SECRET/drain":                      "/api/v1/admin/nodes/msb_ab12/.../drain",
		"/x/%256Dsb_ab12_fetch.SECRET/y":                                         "/x/msb_ab12_.../...",
		"/api/v1/admin/tokens/mse_ab12cd34ef56":                                  "/api/v1/admin/tokens/mse_ab12cd34ef56",
		"/x/mse_ab12cd34ef56_SECRET/y?mse_ab12_SECRET":                           "/x/mse_ab12cd34ef56_.../...",
		"/x/%6dse_ab12cd34ef56_SECRET":                                           "/x/mse_ab12cd34ef56_...",
		"/x/mse_ab12/%256Dsb_ab12_SECRET":                                        "/x/mse_ab12/...",
		"/x/%256Dsb_ab12_SECRET/mse_ab12":                                        "/x/msb_ab12_.../...",
		"/x/mse_ab12%255F0123456789":                                             "/x/mse_ab12_...",
		"/x/msa_0123456789abcdefghijkl":                                          "/x/msa_...",
		"/x/msk_0123456789abcdefghijklmnopqr/drain":                              "/x/msk_.../drain",
		"/x/%6dsk_0123456789abcdefghijk/y":                                       "/x/msk_.../...",
		"/dc/msk_1/y":                                                            "/dc/msk_1/y",
		"/x%0a%1b[31m":                                                           "/x%0A%1B%5B31m",
		"/" + strings.Repeat("a", 300):                                           "/" + strings.Repeat("a", 255) + "...",
	} {
		if got := secret.LogPath(httptest.NewRequest("GET", path, nil)); got != want {
			t.Errorf("LogPath(%s) = %s, want %s", path, got, want)
		}
	}
}

func FuzzLogPath(f *testing.F) {
	for _, s := range []string{"/x/msb_ab12_f.", "/api/v1/bootstrap/nodes/msb_ab12_f/", "/%6dsa_ab12_", "/msb_ab12 ", "/mse_ab12cd34ef56/",
		"%", "/%2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const hidden = "sEcReT0123456789"
		u, err := url.Parse("/" + s + hidden)
		if err != nil || !secret.HasToken(u.Path) {
			return
		}
		id := secret.TokenID(u.Path) // the text that was appended may have become part of it
		if got := secret.LogPath(&http.Request{URL: u}); strings.Contains(got, hidden) && !strings.Contains(id, hidden) {
			t.Errorf("%q is logged as %q", u.Path, got)
		}
	})
}
