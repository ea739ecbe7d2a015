//go:build real

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/session"
	"muster/gateway/internal/session/recording"
	"muster/store"
	"muster/store/sessions"
)

// TestConsoleSessions looks at the pages of sessions and of a recording in both sizes and colours, plays the recording, and ends a session
// as a person does. Whatever the browser complains of fails the test. The pictures are in bin/console.
func TestConsoleSessions(t *testing.T) {
	c := newChromium(t)
	nodes := append(mixedNodes()[:4], oddNodes()...)
	s := newShowcase(t, nodes)
	s.admit(c)
	s.picture(c, "sessions-none", "/ui/sessions", false)
	shell := s.visits(t, nodes)
	for name, path := range map[string]string{"sessions": "/ui/sessions", "sessions-node": "/ui/sessions?node=h200-01&type=session.shell",
		"sessions-refused": "/ui/sessions?node=nowhere", "session": "/ui/sessions/" + shell, "recording": "/ui/sessions/" + shell + "/recording",
		"ignored": "/ui/sessions?page=x&since=" + strings.Repeat("long", 40)} {
		s.picture(c, name, path, false)
	}
	for _, look := range [][2]int{{1440, 900}, {390, 844}} {
		for _, scheme := range []string{"light", "dark"} {
			c.looks(look[0], look[1], scheme)
			c.open(s.url + "/ui/nodes/h200-01?plots=off&look=" + scheme + fmt.Sprint(look[0]))
			c.eval(`document.getElementById("sessions").scrollIntoView({block: "start"})`)
			c.shot(fmt.Sprintf("node-sessions-%s-%d", scheme, look[0]))
		}
	}
	c.looks(1440, 900, "light")
	s.playBack(c, shell)
	s.endOne(t, c)
	if c.eval(`document.title === "taken"`) == true {
		t.Error("a recording or a row ran a script")
	}
	for _, said := range c.complaints() {
		if !strings.Contains(said, "node=nowhere") {
			t.Errorf("the browser says %s", said)
		}
	}
}

// playBack plays the recording in the page, stops it, and looks at a moment of it.
func (s *showcase) playBack(c *chromium, id string) {
	c.t.Helper()
	const shown = `[...document.querySelectorAll("#cast li")].filter((l) => !l.hidden).length`
	c.open(s.url + "/ui/sessions/" + id + "/recording")
	all, _ := c.eval(shown).(float64)
	c.eval(`(document.getElementById("speed").value = "16", document.getElementById("play").click())`)
	c.see(shown + ` > 3 && ` + shown + ` < ` + fmt.Sprint(all))
	c.eval(`document.getElementById("play").click()`)
	c.see(`document.getElementById("play").textContent === "Go on"`)
	c.shot("recording-paused-light-1440")
	c.eval(`document.getElementById("play").click()`)
	c.see(shown + ` === ` + fmt.Sprint(all) + ` && document.getElementById("play").textContent === "Play"`)
	c.eval(`(document.getElementById("position").value = 0, document.getElementById("position").dispatchEvent(new Event("input")))`)
	c.see(shown + ` < 3`)
}

// endOne ends a session that goes on: the page asks, and says afterwards how it ended.
func (s *showcase) endOne(t *testing.T, c *chromium) {
	t.Helper()
	who := session.Caller{Actor: store.Actor{Name: "account:ada", Address: "192.0.2.7"}, May: func(string) error { return nil }}
	made, err := s.sessions.Open(t.Context(), who, session.Ask{Node: "h200-01", Type: wire.SessionShell,
		Params: json.RawMessage(`{"user":"ada"}`)})
	if err != nil {
		t.Fatal(err)
	}
	c.open(s.url + "/ui/sessions")
	c.eval(`document.querySelector("form[action='/ui/sessions/` + made.ID + `/end']").requestSubmit()`)
	c.see(`document.querySelector("h1").textContent === "End the shell of account:ada on h200-01?"`)
	c.shot("sessions-end-light-1440")
	c.looks(390, 844, "dark")
	c.shot("sessions-end-dark-390")
	c.looks(1440, 900, "light")
	c.eval(`document.querySelector("main form").requestSubmit()`)
	c.see(`location.pathname === "/ui/sessions/` + made.ID + `" && document.body.textContent.includes("ended by account:visitor")`)
}

