package identity

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// TestProtocolPage compares what muster help protocol says about refused enrolments with what this agent does.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile("../../../gateway/internal/cli/help/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([0-9]{3}) \\| ([a-z -]+?) \\|").FindAllSubmatch(page, -1)
	if len(codes) < 30 {
		t.Errorf("the page has %d codes", len(codes))
	}
	for _, code := range codes {
		name, enrolling := string(code[1]), string(code[3])
		status, _ := strconv.Atoi(string(code[2])) // three digits
		does := done(t, &transport.Refusal{Status: status, ErrorDetail: wire.ErrorDetail{Code: name}})
		if does != enrolling && enrolling != "-" {
			t.Errorf("the page says of %s %q, the agent does %q", name, enrolling, does)
		}
	}
	for status, want := range map[int]string{400: "final", 409: "final", 500: "wait", 503: "wait"} {
		if does := done(t, &transport.Refusal{Status: status, ErrorDetail: wire.ErrorDetail{Code: "of_tomorrow"}}); does != want {
			t.Errorf("the page says %q of a code that is not known with the status %d, the agent does %q", want, status, does)
		}
	}
}

// done is what an enrolment does about a refusal, in the page's words.
func done(t *testing.T, refusal *transport.Refusal) string {
	t.Helper()
	directory, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	e := &enrolling{Enrolment: Enrolment{Directory: directory}}
	again, fatal := e.judge(refusal)
	switch {
	case fatal != nil:
		return "final"
	case again && e.newKey:
		return "new key"
	case again:
		return "sign again"
	}
	return "wait"
}
