package oci_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/artifact"
)

const passLife = 5 * time.Minute

// TestPieces: an upload goes on after a piece at the wrong place, at its end too, and says how far it is.
func TestPieces(t *testing.T) {
	h := newHouse(t)
	up := h.begin()
	digest := artifact.DigestOf([]byte("hello world"))
	if got := h.want(202, "PATCH", up, "hello", "Content-Range", "0-4"); got.Header.Get("Range") != "0-4" ||
		got.Header.Get("Location") != "/v2/"+up {
		t.Errorf("headers %v", got.Header)
	}
	h.want(416, "PATCH", up, "hello", "Content-Range", "0-4")
	h.want(416, "PUT", up+"?digest="+digest, "world", "Content-Range", "6-10")
	if got := h.want(204, "GET", up, ""); got.Header.Get("Range") != "0-4" || got.Header.Get("Location") != "/v2/"+up {
		t.Errorf("headers %v", got.Header)
	}
	h.want(202, "PATCH", up, " ") // a stream, wherever it is
	got := h.want(201, "PUT", up+"?digest="+digest, "world", "Content-Range", "6-10")
	if got.Header.Get("Location") != "/v2/"+repository+"/blobs/"+digest || got.Header.Get("Docker-Content-Digest") != digest {
		t.Errorf("headers %v", got.Header)
	}
	if got := h.want(200, "GET", repository+"/blobs/"+digest, ""); got.text != "hello world" {
		t.Errorf("got %q", got.text)
	}
	h.want(404, "PATCH", up, "more")
	h.want(404, "PUT", up+"?digest="+digest, "")
}

// TestWrongTail: a last piece with which the digest is another stores nothing.
func TestWrongTail(t *testing.T) {
	h := newHouse(t)
	up := h.begin()
	h.want(202, "PATCH", up, "hello")
	digest := artifact.DigestOf([]byte("hello world"))
	if got := h.ask("PUT", up+"?digest="+digest, " earth"); got.StatusCode != 400 || got.code() != "DIGEST_INVALID" {
		t.Errorf("got %d %s", got.StatusCode, got.text)
	}
	h.want(404, "GET", repository+"/blobs/"+digest, "")
	h.want(404, "GET", repository+"/blobs/"+artifact.DigestOf([]byte("hello earth")), "")
}

func TestCancel(t *testing.T) {
	h := newHouse(t)
	up := h.begin()
	h.want(204, "DELETE", up, "")
	h.want(404, "GET", up, "")
}

// TestMount: a blob of another repository need not be sent again. One that is nowhere begins an upload.
func TestMount(t *testing.T) {
	h := newHouse(t)
	digest := h.push(repository, "hello")
	for _, query := range []string{"&from=" + repository, ""} {
		to := "other" + fmt.Sprint(len(query))
		h.want(404, "HEAD", to+"/blobs/"+digest, "")
		got := h.want(201, "POST", to+"/blobs/uploads/?mount="+digest+query, "")
		if got.Header.Get("Location") != "/v2/"+to+"/blobs/"+digest {
			t.Errorf("headers %v", got.Header)
		}
		h.want(200, "HEAD", to+"/blobs/"+digest, "")
	}
	none := artifact.DigestOf([]byte("none"))
	up := h.want(202, "POST", "other/blobs/uploads/?from="+repository+"&mount="+none, "").Header.Get("Location")
	h.want(201, "PUT", strings.TrimPrefix(up, "/v2/")+"?digest="+none, "none")
}

// TestCutOff: what came of a piece before its connection broke stays, and the client goes on from there. That is no fault of the gateway.
func TestCutOff(t *testing.T) {
	h := newHouse(t)
	up := h.begin()
	connection, err := net.Dial("tcp", h.server.Listener.Addr().String())
	h.must(err)
	_, err = fmt.Fprintf(connection, "PATCH /v2/%s HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Length: 10\r\n\r\nhello", up, h.as)
	h.must(err)
	h.must(connection.(*net.TCPConn).CloseWrite())
	got, err := http.ReadResponse(bufio.NewReader(connection), nil)
	h.must(err)
	got.Body.Close()
	connection.Close()
	if got.StatusCode != 400 {
		t.Errorf("got %d", got.StatusCode)
	}
	if at := h.want(204, "GET", up, "").Header.Get("Range"); at != "0-4" {
		t.Fatalf("it is at %s", at)
	}
	h.want(202, "PATCH", up, " world", "Content-Range", "5-10")
	h.want(201, "PUT", up+"?digest="+artifact.DigestOf([]byte("hello world")), "")
	if strings.Contains(h.log.String(), "went wrong") {
		t.Errorf("the log: %s", h.log.String())
	}
}

// TestQuota: an upload beyond what the registry may keep is refused, and leaves room for others.
func TestQuota(t *testing.T) {
	h := newHouse(t)
	last := answer{Response: &http.Response{}}
	for i := 0; i < 20 && last.StatusCode != http.StatusForbidden; i++ {
		content := strings.Repeat(string(rune('a'+i)), 1<<20)
		last = h.ask("POST", repository+"/blobs/uploads/?digest="+artifact.DigestOf([]byte(content)), content)
	}
	if last.StatusCode != 403 || last.code() != "DENIED" || !strings.Contains(last.text, artifact.SettingQuota) {
		t.Errorf("got %d %s", last.StatusCode, last.text)
	}
}