// visits puts sessions of every kind on record, and gives one whose shell was recorded.
func (s *showcase) visits(t *testing.T, nodes []exhibit) string {
	t.Helper()
	now := time.Now().UTC()
	records := sessions.New(s.store.Records())
	hostile := `<script>document.title = "taken"</script><img src=x onerror="document.title = 'taken'">`
	kinds := []sessions.Session{
		{Type: wire.SessionShell, About: map[string]string{"user": "ada"}, Recorded: true, End: "the program ended with status 0", In: 812,
			Out: 48_211},
		{Type: wire.SessionExec, About: map[string]string{"user": "root", "program": "nvidia-smi", "arguments": "3"}, Out: 4096,
			End: "the program ended with status 3"},
		{Type: wire.SessionForward, About: map[string]string{"port": "8888"}, In: 5 << 20, Out: 3 << 30, End: "the operator ended it"},
		{Type: wire.SessionCopy, About: map[string]string{"path": "/srv/models/" + strings.Repeat("llama-", 12) + "70b.safetensors",
			"write": "true"},
			In: 140 << 30, End: "nothing went over it for 30 minutes"},
		{Type: wire.SessionShell, Recorded: true, Out: 900, About: map[string]string{"program": "tmux", "arguments": "4"},
			End: hostile + "\x1b[31m\u202e"},
	}
	shell := ""
	for i := range 14 {
		one := kinds[i%len(kinds)]
		node := &nodes[i%len(nodes)]
		if i%len(kinds) == 0 {
			node = &nodes[0]
		}
		one.ID, one.NodeID, one.NodeName, one.Tenant = wire.NewSessionID(), node.id(), node.name, node.tenant
		one.CreatedBy, one.Address, one.Idle, one.Limit = "account:ada", "192.0.2.7", 30*time.Minute, 12*time.Hour
		if i%3 == 1 {
			one.CreatedBy, one.Address = "account:ci-of-the-training-team", "2001:db8:85a3::8a2e:370:7334 (console)"
		}
		begun := now.Add(-time.Duration(14-i) * 47 * time.Minute)
		one.CreatedAt, one.OpenedAt = begun, &begun
		ended := begun.Add(time.Duration(i+1) * 3 * time.Minute)
		done := one
		if i < 9 {
			code := int64(i % 4)
			done.EndedAt, done.ExitCode = &ended, &code
		} else {
			one.End = ""
		}
		fresh := one
		fresh.EndedAt, fresh.End, fresh.ExitCode = nil, "", nil
		err := records.Add(t.Context(), fresh)
		if done.EndedAt != nil {
			err = errors.Join(err, records.End(t.Context(), done))
		}
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			shell = one.ID
			s.tape(t, shell, begun)
		}
	}
	return shell
}

// tape records what a person did in a shell, with all that a terminal may be told.
func (s *showcase) tape(t *testing.T, id string, begun time.Time) {
	t.Helper()
	tape, err := s.recordings.Begin(recording.Meta{ID: id, Node: "h200-01", User: "ada", Rows: 24, Columns: 80, At: begun})
	if err != nil {
		t.Fatal(err)
	}
	prompt := "\x1b]0;ada@h200-01: ~\a\x1b[01;32mada@h200-01\x1b[00m:\x1b[01;34m~\x1b[00m$ "
	at := begun
	show := func(after time.Duration, text string) {
		at = at.Add(after)
		err = errors.Join(err, tape.Output(at, []byte(text)))
	}
	show(0, prompt)
	show(3*time.Second, "nvidia-smi --query-gpu=index,utilization.gpu,memory.used --format=csv\r\n")
	show(time.Second, "index, utilization.gpu [%], memory.used [MiB]\r\n")
	for i := range 8 {
		show(10*time.Millisecond, fmt.Sprintf("%d, %d %%, %d MiB\r\n", i, 90+i, 70_000+137*i))
	}
	show(time.Second, prompt+"vim train.py\r\n\x1b[?1049h\x1b[2J\x1b[Himport torch")
	show(125*time.Second, "\x1b[?1049l"+prompt)
	show(time.Second, "pip install flash-attn\r\n")
	for i := range 11 {
		show(time.Second, fmt.Sprintf("\r\x1b[K  downloading %3d %%", 10*i))
	}
	show(time.Second, "\r\n<script>document.title = \"taken\"</script> \u202e evil\r\n"+strings.Repeat("a line that is longer than the screen ", 9)+"\r\n")
	show(time.Second, "日本語 and ∀ and é\r\n"+prompt+"clear\r\n\x1b[H\x1b[2J"+prompt+"exit\r\n")
	if err := errors.Join(err, tape.End(at.Add(time.Second), "the program ended with status 0")); err != nil {
		t.Fatal(err)
	}
}
