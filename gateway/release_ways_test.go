package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/artifact/executable"
	"muster/gateway/internal/fleet"
	"muster/store"
)

// released is a gateway in this process, an operator at its command line, and a node that is played over HTTP.
type released struct {
	*matrix
	data string
	face face
	node *identity
	beat uint64
}

func newReleased(t *testing.T) *released {
	g, faces := matrixGateway(t)
	m := &matrix{t: t, gateway: g, visits: visits{open: map[string]*visitOf{}}, shared: map[string]*identity{}, things: map[string]string{}}
	t.Cleanup(m.visits.close)
	m.furnish()
	for _, id := range []string{m.target.id, m.worker.id} { // the channel shall have the played node alone
		_, err := g.fleet.Apply(t.Context(), "", id, fleet.Retire, store.Actor{Name: "test"})
		m.must(err)
	}
	m.must(g.releases.Look(t.Context()))
	return &released{matrix: m, data: g.settings.Data, face: faces[0], node: m.nodeIn(nodeActive)}
}

// muster runs a command line that must succeed.
func (r *released) muster(args ...string) string {
	r.t.Helper()
	code, stdout, stderr := r.command(args...)
	if code != exitDone {
		r.t.Fatalf("muster %s: %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

func (r *released) command(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	var out, errs bytes.Buffer
	code = commandLine(r.t.Context(), append([]string{"--data", r.data}, args...), func(string) string { return "" }, strings.NewReader(""),
		&out, &errs)
	return code, out.String(), errs.String()
}

// agent writes a file that is an agent as far as its headers say.
func (r *released) agent(text string) (file, digest string) {
	r.t.Helper()
	content := executable.Least("amd64", strings.Repeat(text, 20_000))
	file = filepath.Join(r.t.TempDir(), "agent")
	r.must(os.WriteFile(file, content, 0o600))
	return file, programDigest(content)
}

func programDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// hears sends a heartbeat and gives the answer.
func (r *released) hears(running string, u wire.Update) wire.HeartbeatAnswer {
	r.t.Helper()
	r.beat++
	agent := wire.AgentInfo{Version: "test", OS: "linux", Arch: "amd64", Digest: running}
	body, err := json.Marshal(wire.HeartbeatRequest{RunID: "0123456789abcdef", Counter: r.beat, IntervalSeconds: 30, Agent: agent,
		Health: []string{}, Update: &u})
	r.must(err)
	status, _, raw := r.ask("POST", wire.HeartbeatPath(r.node.id), body, false)
	var answer wire.HeartbeatAnswer
	if json.Unmarshal(raw, &answer) != nil || status != http.StatusOK {
		r.t.Fatalf("the heartbeat: %d %s", status, raw)
	}
	r.must(r.gateway.releases.Look(r.t.Context()))
	return answer
}

// ask sends a request of the node, signed or over its own TLS, and wants the answer to a signed one to be proven: a file by its digest.
func (r *released) ask(method, path string, body []byte, mutual bool, header ...string) (int, http.Header, []byte) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.face.base()+path, bytes.NewReader(body))
	r.must(err)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	var certificate *tls.Certificate
	name := ""
	if mutual {
		certificate = r.node.certificate()
		name = r.node.signer.Fingerprint
	} else {
		_, err = r.node.signer.Sign(q, body, r.gateway.info.Epoch, time.Now())
		r.must(err)
	}
	answer, err := r.visits.to(r.face, certificate, name).Do(q)
	r.must(err)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	r.must(err)
	return answer.StatusCode, answer.Header, raw
}

// wanted asks which release to run, and believes it as an agent does.
func (r *released) wanted() (wire.Release, wire.ReleasePointer) {
	r.t.Helper()
	status, _, raw := r.ask("GET", wire.PathRelease, nil, false)
	var release wire.Release
	if status != http.StatusOK || json.Unmarshal(raw, &release) != nil {
		r.t.Fatalf("the release: %d %s", status, raw)
	}
	pointer, _, err := sign.OpenRelease(release.Pointer, r.gateway.authority.ReleaseKeys())
	r.must(err)
	return release, pointer
}

// TestReleaseWays is a release's life: an operator pushes and promotes it, a node hears of it, fetches it and takes it, and goes back from
// the next one.
func TestReleaseWays(t *testing.T) {
	t.Parallel()
	r := newReleased(t)
	old := "sha256:" + strings.Repeat("0", 64)
	file, program := r.agent("the new one")
	digest := strings.TrimSpace(r.muster("release", "push", "linux/amd64="+file, "--version", "0.4.0"))
	if again := strings.TrimSpace(r.muster("release", "push", file, "--version", "0.4.0")); again != digest || !wire.IsDigest(digest) {
		t.Fatalf("the same again is %q, was %q", again, digest)
	}
	r.hears(old, wire.Update{Channel: "stable"})
	r.muster("release", "promote", "0.4.0", "--now", "--yes")
	r.hears(old, wire.Update{Channel: "stable"})
	if answer := r.hears(old, wire.Update{Channel: "stable"}); answer.Release != digest {
		t.Fatalf("the node hears of %q, want %q; %s", answer.Release, digest, r.muster("release", "status", "-o", "wide", "--channel", "stable"))
	}
	release, pointer := r.wanted()
	platform := pointer.Platforms[0]
	if pointer.Digest != digest || platform.Program != program || release.URL != wire.ReleaseBlobPath(platform.Digest) {
		t.Fatalf("the pointer names %+v in %s", pointer, release.URL)
	}
	r.fetches(release.URL, platform.Digest)
	on := wire.Update{Channel: "stable", Sequence: pointer.Sequence, Release: digest, About: pointer.Sequence, Phase: wire.UpdateTrial}
	r.hears(program, on)
	on.Phase = wire.UpdateCommitted
	if answer := r.hears(program, on); answer.Release != "" {
		t.Errorf("a node that runs it hears of %q", answer.Release)
	}
	if status := r.muster("release", "status", "--channel", "stable"); !strings.Contains(status, "1 of 1 node on it") {
		t.Errorf("the status is\n%s", status)
	}
	r.goesBack(program, pointer.Sequence)
}

// fetches wants the layer whole and in a part, signed and over the node's own TLS.
func (r *released) fetches(path, digest string) {
	r.t.Helper()
	status, header, whole := r.ask("GET", path, nil, false)
	if status != http.StatusOK || programDigest(whole) != digest || header.Get(wire.HeaderAnswer) == "" {
		r.t.Errorf("the layer: %d, %d bytes, %v", status, len(whole), header)
	}
	part := []string{"Range", "bytes=100-", "If-Range", header.Get("ETag")}
	for _, mutual := range []bool{false, true} {
		status, got, rest := r.ask("GET", path, nil, mutual, part...)
		if status != http.StatusPartialContent || !bytes.Equal(rest, whole[100:]) || (got.Get(wire.HeaderAnswer) == "") != mutual {
			r.t.Errorf("a part, mutual %v: %d, %d bytes, %v", mutual, status, len(rest), got)
		}
	}
	other := wire.ReleaseBlobPath("sha256:" + strings.Repeat("1", 64))
	if status, _, raw := r.ask("GET", other, nil, false); status != http.StatusNotFound {
		r.t.Errorf("a layer that is none: %d %s", status, raw)
	}
}

// goesBack promotes a second release, from which the node goes back.
func (r *released) goesBack(running string, floor int64) {
	r.t.Helper()
	file, _ := r.agent("the broken one")
	digest := strings.TrimSpace(r.muster("release", "push", "linux/amd64="+file, "--version", "0.5.0"))
	r.muster("release", "promote", "0.5.0", "--yes")
	r.hears(running, wire.Update{Channel: "stable", Sequence: floor})
	if answer := r.hears(running, wire.Update{Channel: "stable", Sequence: floor}); answer.Release != digest {
		r.t.Fatalf("the node hears of %q, want %q", answer.Release, digest)
	}
	_, pointer := r.wanted()
	r.hears(running, wire.Update{Channel: "stable", Sequence: pointer.Sequence, Release: digest, About: pointer.Sequence,
		Phase: wire.UpdateRolledBack, Code: wire.UpdateCrashed, Detail: "it ended three times", Log: "panic: \x1b[31mno such device\nexit 2"})
	status := r.muster("release", "status", "--channel", "stable")
	for _, want := range []string{"halted", "rolled_back", "crashed: it ended three times", "panic: ", "exit 2"} {
		if !strings.Contains(status, want) {
			r.t.Errorf("the status does not say %q:\n%s", want, status)
		}
	}
	if strings.Contains(status, "\x1b") {
		r.t.Error("what a node says controls the terminal")
	}
	shown := r.muster("node", "show", r.node.name)
	if !strings.Contains(shown, "rolled_back, 0.5.0") || !strings.Contains(shown, "stable, number") {
		r.t.Errorf("the node is shown as\n%s", shown)
	}
	r.muster("release", "rollback", "--yes")
	if answer := r.hears(running, wire.Update{Channel: "stable", Sequence: pointer.Sequence}); answer.Release == digest {
		r.t.Error("the node still hears of the release that was taken back")
	}
}

// TestReleaseWords: a node that says something else of a release in each heartbeat does not fill the log of events.
func TestReleaseWords(t *testing.T) {
	t.Parallel()
	r := newReleased(t)
	for i := range int64(40) {
		said := wire.Update{Channel: "stable", Release: programDigest([]byte{byte(i)}), About: i, Phase: wire.UpdateFailed,
			Code: "x" + strings.Repeat("y", int(i%10))}
		r.hears("", said)
	}
	events, err := r.gateway.store.Events(t.Context(), store.EventQuery{Kind: "release.failed", Limit: 1000})
	if err != nil || len(events) == 0 || len(events) > 20 {
		t.Errorf("%d events, %v", len(events), err)
	}
}

// TestNewcomersBegin: a machine of which nothing is known yet begins with the release of the default channel, once that was tried, and not
// with the agent that the gateway carries.
func TestNewcomersBegin(t *testing.T) {
	t.Parallel()
	r := newReleased(t)
	file, program := r.agent("the new one")
	sum := strings.TrimPrefix(program, "sha256:")
	given := func(path string) string {
		_, _, raw := r.ask("GET", path, nil, false)
		return string(raw)
	}
	r.muster("release", "push", "linux/amd64="+file, "--version", "0.4.0")
	if strings.Contains(given(wire.PathAgent)+given(wire.PathInstaller), sum) {
		t.Error("newcomers begin with what nobody has promoted")
	}
	r.muster("release", "promote", "0.4.0", "--now", "--yes")
	if manifest := given(wire.PathAgent); !strings.Contains(manifest, sum) || !strings.Contains(manifest, `"version":"0.4.0"`) || !strings.Contains(given(wire.PathInstaller), "SHA256_AMD64='"+sum+"'") {
		t.Errorf("newcomers do not begin with it:\n%s", given(wire.PathAgent))
	}
	at := wire.AgentPath("linux", "amd64")
	if got := given(at + "?" + wire.AgentDigest + "=" + sum); programDigest([]byte(got)) != program {
		t.Errorf("another program came, of %d bytes", len(got))
	}
	for _, other := range []string{at, at + "?" + wire.AgentDigest + "=" + strings.Repeat("0", 64)} {
		if got := given(other); programDigest([]byte(got)) == program {
			t.Errorf("%s is not what the gateway carries", other)
		}
	}
}
