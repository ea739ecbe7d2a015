package logfile_test

import (
	"encoding/pem"
	"math/rand/v2"
	"strings"
	"testing"

	"muster/agent/internal/logfile"
)

// TestStream: a private key that comes line by line is masked, with what stands in front of its lines and without, and what follows stays.
func TestStream(t *testing.T) {
	block := privateKey(t, rand.NewChaCha8([32]byte{3}))
	for _, front := range []string{"", "app: ", "[12] "} {
		s := logfile.NewMasker().Stream()
		for text := range strings.Lines("before\n" + block + "behind, with digest\n") {
			text = strings.TrimSuffix(text, "\n")
			got := s.Line(front + text)
			switch {
			case !strings.HasPrefix(text, "-") && len(text) > 30 && strings.Contains(got, text[:20]):
				t.Errorf("%q is %q", front+text, got)
			case strings.HasPrefix(text, "be") && got != front+text:
				t.Errorf("%q is %q", front+text, got)
			}
		}
	}
	lines := body(block)
	s := logfile.NewMasker().Stream()
	if got := s.Line(lines[0]); got != "***" {
		t.Errorf("a line of a key whose beginning nobody saw: %q", got)
	}
	for _, text := range []string{strings.Repeat("0123456789abcdef", 4), strings.Repeat("x", 64), strings.Repeat("aB", 100)} {
		if got := s.Line(text); got != text {
			t.Errorf("%q, which is of no key, is %q", text, got)
		}
	}
	s.Line("-----BEGIN RSA PRIVATE KEY-----")
	for range 200 { // a key that never ends
		s.Line("some text")
	}
	if got := s.Line("abcdefghijklmnopqrstuvwxyz"); got != "abcdefghijklmnopqrstuvwxyz" {
		t.Errorf("long behind it: %q", got)
	}
	whole := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: make([]byte, 100)}))
	s = logfile.NewMasker().Stream()
	s.Line("in one message:\n" + whole)
	if got := s.Line("abcdefghijklmnopqrstuvwxyz"); got != "abcdefghijklmnopqrstuvwxyz" {
		t.Errorf("behind a whole one: %q", got)
	}
}

// TestStreamOfSecrets: each kind of secret is found in a long line, wherever it stands.
func TestStreamOfSecrets(t *testing.T) {
	m := logfile.NewMasker("correct horse")
	for _, one := range append(secrets(t, 5), secret{"it is correct horse", []string{"correct horse"}}) {
		for _, before := range []int{0, 4000, 8100, 8190, 20_000} {
			text := strings.Repeat("ab ", before/3) + one.text + strings.Repeat(" cd", 5000)
			if got := m.Stream().Line(text); leaks([]byte(got), one) {
				t.Errorf("%q behind %d bytes is shown", one.text, before)
			}
		}
	}
	text := strings.Repeat("plain words ", 10_000)
	if got := m.Stream().Line(text); got != text {
		t.Error("plain words were changed")
	}
	long := "password=\"" + strings.Repeat("x", 30_000) + "\" rest\nnext line"
	if got := m.Stream().Line(long); got != "password=\"***\nnext line" {
		t.Errorf("a value that is longer than what is looked at at once: %.100q", got)
	}
}

func TestValue(t *testing.T) {
	m := logfile.NewMasker("correct horse")
	for name, want := range map[string]string{"password": "***", "note": "it is ***", "key_id": "it is ***"} {
		if got := m.Value(name, "it is correct horse"); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := m.Value("token", ""); got != "" {
		t.Errorf("nothing is %q", got)
	}
}
