package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"muster/agent/wire"
)

// TestNodeLogs: an operator reads the log of a real agent, and follows it over a restart of the gateway, with no line twice. ^C ends it
// with 0.
func TestNodeLogs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.agent("box", h.token("--tenant", "platform"), "--interval", "5s")
	h.muster("node", "wait", "box", "--timeout", "30s")
	shown := h.muster("node", "logs", "box", "--utc")
	if !strings.Contains(shown, " info ") {
		t.Fatalf("the log of the agent:\n%s", shown)
	}
	lines := func() (all []wire.LogLine) {
		for text := range strings.Lines(h.muster("node", "logs", "box", "-o", "json", "--since", "1d")) {
			var l wire.LogLine
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			all = append(all, l)
		}
		return all
	}
	first := lines()
	if l := first[0]; l.Source != wire.LogAgent || l.Received == nil || l.Time.IsZero() || l.Received.Before(l.Time) {
		t.Errorf("%+v", l)
	}
	reader := start(t, "reader", []string{asGateway + "=1"}, os.Args[0], "--data", h.data, "node", "logs", "box", "-f", "--since", "1d",
		"-o", "json")
	reader.await(first[len(first)-1].Message)
	h.gateway.stop()
	reader.await("trying again")
	h.open()
	reader.await("answers again")
	before := len(first)
	h.until("the agent has written something", func() bool { return len(lines()) > before })
	written := lines()
	reader.await(jsonText(written[len(written)-1].Message))
	seen := map[string]int{}
	for text := range strings.Lines(reader.text()) {
		var l wire.LogLine
		if json.Unmarshal([]byte(text), &l) == nil { // what the command says of the gateway stands between
			seen[sameLine(l)]++
		}
	}
	for _, l := range written { // those of one moment differ in what they say
		if n := seen[sameLine(l)]; n > 1 {
			t.Errorf("the line %+v was shown %d times", l, n)
		}
	}
	if err := reader.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-reader.done
	if code := reader.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("^C: exit %d", code)
	}
	events := h.muster("events", "--kind", "logs.read", "-o", "json")
	if !strings.Contains(events, `"source":"agent"`) || strings.Contains(events, "session.opened") {
		t.Errorf("events:\n%s", events)
	}
	code, _, errs := h.try("node", "logs", "box", "--source", "unit:no-such-unit.service")
	if code == 0 && errs == "" || strings.Contains(errs, "panic") {
		t.Errorf("a unit that is not there: code %d\n%s", code, errs)
	}
}

// sameLine is what two lines of a log do not share.
func sameLine(l wire.LogLine) string { return fmt.Sprint(l.Time, l.Message, l.Fields) }

// jsonText is a text as it stands in JSON.
func jsonText(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		return text
	}
	return string(raw)
}
