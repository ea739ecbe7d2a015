package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pusher is a client of the registry, with an account that may push.
type pusher struct {
	*house
	token string
}

func (h *house) pusher() *pusher {
	h.t.Helper()
	var made struct{ Token string }
	text := h.muster("account", "create", "pusher", "--scope", "releases:write", "-o", "json")
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		h.t.Fatal(err)
	}
	return &pusher{h, made.Token}
}

// ask sends a request with Basic, and gives the answer with all of its body. The path may be a Location.
func (p *pusher) ask(method, path string, body io.Reader, headers ...string) (*http.Response, []byte, error) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	r.SetBasicAuth("pusher", p.token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := visitor().Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer, text, err
}

// must asks and checks the status.
func (p *pusher) must(status int, method, path string, body []byte, headers ...string) (*http.Response, []byte) {
	p.t.Helper()
	answer, text, err := p.ask(method, path, bytes.NewReader(body), headers...)
	if err != nil || answer.StatusCode != status {
		p.t.Fatalf("%s %s: %v %v %.300s, want %d", method, path, answer, err, text, status)
	}
	return answer, text
}

func randomBytes(n int) (content []byte, digest string) {
	content = make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content) // it never fails
	sum := sha256.Sum256(content)
	return content, "sha256:" + hex.EncodeToString(sum[:])
}

// TestUploadKilled: kill -9 in the middle of an upload. What was acknowledged is there afterwards, nothing else is shown as a blob, and the
// client goes on from where the gateway says. No credential is in the log.
func TestUploadKilled(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p := h.pusher()
	content, digest := randomBytes(3 << 20)
	const first = 1 << 20
	begun, _ := p.must(202, "POST", "/v2/muster/agent/blobs/uploads/", nil)
	at := begun.Header.Get("Location")
	p.must(202, "PATCH", at, content[:first], "Content-Range", fmt.Sprintf("0-%d", first-1))
	read, write := io.Pipe()
	broken := make(chan error, 1)
	go func() {
		_, _, err := p.ask("PATCH", at, read)
		broken <- err
	}()
	if _, err := write.Write(content[first : 2<<20]); err != nil { // until the client has sent it
		t.Fatal(err)
	}
	h.gateway.kill()
	write.CloseWithError(io.ErrUnexpectedEOF)
	if err := <-broken; err == nil {
		t.Fatal("the upload was answered")
	}
	logs := h.gateway.text()
	h.open()
	p.must(404, "HEAD", "/v2/muster/agent/blobs/"+digest, nil)
	state, _ := p.must(204, "GET", at, nil)
	var last int
	if _, err := fmt.Sscanf(state.Header.Get("Range"), "0-%d", &last); err != nil || last < first-1 || last >= 2<<20 {
		t.Fatalf("the upload is at %s", state.Header.Get("Range"))
	}
	p.must(202, "PATCH", at, content[last+1:], "Content-Range", fmt.Sprintf("%d-%d", last+1, len(content)-1))
	p.must(201, "PUT", at+"?digest="+digest, nil)
	if _, got := p.must(200, "GET", "/v2/muster/agent/blobs/"+digest, nil); !bytes.Equal(got, content) {
		t.Errorf("got %d other bytes", len(got))
	}
	_, pass := p.must(200, "GET", "/v2/token?scope=repository:muster/agent:pull,push", nil)
	p.must(404, "GET", "/v2/muster/agent/manifests/none", nil)
	var told struct{ Token string }
	if err := json.Unmarshal(pass, &told); err != nil || told.Token == "" {
		t.Fatalf("%s, %v", pass, err)
	}
	logs += h.gateway.text() + h.muster("events", "--limit", "1000")
	if secret := p.token[strings.LastIndex(p.token, "_"):]; strings.Contains(logs, secret) || strings.Contains(logs, told.Token[:40]) {
		t.Errorf("a credential is in the log or the events:\n%s", logs)
	}
}

// TestFullDisk: a disk that is full is an answer, no fault, and the gateway goes on. With room again the same push succeeds.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	unshare, err := exec.LookPath("unshare")
	if os.Geteuid() != 0 || err != nil {
		t.Skip("a small file system needs root and unshare")
	}
	if err := exec.Command(unshare, "-m", "mount", "-t", "tmpfs", "none", "/mnt").Run(); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	dir, err := os.MkdirTemp("", "muster-house-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	script := "#!/bin/sh\nexec " + unshare + " -m sh -c 'mkdir -p " + dir + "/registry && mount -t tmpfs -o size=4m none " + dir +
		"/registry && exec " + os.Args[0] + " \"$@\"' sh \"$@\"\n"
	program := filepath.Join(dir, "gateway.sh")
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, data: dir, program: program, args: []string{"--listen", "127.0.0.1:0"}}
	h.open()
	p := h.pusher()
	content, digest := randomBytes(8 << 20)
	path := "/v2/muster/agent/blobs/uploads/?digest="
	answer, text, err := p.ask("POST", path+digest, bytes.NewReader(content))
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), `"UNAVAILABLE"`) {
		t.Errorf("a whole blob: %v %v %s", answer, err, text)
	}
	begun, _ := p.must(202, "POST", "/v2/muster/agent/blobs/uploads/", nil)
	answer, text, err = p.ask("PATCH", begun.Header.Get("Location"), bytes.NewReader(content))
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a piece: %v %v %s", answer, err, text)
	}
	p.must(404, "HEAD", "/v2/muster/agent/blobs/"+digest, nil)
	p.must(204, "DELETE", begun.Header.Get("Location"), nil)
	small, digest := randomBytes(2 << 20)
	p.must(201, "POST", path+digest, small)
	if _, got := p.must(200, "GET", "/v2/muster/agent/blobs/"+digest, nil); !bytes.Equal(got, small) {
		t.Errorf("got %d other bytes", len(got))
	}
	if strings.Contains(h.gateway.text(), "went wrong") {
		t.Error("a full disk counts as a fault of the gateway")
	}
}
