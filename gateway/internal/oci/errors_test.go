package oci_test

import (
	"net/http"
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/oci"
	"muster/store"
)

// TestErrors provokes every code. Each error has the form of the specification, whatever went wrong.
func TestErrors(t *testing.T) {
	h := newHouse(t)
	blob := h.push(repository, "hello")
	text, digest := h.manifest(repository, "v1", "")
	none := artifact.DigestOf([]byte("none"))
	large := strings.Repeat("a", 1<<20+1)
	up := h.begin()
	h.must(h.registry.Hold(t.Context(), repository, digest, "a test"))
	reader := "Bearer " + h.account(store.Account{Name: "reader", Scopes: []string{api.ScopeReleasesRead}})
	seen := map[string]bool{}
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code                     string
	}{
		{"a blob that is not there", "GET", repository + "/blobs/" + none, "", nil, 404, "BLOB_UNKNOWN"},
		{"a blob of another repository", "GET", "other/blobs/" + blob, "", nil, 404, "BLOB_UNKNOWN"},
		{"delete a blob that is not there", "DELETE", repository + "/blobs/" + none, "", nil, 404, "BLOB_UNKNOWN"},
		{"a malformed digest of a blob", "GET", repository + "/blobs/sha256:bad", "", nil, 400, "DIGEST_INVALID"},
		{"an unknown algorithm", "GET", repository + "/blobs/md5:" + strings.Repeat("0", 32), "", nil, 400, "DIGEST_INVALID"},
		{"a wrong digest", "POST", repository + "/blobs/uploads/?digest=" + none, "x", nil, 400, "DIGEST_INVALID"},
		{"a malformed digest to mount", "POST", repository + "/blobs/uploads/?mount=sha256:bad&from=a", "", nil, 400, "DIGEST_INVALID"},
		{"a mount from no name", "POST", repository + "/blobs/uploads/?from=..%2Fa&mount=" + none, "", nil, 400, "NAME_INVALID"},
		{"an algorithm that is not taken", "POST", repository + "/blobs/uploads/?digest-algorithm=md5", "", nil, 400, "DIGEST_INVALID"},
		{"no digest at the end", "PUT", up, "", nil, 400, "DIGEST_INVALID"},
		{"referrers of a malformed digest", "GET", repository + "/referrers/sha256:bad", "", nil, 400, "DIGEST_INVALID"},
		{"referrers of a tag", "GET", repository + "/referrers/v1", "", nil, 400, "DIGEST_INVALID"},
		{"an upload that is not there", "PATCH", repository + "/blobs/uploads/none", "x", nil, 404, "BLOB_UPLOAD_UNKNOWN"},
		{"its end", "PUT", repository + "/blobs/uploads/none?digest=" + none, "", nil, 404, "BLOB_UPLOAD_UNKNOWN"},
		{"its state", "GET", repository + "/blobs/uploads/none", "", nil, 404, "BLOB_UPLOAD_UNKNOWN"},
		{"its cancelling", "DELETE", repository + "/blobs/uploads/none", "", nil, 404, "BLOB_UPLOAD_UNKNOWN"},
		{"an upload of another repository", "PATCH", strings.Replace(up, repository, "other", 1), "x", nil, 404, "BLOB_UPLOAD_UNKNOWN"},
		{"an upload outside", "PATCH", repository + "/blobs/uploads/..%2F..%2Fdb", "x", nil, 404, "NAME_UNKNOWN"},
		{"a malformed Content-Range", "PATCH", up, "x", []string{"Content-Range", "bytes 0-0/1"}, 400, "BLOB_UPLOAD_INVALID"},
		{"a Content-Range with a sign", "PATCH", up, "x", []string{"Content-Range", "+0-0"}, 400, "BLOB_UPLOAD_INVALID"},
		{"a Content-Range of another length", "PATCH", up, "x", []string{"Content-Range", "0-4"}, 400, "BLOB_UPLOAD_INVALID"},
		{"a piece at the wrong place", "PATCH", up, "x", []string{"Content-Range", "7-7"}, 416, "RANGE_INVALID"},
		{"a blob that is too large", "POST", repository + "/blobs/uploads/?digest=" + none, large, nil, 413, "SIZE_INVALID"},
		{"a manifest that is too large", "PUT", repository + "/manifests/v2", strings.Repeat("a", artifact.MaxManifest+1), nil, 413,
			"SIZE_INVALID"},
		{"a manifest that is not there", "GET", repository + "/manifests/v7", "", nil, 404, "MANIFEST_UNKNOWN"},
		{"the same by digest", "GET", repository + "/manifests/" + none, "", nil, 404, "MANIFEST_UNKNOWN"},
		{"delete a manifest that is not there", "DELETE", repository + "/manifests/" + none, "", nil, 404, "MANIFEST_UNKNOWN"},
		{"a manifest that is none", "PUT", repository + "/manifests/v2", "hello", []string{"Content-Type", manifestType}, 400,
			"MANIFEST_INVALID"},
		{"a tag like a token", "PUT", repository + "/manifests/msa_ab12", text, []string{"Content-Type", manifestType}, 400,
			"MANIFEST_INVALID"},
		{"a manifest without its blobs", "PUT", "other/manifests/v1", text, []string{"Content-Type", manifestType}, 400,
			"MANIFEST_BLOB_UNKNOWN"},
		{"another digest than the manifest's", "PUT", repository + "/manifests/" + none, text, []string{"Content-Type", manifestType}, 400,
			"DIGEST_INVALID"},
		{"a malformed digest of a manifest", "PUT", repository + "/manifests/sha256:baddigeststring", text,
			[]string{"Content-Type", manifestType}, 400, ""},
		{"a held manifest", "DELETE", repository + "/manifests/" + digest, "", nil, 403, "DENIED"},
		{"no repository", "GET", "nothing/tags/list", "", nil, 404, "NAME_UNKNOWN"},
		{"nothing at all", "GET", "nothing", "", nil, 404, "NAME_UNKNOWN"},
		{"nothing in a repository", "GET", repository + "/nothing/x", "", nil, 404, "NAME_UNKNOWN"},
		{"a name with capitals", "GET", "Team/app/tags/list", "", nil, 400, "NAME_INVALID"},
		{"a climbing name", "GET", "..%2F..%2Fapp/tags/list", "", nil, 400, "NAME_INVALID"},
		{"a name like a token", "GET", "team/msa_ab12/tags/list", "", nil, 400, "NAME_INVALID"},
		{"less than no tags", "GET", repository + "/tags/list?n=-1", "", nil, 400, "PAGINATION_NUMBER_INVALID"},
		{"a number of tags that is none", "GET", repository + "/tags/list?n=many", "", nil, 400, "PAGINATION_NUMBER_INVALID"},
		{"less than no repositories", "GET", "_catalog?n=-1", "", nil, 400, "PAGINATION_NUMBER_INVALID"},
		{"a method that is not taken", "PATCH", repository + "/manifests/v1", "", nil, 405, "UNSUPPORTED"},
		{"nobody", "GET", "", "", []string{"Authorization", ""}, 401, "UNAUTHORIZED"},
		{"who may not push", "POST", repository + "/blobs/uploads/", "", []string{"Authorization", reader}, 403, "DENIED"},
		{"a token in the query", "GET", repository + "/tags/list?last=msa_ab12_x", "", nil, 400, "DENIED"},
	} {
		got := h.ask(c.method, c.path, c.body, c.headers...)
		if got.StatusCode != c.status || got.code() == "" || c.code != "" && got.code() != c.code {
			t.Errorf("%s: got %d %s, want %d %s", c.name, got.StatusCode, got.text, c.status, c.code)
		}
		if (got.Header.Get("WWW-Authenticate") != "") != (c.status == 401) || c.status != 405 != (got.Header.Get("Allow") == "") {
			t.Errorf("%s: headers %v", c.name, got.Header)
		}
		seen[got.code()] = true
		if head := h.ask("HEAD", c.path, "", c.headers...); c.method == "GET" && (head.StatusCode != c.status || head.text != "") {
			t.Errorf("%s, HEAD: got %d", c.name, head.StatusCode)
		}
	}
	for _, code := range []string{"BLOB_UNKNOWN", "BLOB_UPLOAD_INVALID", "BLOB_UPLOAD_UNKNOWN", "DIGEST_INVALID", "MANIFEST_BLOB_UNKNOWN",
		"MANIFEST_INVALID", "MANIFEST_UNKNOWN", "NAME_INVALID", "NAME_UNKNOWN", "SIZE_INVALID", "UNAUTHORIZED", "DENIED", "UNSUPPORTED"} {
		if !seen[code] {
			t.Errorf("nothing provoked %s", code)
		}
	}
	if strings.Contains(h.log.String(), "went wrong") {
		t.Errorf("a refusal counts as a fault of the gateway: %s", h.log.String())
	}
}

