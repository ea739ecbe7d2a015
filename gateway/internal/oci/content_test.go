package oci_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"muster/gateway/internal/artifact"
)

// TestBlobs: whole, in parts, and by HEAD, under either digest.
func TestBlobs(t *testing.T) {
	h := newHouse(t)
	by256 := h.push(repository, "hello world")
	by512 := sha512Of("hello world")
	h.want(201, "POST", repository+"/blobs/uploads/?digest-algorithm=sha512&digest="+by512, "hello world")
	for _, digest := range []string{by256, by512} {
		path := repository + "/blobs/" + digest
		head := h.want(200, "HEAD", path, "")
		whole := h.want(200, "GET", path, "")
		for _, a := range []answer{head, whole} {
			if a.ContentLength != 11 || a.Header.Get("Docker-Content-Digest") != digest || a.Header.Get("Accept-Ranges") != "bytes" ||
				a.Header.Get("Content-Type") != "application/octet-stream" || a.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%d bytes, headers %v", a.ContentLength, a.Header)
			}
		}
		if whole.text != "hello world" || head.text != "" {
			t.Errorf("got %q and %q", whole.text, head.text)
		}
		part := h.want(206, "GET", path, "", "Range", "bytes=6-")
		if part.text != "world" || part.Header.Get("Content-Range") != "bytes 6-10/11" {
			t.Errorf("got %q, headers %v", part.text, part.Header)
		}
		beyond := h.want(416, "GET", path, "", "Range", "bytes=20-")
		if !strings.Contains(beyond.text, `"code":"RANGE_INVALID"`) || beyond.Header.Get("Content-Type") != "application/json" ||
			beyond.Header.Get("Content-Range") != "bytes */11" || beyond.Header.Get("Docker-Content-Digest") != "" {
			t.Errorf("beyond its end: %q %v", beyond.text, beyond.Header)
		}
		h.want(304, "GET", path, "", "If-None-Match", `"`+digest+`"`)
	}
	h.want(202, "DELETE", repository+"/blobs/"+by256, "")
	h.want(404, "HEAD", repository+"/blobs/"+by256, "")
	empty := h.push(repository, "")
	if got := h.want(200, "GET", repository+"/blobs/"+empty, ""); got.ContentLength != 0 {
		t.Errorf("an empty blob has %d bytes", got.ContentLength)
	}
}

// TestManifests: byte by byte and with the media type as they were pushed, by tag and by either digest.
func TestManifests(t *testing.T) {
	h := newHouse(t)
	text, digest := h.manifest(repository, "v1", `,"annotations":{"a":"$`+"`"+`"}`)
	by512 := sha512Of(text)
	got := h.want(201, "PUT", repository+"/manifests/"+by512+"?tag=v2&tag=v3", text, "Content-Type", manifestType+"; charset=utf-8")
	if got.Header.Get("Docker-Content-Digest") != by512 || fmt.Sprint(got.Header["Oci-Tag"]) != "[v2 v3]" ||
		got.Header.Get("Location") != "/v2/"+repository+"/manifests/"+by512 {
		t.Errorf("headers %v", got.Header)
	}
	for reference, want := range map[string]string{"v1": digest, digest: digest, by512: by512, "v3": by512} {
		for _, method := range []string{"GET", "HEAD"} {
			got := h.want(200, method, repository+"/manifests/"+reference, "")
			if method == "GET" && got.text != text || got.ContentLength != int64(len(text)) || got.Header.Get("Content-Type") != manifestType ||
				got.Header.Get("Docker-Content-Digest") != want {
				t.Errorf("%s %s: %q, headers %v", method, reference, got.text, got.Header)
			}
		}
	}
	h.want(202, "DELETE", repository+"/manifests/v1", "")
	h.want(404, "HEAD", repository+"/manifests/v1", "")
	h.want(200, "HEAD", repository+"/manifests/"+digest, "")
	h.want(202, "DELETE", repository+"/manifests/"+digest, "")
	h.want(404, "HEAD", repository+"/manifests/"+digest, "")
}

