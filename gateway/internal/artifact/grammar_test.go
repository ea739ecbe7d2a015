package artifact_test

import (
	"strings"
	"testing"

	"muster/gateway/internal/artifact"
)

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"muster/agent": true, "a": true, "a/b/c": true, "a-b_c.d": true, "a__b": true, "a---b": true, "0/1": true,
		strings.Repeat("a", 255): true, strings.Repeat("a", 256): false,
		"": false, "A": false, "/a": false, "a/": false, "a//b": false, "..": false, "a/../b": false, "a/.b": false, "a..b": false,
		"a___b": false, "-a": false, "a-": false, "a b": false, "a\n": false, "a:b": false, "é": false,
	} {
		err := artifact.CheckName(name)
		if (err == nil) != ok || err != nil && !artifact.Is(err, artifact.CodeNameInvalid) {
			t.Errorf("%q: %v, want ok = %v", name, err, ok)
		}
	}
}

func TestTags(t *testing.T) {
	for tag, ok := range map[string]bool{
		"latest": true, "_": true, "v1.2.3-rc_4": true, "A": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false,
		"": false, ".a": false, "-a": false, "a/b": false, "a:b": false, "sha256:ab": false, "a\n": false, "..": false,
	} {
		if artifact.IsTag(tag) != ok {
			t.Errorf("%q: want %v", tag, ok)
		}
	}
}

func TestDigests(t *testing.T) {
	for text, ok := range map[string]bool{
		"sha256:" + strings.Repeat("0a", 32): true, "sha512:" + strings.Repeat("f9", 64): true,
		"sha256:" + strings.Repeat("0A", 32): false, "sha256:" + strings.Repeat("0a", 31): false, "sha256:" + strings.Repeat("0a", 64): false,
		"sha512:" + strings.Repeat("0a", 32): false, "sha384:" + strings.Repeat("0a", 48): false, "": false, "sha256:": false, "sha256": false,
		"sha256:" + strings.Repeat("../", 21) + "a": false, "sha256:baddigeststring": false, ":" + strings.Repeat("0a", 32): false,
	} {
		digest, err := artifact.ParseDigest(text)
		if (err == nil) != ok || err != nil && !artifact.Is(err, artifact.CodeDigestInvalid) || ok && digest.String() != text {
			t.Errorf("%q: %v, want ok = %v", text, err, ok)
		}
	}
	if got := artifact.DigestOf([]byte("{}")); got != "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" {
		t.Errorf("the digest of {} is %s", got)
	}
}

func FuzzGrammar(f *testing.F) {
	f.Add("muster/agent")
	f.Add("sha256:" + strings.Repeat("0a", 32))
	f.Add("latest")
	f.Fuzz(func(t *testing.T, text string) {
		name := artifact.CheckName(text) == nil
		tag := artifact.IsTag(text)
		digest := artifact.IsDigest(text)
		if digest && (name || tag) {
			t.Errorf("%q is a digest, and a name (%v) or a tag (%v)", text, name, tag)
		}
		if (name || digest) && (strings.Contains(text, "..") || strings.ContainsAny(text, " \\%?#\n") || strings.HasPrefix(text, "/")) {
			t.Errorf("%q could lead somewhere else as a path", text)
		}
		if tag && strings.ContainsAny(text, "/ \\%?#\n") {
			t.Errorf("%q is no part of a path", text)
		}
	})
}
