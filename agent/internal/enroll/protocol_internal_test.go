package enroll

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// TestProtocolPage holds what muster help protocol says of refusals to an enrolment against what this agent does.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile("../../../gateway/internal/cli/help/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([0-9]{3}) \\| ([a-z -]+?) \\|").FindAllSubmatch(page, -1)
	if len(rows) < 30 {
		t.Fatalf("the page has %d codes", len(rows))
	}
	for _, row := range rows {
		code, says := string(row[1]), string(row[3])
		status, err := strconv.Atoi(string(row[2]))
		if err != nil {
			t.Fatal(err)
		}
		if does := done(t, &transport.Refusal{Status: status, ErrorDetail: wire.ErrorDetail{Code: code}}); does != says && says != "-" {
			t.Errorf("the page says of %s %q, the agent does %q", code, says, does)
		}
	}
}

// done is what an enrolment does about a refusal, in the page's words.
func done(t *testing.T, refusal *transport.Refusal) string {
	t.Helper()
	directory, err := identity.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	e := &enrolment{Config: Config{Directory: directory}}
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
