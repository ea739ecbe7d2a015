package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

const (
	smallBlob  = 16 << 20
	mostGrowth = 12 << 20 // bytes by which the peaks may differ: garbage that was not collected yet
)

// TestRegistryMemory: the gateway needs as much memory for a large blob as for a small one, in every way in which blobs come and go. The
// large one is of 1 GiB where the tests of real parts run.
func TestRegistryMemory(t *testing.T) {
	t.Parallel()
	if looksForRaces() {
		t.Skip("the race detector keeps a record of the memory's use, which grows by itself")
	}
	p := newHouse(t).pusher()
	p.allWays("small", smallBlob)
	small := p.gateway.peak()
	p.allWays("large", largeBlob)
	large := p.gateway.peak()
	t.Logf("the gateway's memory at its peak: %.1f MiB with blobs of %d MiB, %.1f MiB with blobs of %d MiB", float64(small)/(1<<20),
		smallBlob>>20, float64(large)/(1<<20), largeBlob>>20)
	if large-small > mostGrowth {
		t.Errorf("it grew by %d KiB", (large-small)>>10)
	}
}

// peak is the most memory that the process has had, in bytes.
func (p *process) peak() int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(kib, 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n << 10
}

// zeros gives a blob as it is read, and holds nothing of it.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func blobOf(size int64) io.Reader { return io.LimitReader(zeros{}, size) }

// allWays pushes a blob as one request, in pieces with and without their length, and by mounting it, and pulls it whole and in parts.
func (p *pusher) allWays(name string, size int64) {
	p.t.Helper()
	sum := sha256.New()
	if _, err := io.Copy(sum, blobOf(size)); err != nil {
		p.t.Fatal(err)
	}
	digest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	uploads := func(repository string) string { return "/v2/" + name + "/" + repository + "/blobs/uploads/" }
	p.send(201, "POST", uploads("whole")+"?digest="+digest, size, size)
	at := p.send(202, "POST", uploads("pieces"), 0, 0).Get("Location")
	p.send(202, "PATCH", at, size/2, size/2, "Content-Range", fmt.Sprintf("0-%d", size/2-1))
	p.send(202, "PATCH", at, size/4, -1)
	p.send(201, "PUT", at+"?digest="+digest, size/4, size/4, "Content-Range", fmt.Sprintf("%d-%d", size/4*3, size-1))
	p.send(201, "POST", uploads("mounted")+"?mount="+digest+"&from="+name+"/whole", 0, 0)
	p.pull(200, "/v2/"+name+"/mounted/blobs/"+digest, digest)
	p.pull(206, "/v2/"+name+"/pieces/blobs/"+digest, "", "Range", fmt.Sprintf("bytes=%d-", size/2))
}

// send sends a request with so many bytes, of which the client says how many there are (-1: it does not).
func (p *pusher) send(status int, method, path string, size, said int64, headers ...string) http.Header {
	p.t.Helper()
	answer := p.stream(status, method, path, blobOf(size), said, headers...)
	answer.Body.Close()
	return answer.Header
}

// pull reads an answer to its end, and checks its digest where there is one.
func (p *pusher) pull(status int, path, digest string, headers ...string) {
	p.t.Helper()
	answer := p.stream(status, "GET", path, nil, 0, headers...)
	defer answer.Body.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, answer.Body)
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); err != nil || n != answer.ContentLength || digest != "" && got != digest {
		p.t.Fatalf("GET %s: %d bytes, %v, %s", path, n, err, got)
	}
}

func (p *pusher) stream(status int, method, path string, body io.Reader, said int64, headers ...string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if r.ContentLength = said; said == 0 {
		r.Body = nil
	}
	r.SetBasicAuth("pusher", p.token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := visitor().Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	if answer.StatusCode != status {
		text, _ := io.ReadAll(answer.Body)
		p.t.Fatalf("%s %s: %d %.300s, want %d", method, path, answer.StatusCode, text, status)
	}
	return answer
}
