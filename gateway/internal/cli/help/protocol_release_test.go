package help_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// storyLayer is an agent of few bytes. storyKept of them arrived before the connection broke off.
const (
	storyLayer = "an agent of version 0.2.0 for linux/amd64: as short as a story wants it"
	storyKept  = 43
)

func ociDigest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func releasePointer() []byte {
	return encode(wire.ReleasePointer{
		Channel: "stable", Sequence: 7, Digest: ociDigest("the index of 0.2.0"), Size: 1042, Version: "0.2.0",
		Platforms: []wire.ReleasePlatform{{OS: "linux", Arch: "amd64", MediaType: "application/octet-stream", Digest: ociDigest(storyLayer),
			Size: int64(len(storyLayer)), Program: ociDigest(storyLayer), ProgramSize: int64(len(storyLayer))}},
		NotBefore: storyTime, Expires: storyTime.Add(90 * 24 * time.Hour),
	})
}

// releaseEncoding is what stands before the payload in what is signed.
func releaseEncoding() string {
	const kind = "application/vnd.muster.release+json"
	return fmt.Sprintf("DSSEv1 %d %s %d ", len(kind), kind, len(releasePointer()))
}

func (s story) release() {
	id := sha256.Sum256(edKey("release").Public().(ed25519.PublicKey))
	s.examples["release-payload"] = string(releasePointer())
	s.examples["release-encoding"] = releaseEncoding() + string(releasePointer()[:12])
	head := func(path, more string) string { return "GET " + path + " HTTP/1.1\nHost: " + storyHost + "\n" + more }
	const path = "/internal/v1/node-agent/release"
	asked := s.requestAs("release", "GET", path, "", head(path, ""), storyEpoch, identityOf(1), nil)
	layer := "/internal/v1/node-agent/blobs/" + ociDigest(storyLayer)
	s.answer("release-answer", asked, "200 OK", wire.Release{
		Channel: "stable", Sequence: 7, Digest: ociDigest("the index of 0.2.0"), Size: 1042, URL: layer, StaggerSeconds: 120,
		Pointer: encode(map[string]any{"role": "release", "payload": releasePointer(), "key_id": hex.EncodeToString(id[:8]),
			"signature": ed25519.Sign(edKey("release"), append([]byte(releaseEncoding()), releasePointer()...))}),
	})
	tag := `"` + ociDigest(storyLayer) + `"`
	part := fmt.Sprintf("Range: bytes=%d-\nIf-Range: %s\n", storyKept, tag)
	fetched := s.requestAs("layer", "GET", layer, "", head(layer, part), storyEpoch, identityOf(1), nil)
	text := "muster answer v1\n" + fetched.nonce + "\n206\n" + digestOf([]byte(storyLayer))
	s.examples["layer-answer-text"] = text
	s.examples["layer-answer-body"] = storyLayer[storyKept:]
	s.examples["layer-answer"] = fmt.Sprintf("HTTP/1.1 206 Partial Content\nContent-Type: application/octet-stream\nContent-Length: %d\n"+
		"Content-Range: bytes %d-%d/%d\nETag: %s\nMuster-Epoch: %s\nMuster-Answer: %s", len(storyLayer)-storyKept, storyKept, len(storyLayer)-1,
		len(storyLayer), tag, storyEpoch, b64(ed25519.Sign(edKey("answer"), []byte(text))))
}

// TestProtocolRelease reads the requests as the gateway does, and the answers and the pointer as the agent does.
func TestProtocolRelease(t *testing.T) {
	p := readPage(t)
	w := p.welcome()
	chain := p.chained(w.Certificate, w.Roots)
	key := must(sign.DecodeKey(w.AnswerKey))
	asked := p.request("release-request", "")
	s := p.signature(asked, "", chain)
	answer := p.answer("release-answer-body")
	head := p.response("release-answer", answer)
	if err := sign.VerifyAnswer(head.Header.Get(wire.HeaderAnswer), key, s.Nonce, head.StatusCode, answer); err != nil {
		t.Error(err)
	}
	var release wire.Release
	p.decode(answer, &release)
	pointer := p.pointer(release)
	platform := pointer.Platforms[0]
	if asked.URL.Path != wire.PathRelease || release.URL != wire.ReleaseBlobPath(platform.Digest) ||
		wire.CheckChannel(pointer.Channel) != nil || pointer.Sequence != release.Sequence || pointer.Digest != release.Digest ||
		!wire.IsDigest(platform.Digest) {
		t.Errorf("the release %+v, its pointer %+v", release, pointer)
	}
	fetched := p.request("layer-request", "")
	s = p.signature(fetched, "", chain)
	part := p.example("layer-answer-body")
	head = p.response("layer-answer", []byte(part))
	whole := storyLayer[:storyKept] + part
	if fetched.URL.Path != release.URL || head.StatusCode != http.StatusPartialContent || ociDigest(whole) != platform.Digest ||
		head.Header.Get("ETag") != fetched.Header.Get("If-Range") {
		t.Errorf("the part of %s: %v, %v", fetched.URL.Path, fetched.Header, head.Header)
	}
	digest := sign.ContentDigest([]byte(whole))
	if err := sign.VerifyAnswerDigest(head.Header.Get(wire.HeaderAnswer), key, s.Nonce, head.StatusCode, digest); err != nil {
		t.Errorf("the part: %v", err)
	}
}

// pointer checks the pointer as an agent does, with the release keys of the pinned set.
func (p protocol) pointer(release wire.Release) wire.ReleasePointer {
	p.t.Helper()
	var set wire.TrustSet
	p.decode([]byte(p.example("trust-payload")), &set)
	pointer, _, err := sign.OpenRelease(release.Pointer, []ed25519.PublicKey{must(sign.DecodeKey(set.ReleaseKeys[0]))})
	if err != nil {
		p.t.Fatalf("the pointer: %v", err)
	}
	if string(encode(pointer)) != p.example("release-payload") {
		p.t.Error("the pointer is another one than the page shows")
	}
	if !strings.HasSuffix(p.example("release-encoding"), " "+p.example("release-payload")[:12]) {
		p.t.Error("the encoding of the pointer does not go over into its payload")
	}
	return pointer
}
