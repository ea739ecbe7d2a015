//go:build real

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// TestConsoleLogs follows a log in the page of a node, in both sizes and colours, with lines that would do something where a page lets
// them. Whatever the browser complains of fails the test. The pictures are in bin/console.
func TestConsoleLogs(t *testing.T) {
	t.Parallel()
	c := newChromium(t)
	s := newShowcase(t, mixedNodes()[:1])
	ended := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- s.logs.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	n := &noisy{more: make(chan wire.LogLine)}
	s.logs.Open = n.open
	s.admit(c)
	const count = `document.querySelectorAll("#log-lines li").length`
	const end = `(l => l.scrollTop + l.clientHeight >= l.scrollHeight - 8)(document.getElementById("log-lines"))`
	for _, look := range []struct {
		size, scheme  string
		width, height int
	}{{"1440", "light", 1440, 900}, {"1440", "dark", 1440, 900}, {"390", "light", 390, 844}, {"390", "dark", 390, 844}} {
		c.looks(look.width, look.height, look.scheme)
		c.open(s.url + "/ui/nodes/h200-01?source=agent&look=" + look.size + look.scheme + "#logs") // another URL, or it is not loaded anew
		c.see(`document.getElementById("log-state").textContent === "Live." && ` + count + ` >= 8`)
		if c.eval(`document.documentElement.scrollWidth > innerWidth`) == true {
			t.Errorf("the page at %s is wider than the window", look.size)
		}
		if c.eval(`document.title === "taken" || document.querySelector("#log-lines img, #log-lines script") !== null`) == true {
			t.Error("a line of the log became a part of the page")
		}
		c.see(end)
		c.eval(`document.getElementById("logask").closest("section").scrollIntoView({block: "start"})`)
		c.shot("logs-" + look.scheme + "-" + look.size)
	}
	c.looks(1440, 900, "light")
	c.see(end)
	c.open(s.url + "/ui/nodes/h200-01?source=agent#logs")
	c.see(`document.getElementById("log-state").textContent === "Live." && ` + count + ` >= 8`)
	for i := range 2500 {
		n.more <- wire.LogLine{Time: time.Now(), Level: "info", Message: fmt.Sprint("many ", i)}
	}
	c.see(`document.querySelector("#log-lines li:last-child").textContent.includes("many 2499")`)
	if lines := c.eval(count).(float64); lines > 2000 {
		t.Errorf("%v lines in the page", lines)
	}
	c.see(end)
	c.eval(`document.getElementById("log-pause").click()`)
	for i := range 3000 {
		n.more <- wire.LogLine{Time: time.Now(), Message: fmt.Sprint("paused ", i)}
	}
	c.see(`document.getElementById("log-state").textContent === "Paused. 3000 lines wait, 1000 of them are not kept."`)
	c.shot("logs-paused-light-1440")
	c.eval(`document.getElementById("log-pause").click()`)
	c.see(`document.querySelector("#log-lines li:last-child").textContent.includes("paused 2999")`)
	c.eval(`(document.getElementById("log-source").value = "unit:none", document.getElementById("logask").requestSubmit())`)
	c.see(`document.getElementById("log-state").textContent.includes("there is no such unit") && location.search.includes("unit%3Anone")`)
	c.shot("logs-refused-light-1440")
	if c.eval(`!document.getElementById("log-lines").hidden || !document.getElementById("log-pause").hidden`) == true {
		t.Error("of a refused log the page shows lines, or a button that pauses them")
	}
	for _, said := range c.complaints() {
		if !strings.Contains(said, "404") { // the refusal
			t.Errorf("the browser says %s", said)
		}
	}
}

// noisy is a node that writes what it is told, and begins with hostile lines.
type noisy struct{ more chan wire.LogLine }

func (n *noisy) open(ctx context.Context, _ string, p wire.LogsParams) (io.ReadCloser, error) {
	from, to := io.Pipe()
	go n.send(ctx, to, p)
	return from, nil
}

func (n *noisy) send(ctx context.Context, to *io.PipeWriter, p wire.LogsParams) {
	defer to.Close()
	if p.Source != wire.LogAgent {
		_ = pipe.WriteJSON(to, pipe.FrameRefused, wire.SessionRefused{Code: wire.CodeNotFound, Message: "there is no such unit"})
		return
	}
	var err error
	say := func(l wire.LogLine) {
		var raw []byte
		if raw, err = json.Marshal(l); err == nil {
			err = pipe.WriteFrame(to, pipe.FrameOutput, append(raw, '\n'))
		}
	}
	if !p.Follow {
		for _, l := range hostileLines() {
			say(l)
		}
		_ = pipe.WriteJSON(to, pipe.FrameExit, pipe.Exit{})
		return
	}
	for err == nil {
		select {
		case l := <-n.more:
			say(l)
		case <-ctx.Done():
			return
		}
	}
}

func hostileLines() []wire.LogLine {
	at := time.Now().Add(-time.Hour).UTC()
	texts := []string{"the agent has begun", "\x1b[2J\x1b[31mred\x07",
		`<script>document.title = "taken"</script><img src=x onerror="document.title = 'taken'">`,
		"right to left \u202e evitcelfer", strings.Repeat("a line without a blank ", 40), string(bytes.Repeat([]byte("x"), 500)),
		"日本語 and ∀",
		"a\ttab and\na new line"}
	var all []wire.LogLine
	for i, text := range texts {
		all = append(all, wire.LogLine{Time: at.Add(time.Duration(i) * 1234 * time.Millisecond), Level: wire.LogLevels()[i%4], Message: text,
			Fields: map[string]string{"task": "k3x7", "why": "<b>bold</b>"}})
	}
	all[3].Dropped = 1204
	all[3].Message = "the agent was too slow"
	all[4].Cut = 700
	return all
}
