package help_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"muster/gateway/internal/kit"
)

const protocolPage = "protocol.md"

// block is one example of the page: "lines" are kept as they are, "folded" is one text in lines of a readable width.
var block = regexp.MustCompile("(?ms)^```(folded|lines) ([a-z-]+)\n(.*?)^```$")

const foldedWidth = 120

// protocol is muster help protocol.
type protocol struct {
	t    *testing.T
	text string
}

func readPage(t *testing.T) protocol {
	t.Helper()
	text, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	return protocol{t: t, text: string(text)}
}

// example gives the bytes of a block as the page tells its reader to take them.
func (p protocol) example(name string) string {
	p.t.Helper()
	for _, m := range block.FindAllStringSubmatch(p.text, -1) {
		if m[2] != name {
			continue
		}
		if m[1] == "lines" {
			return strings.TrimSuffix(m[3], "\n")
		}
		return strings.ReplaceAll(m[3], "\n", "")
	}
	p.t.Fatalf("%s has no example %s", protocolPage, name)
	return ""
}

// answer is the body of an answer: the line feed at its end is not shown.
func (p protocol) answer(name string) []byte {
	p.t.Helper()
	return []byte(p.example(name) + "\n")
}

// request reads a block that holds the head of a request.
func (p protocol) request(head, body string) *http.Request {
	p.t.Helper()
	var raw bytes.Buffer
	raw.WriteString(strings.ReplaceAll(p.example(head), "\n", "\r\n") + "\r\n\r\n" + body)
	r, err := http.ReadRequest(newReader(&raw))
	if err != nil {
		p.t.Fatalf("%s: %v", head, err)
	}
	if r.ContentLength != int64(len(body)) {
		p.t.Errorf("%s says %d bytes, the body has %d", head, r.ContentLength, len(body))
	}
	return r
}

// response reads a block that holds the head of an answer.
func (p protocol) response(head string, body []byte) *http.Response {
	p.t.Helper()
	var raw bytes.Buffer
	raw.WriteString(strings.ReplaceAll(p.example(head), "\n", "\r\n") + "\r\n\r\n")
	raw.Write(body)
	r, err := http.ReadResponse(newReader(&raw), nil)
	if err != nil {
		p.t.Fatalf("%s: %v", head, err)
	}
	if r.ContentLength != int64(len(body)) {
		p.t.Errorf("%s says %d bytes, the body has %d", head, r.ContentLength, len(body))
	}
	return r
}

// with gives the page with these examples in the place of its own.
func (p protocol) with(examples map[string]string) string {
	return block.ReplaceAllStringFunc(p.text, func(old string) string {
		m := block.FindStringSubmatch(old)
		text, known := examples[m[2]]
		if !known {
			p.t.Errorf("no test computes the example %s", m[2])
			return old
		}
		if m[1] == "folded" {
			text = fold(text)
		}
		return fmt.Sprintf("```%s %s\n%s\n```", m[1], m[2], text)
	})
}

// fold breaks a text without line ends into lines.
func fold(text string) string {
	var lines []string
	for len(text) > foldedWidth {
		at := foldedWidth
		for text[at-1] == ' ' || text[at] == ' ' { // a blank at an end is easily lost
			at--
		}
		lines = append(lines, text[:at])
		text = text[at:]
	}
	return strings.Join(append(lines, text), "\n")
}

// TestProtocolExamples computes every example of the page, by what the page says and nothing else of muster but the types of its
// messages. TestProtocolProofs holds them against the code that agent and gateway use.
func TestProtocolExamples(t *testing.T) {
	p := readPage(t)
	examples := tell(t)
	want := p.with(examples)
	for name := range examples {
		p.example(name)
	}
	if kit.Updating() {
		if err := os.WriteFile(protocolPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, m := range block.FindAllStringSubmatch(p.text, -1) {
		if (m[1] == "folded") != strings.HasPrefix(m[3], "{") { // that is how its reader tells them apart
			t.Errorf("the example %s is of the kind %s", m[2], m[1])
		}
	}
	got := strings.Split(p.text, "\n")
	expected := strings.Split(want, "\n")
	for i := range got {
		if i >= len(expected) || got[i] != expected[i] {
			t.Fatalf("%s:%d is\n%s\nand should be\n%s\n(go test -run TestProtocolExamples -update writes it)",
				protocolPage, i+1, got[i], expected[min(i, len(expected)-1)])
		}
	}
}