// TestReferrers: an index, also if nothing refers to anything, and the filter says that it was applied.
func TestReferrers(t *testing.T) {
	h := newHouse(t)
	_, subject := h.manifest(repository, "v1", "")
	extra := `,"artifactType":"application/a","subject":{"mediaType":"` + manifestType + `","digest":"` + subject + `","size":5}`
	config := h.push(repository, "{}")
	text := `{"schemaVersion":2,"mediaType":"` + manifestType + `","config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"` +
		config + `","size":2},"layers":[]` + extra + `}`
	put := h.want(201, "PUT", repository+"/manifests/"+artifact.DigestOf([]byte(text)), text, "Content-Type", manifestType)
	if put.Header.Get("OCI-Subject") != subject {
		t.Errorf("headers %v", put.Header)
	}
	for path, want := range map[string]int{
		repository + "/referrers/" + subject: 1, repository + "/referrers/" + subject + "?artifactType=application/a": 1,
		repository + "/referrers/" + subject + "?artifactType=application/b": 0, "nothing/referrers/" + subject: 0,
	} {
		got := h.want(200, "GET", path, "")
		var index struct {
			SchemaVersion int
			MediaType     string
			Manifests     []artifact.Descriptor
		}
		h.must(json.Unmarshal([]byte(got.text), &index))
		if len(index.Manifests) != want || strings.Contains(got.text, "null") || index.SchemaVersion != 2 ||
			got.Header.Get("Content-Type") != "application/vnd.oci.image.index.v1+json" || index.MediaType != got.Header.Get("Content-Type") {
			t.Errorf("%s: %s %v", path, got.text, got.Header)
		}
		if filtered := strings.Contains(path, "?"); (got.Header.Get("OCI-Filters-Applied") == "artifactType") != filtered {
			t.Errorf("%s: headers %v", path, got.Header)
		}
	}
}

// TestTags: pages with a link to the next one, and none if there is no more.
func TestTags(t *testing.T) {
	h := newHouse(t)
	for _, tag := range []string{"c", "a", "b"} {
		h.manifest(repository, tag, "")
	}
	for query, want := range map[string]string{
		"": `a b c `, "?n=2": `a b </v2/team/app/tags/list?last=b&n=2>; rel="next"`, "?n=3": `a b c `, "?n=0": ``,
		"?n=1&last=a": `b </v2/team/app/tags/list?last=b&n=1>; rel="next"`, "?n=2&last=b": `c `, "?last=a": `b c `, "?n=0&last=a": ``,
		"?n=9999999999": `a b c `,
	} {
		got := h.want(200, "GET", repository+"/tags/list"+query, "")
		var list struct {
			Name string
			Tags []string
		}
		h.must(json.Unmarshal([]byte(got.text), &list))
		told := strings.Join(append(list.Tags, got.Header.Get("Link")), " ")
		if told != want || list.Name != repository || list.Tags == nil {
			t.Errorf("%q: got %q of %s, want %q", query, told, got.text, want)
		}
	}
	next := h.want(200, "GET", repository+"/tags/list?n=2", "").Header.Get("Link")
	path, _, _ := strings.Cut(strings.TrimPrefix(next, "</v2/"), ">")
	if got := h.want(200, "GET", path, ""); !strings.Contains(got.text, `["c"]`) || got.Header.Get("Link") != "" {
		t.Errorf("the next page: %s, link %q", got.text, got.Header.Get("Link"))
	}
}

// TestCatalog: pages of the repositories. Nobody's pass sees those that it opens.
func TestCatalog(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{"b", "a", "c"} {
		h.manifest(name, "v1", "")
	}
	for query, want := range map[string]string{"": `["a","b","c"]`, "?n=1&last=a": `["b"]`, "?n=0": `[]`, "?last=c": `[]`} {
		got := h.want(200, "GET", "_catalog"+query, "")
		link := got.Header.Get("Link") != ""
		if !strings.Contains(got.text, `{"repositories":`+want+`}`) || link != (query == "?n=1&last=a") {
			t.Errorf("%q: %s %v", query, got.text, got.Header)
		}
	}
	h.as = "Bearer " + h.passes.PullToken("b", passLife)
	if got := h.want(200, "GET", "_catalog", ""); !strings.Contains(got.text, `["b"]`) {
		t.Errorf("nobody's pass: %s", got.text)
	}
}

// TestEncodedNames: a name is the same however its characters are written.
func TestEncodedNames(t *testing.T) {
	h := newHouse(t)
	text, digest := h.manifest(repository, "v1", "")
	for _, name := range []string{"team%2Fapp", "%74eam/app", "t%65am%2fapp"} {
		if got := h.want(200, "GET", name+"/manifests/v1", ""); got.text != text {
			t.Errorf("%s: %s", name, got.text)
		}
		h.want(200, "HEAD", name+"/manifests/"+url.PathEscape(digest), "")
		if at := h.want(202, "POST", name+"/blobs/uploads/", "").Header.Get("Location"); !strings.HasPrefix(at, "/v2/team/app/blobs/uploads/") {
			t.Errorf("%s: an upload at %s", name, at)
		}
	}
}