// TestStatuses: every code has a status, and one that nobody knows is a fault of the gateway.
func TestStatuses(t *testing.T) {
	for code, status := range map[string]int{
		artifact.CodeTooManyRequests: 429, artifact.CodeUnavailable: 503, artifact.CodeRangeInvalid: 416, "": 500, "SOMETHING": 500,
	} {
		if got := oci.Status(code); got != status {
			t.Errorf("%s: %d", code, got)
		}
	}
}

// TestTooMany: a guesser is told when to come again.
func TestTooMany(t *testing.T) {
	h := newHouse(t)
	h.as = "Bearer x.y"
	var got answer
	for range 12 {
		got = h.ask("GET", "", "")
	}
	if got.StatusCode != 429 || got.code() != "TOOMANYREQUESTS" || got.Header.Get("Retry-After") == "" ||
		got.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("got %d %v %s", got.StatusCode, got.Header, got.text)
	}
}

// TestBrokenStore: a fault of the gateway is a bare 500, whose cause is in the log alone.
func TestBrokenStore(t *testing.T) {
	h := newHouse(t)
	h.as = "Bearer " + h.passes.PullToken(repository, passLife)
	h.store.Close()
	got := h.ask("GET", repository+"/manifests/v1", "")
	if got.StatusCode != http.StatusInternalServerError || got.code() != "UNKNOWN" || strings.Contains(got.text, "sql") ||
		!strings.Contains(h.log.String(), "request went wrong") {
		t.Errorf("got %d %s, log %s", got.StatusCode, got.text, h.log.String())
	}
}
