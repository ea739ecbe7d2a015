package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
	"muster/gateway/internal/session"
	"muster/gateway/internal/session/recording"
	"muster/gateway/internal/task"
	"muster/store"
	"muster/store/sessions"
)

// record begins recordings, as the gateway has them begun.
func (h *house) record(m recording.Meta) (session.Tape, error) { return h.recordings.Begin(m) }

// ada opens sessions from the command line.
func ada() session.Caller {
	return session.Caller{Actor: store.Actor{Name: "account:ada", Address: "192.0.2.7"}, Account: "msa_ada",
		May: func(string) error { return nil }}
}

// opened asks a node for a session, and the node begins it and says something.
func (h *house) opened(c task.Claimer, kind string, params any, frames ...[]byte) string {
	h.t.Helper()
	raw, err := json.Marshal(params)
	h.must(err)
	made, err := h.sessions.Open(h.t.Context(), ada(), session.Ask{Node: c.NodeID, Type: kind, Params: raw})
	h.must(err)
	node := session.Claimer{NodeID: c.NodeID, Enrolment: c.Enrolment, Fingerprint: c.Fingerprint, Generation: c.Generation}
	if h.sessions.Aside(node) == nil {
		h.t.Fatal("the node was given no session")
	}
	var out bytes.Buffer
	h.must(pipe.WriteFrame(&out, pipe.FrameReady, []byte("{}")))
	out.Write(bytes.Join(frames, nil))
	for at := int64(0); at < int64(out.Len()); {
		at, err = h.sessions.NodeSend(h.t.Context(), node, made.ID, pipe.Main, at, pipe.Piece{Data: out.Bytes()[at:]})
		h.must(err)
	}
	return made.ID
}

// says are frames with what a terminal shows.
func says(t *testing.T, texts ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, text := range texts {
		if err := pipe.WriteFrame(&out, pipe.FrameOutput, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// kills ends a session as another account.
func (h *house) kills(id, why string) {
	h.t.Helper()
	who := ada()
	who.Actor.Name = "account:eve"
	_, err := h.sessions.Kill(h.t.Context(), who, id, why)
	h.must(err)
}

// TestSessionsPage: what goes on comes first, the filter is in the address, and ending one asks first.
func TestSessionsPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	one := h.enrolled("gpu-1", "platform", nil)
	two := h.enrolled("gpu-2", "platform", nil)
	if got := b.get("/ui/sessions"); !strings.Contains(got.body, "Nobody is on a node now") ||
		!strings.Contains(got.body, "No session has ended") {
		t.Errorf("without a session: %d", got.status)
	}
	old := h.opened(one, wire.SessionExec, wire.ExecParams{User: "ada", Command: []string{"/usr/bin/nvidia-smi", "-L"}})
	h.now = h.now.Add(90 * time.Second)
	h.kills(old, "")
	shell := h.opened(one, wire.SessionShell, wire.ShellParams{User: "ada"}, says(t, strings.Repeat("x", 2048)))
	port := h.opened(two, wire.SessionForward, wire.ForwardParams{Port: 8888})
	got := b.get("/ui/sessions")
	whole(t, "sessions", got)
	for _, want := range []string{`Running <span class="count">2</span>`, `href="/ui/sessions/` + shell + `" data-open`, "account:ada",
		"192.0.2.7", "port 8888", "nvidia-smi with 1 argument", "ended by account:eve", ">1 m</td>", "2.0 KiB",
		`action="/ui/sessions/` + port + `/end"`, `aria-current="page">Sessions</a>`} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(got.body, `action="/ui/sessions/`+old+`/end"`) || strings.Index(got.body, shell) > strings.Index(got.body, old) {
		t.Error("what has ended can be ended, or comes first")
	}
	for query, want := range map[string][3]bool{"node=gpu-2": {false, true, false}, "type=session.exec": {false, false, true},
		"node=gpu-1&type=session.shell": {true, false, false}, "": {true, true, true}} {
		got := b.get("/ui/sessions?" + query)
		for i, id := range []string{shell, port, old} {
			if strings.Contains(got.body, id) != want[i] {
				t.Errorf("%s: %s is there: %v", query, id, !want[i])
			}
		}
		whole(t, query, got)
	}
	for query, want := range map[string]string{"node=nowhere": "nowhere", "type=session.tea": "session.tea",
		"node=" + url.QueryEscape(hostile): "script"} {
		got := b.get("/ui/sessions?" + query)
		if got.status/100 != 4 || !strings.Contains(got.body, `role="alert"`) || !strings.Contains(got.body, `role="search"`) ||
			!strings.Contains(got.body, want) {
			t.Errorf("%s: %d", query, got.status)
		}
		whole(t, query, got)
	}
	asks := b.post("/ui/sessions/" + shell + "/end")
	whole(t, "end", asks)
	if asks.status != http.StatusOK || !strings.Contains(asks.body, "End the shell of account:ada on gpu-1?") ||
		!strings.Contains(asks.body, "killed five seconds later") || len(h.events("session.killed")) != 1 {
		t.Errorf("ending does not ask, or not what happens: %d", asks.status)
	}
	done := b.post("/ui/sessions/"+shell+"/end", "sure", "yes")
	killed := h.events("session.killed")
	if done.status != http.StatusSeeOther || done.header.Get("Location") != "/ui/sessions/"+shell || len(killed) != 2 {
		t.Fatalf("end: %d, %d events", done.status, len(killed))
	}
	if e := killed[len(killed)-1]; e.Actor != "account:operator" && killed[0].Actor != "account:operator" {
		t.Errorf("who has ended it: %+v", killed)
	}
	if page := b.get("/ui/sessions/" + shell); !strings.Contains(page.body, "ended by account:operator") ||
		strings.Contains(page.body, "/end\"") {
		t.Error("its page does not say how it ended, or offers to end it")
	}
	if again := b.post("/ui/sessions/"+shell+"/end", "sure", "yes"); again.status != http.StatusConflict && again.status != http.StatusGone ||
		!strings.Contains(again.body, "has ended already") {
		t.Errorf("twice: %d", again.status)
	}
	if none := b.post("/ui/sessions/s-aaaaaaaaaaaaaaaa/end", "sure", "yes"); none.status != http.StatusNotFound {
		t.Errorf("one that is not there: %d", none.status)
	}
}

// TestSessionsPages: sessions that have ended come page by page, and what goes on is on the first page alone.
func TestSessionsPages(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	node := h.enrolled("gpu-1", "platform", nil)
	for range 105 {
		h.kills(h.opened(node, wire.SessionExec, wire.ExecParams{Command: []string{"true"}}), "")
		h.now = h.now.Add(time.Second)
	}
	live := h.opened(node, wire.SessionShell, wire.ShellParams{})
	first := b.get("/ui/sessions?node=gpu-1")
	_, rest, _ := strings.Cut(first.body, `" rel="next">Older`)
	before := first.body[:len(first.body)-len(rest)]
	older := before[strings.LastIndex(before, `href="`)+len(`href="`):]
	older, _, _ = strings.Cut(older, `"`)
	second := b.get(strings.ReplaceAll(older, "&amp;", "&"))
	if n := strings.Count(first.body, "ended by"); n != 100 || !strings.Contains(older, "node=gpu-1") {
		t.Errorf("the first page has %d, and leads to %s", n, older)
	}
	if n := strings.Count(second.body, "ended by"); n != 5 || strings.Contains(second.body, live) ||
		!strings.Contains(second.body, ">Newest</a>") {
		t.Errorf("the second page has %d, or what goes on", n)
	}
	whole(t, "second", second)
	if bad := b.get("/ui/sessions?cursor=nonsense"); bad.status != http.StatusBadRequest || !strings.Contains(bad.body, `role="alert"`) {
		t.Errorf("a bad cursor: %d", bad.status)
	}
}

// TestSessionScopes: who holds a part of the scope sees that part, others see nothing, and other tenants nothing of this one.
func TestSessionScopes(t *testing.T) {
	h := newHouse(t)
	node := h.enrolled("gpu-1", "platform", nil)
	shell := h.opened(node, wire.SessionShell, wire.ShellParams{User: "ada"}, says(t, "hello\r\n"))
	exec := h.opened(node, wire.SessionExec, wire.ExecParams{Command: []string{"true"}})
	visit := func(name, tenant string, scopes ...string) *browser {
		_, token := h.account(store.Account{Name: name, Tenant: tenant, Scopes: scopes})
		return h.browser(token)
	}
	part := visit("part", "", "sessions:exec", "nodes:read")
	if got := part.get("/ui/sessions"); !strings.Contains(got.body, exec) || strings.Contains(got.body, shell) ||
		strings.Contains(got.body, ">session.shell<") || !strings.Contains(got.body, ">session.copy<") {
		t.Errorf("a part of the scope: %d", got.status)
	}
	if got := part.get("/ui/nodes/gpu-1"); strings.Contains(got.body, "muster node shell") ||
		!strings.Contains(got.body, "muster node exec gpu-1") ||
		strings.Contains(got.body, shell) || !strings.Contains(got.body, exec) {
		t.Error("the page of a node shows more than the part, or less")
	}
	none := visit("none", "", "nodes:read")
	if got := none.get("/ui/nodes/gpu-1"); strings.Contains(got.body, `id="sessions"`) || strings.Contains(got.body, "muster node") ||
		strings.Contains(got.body, `href="/ui/sessions"`) {
		t.Error("without the scope a page tells of sessions")
	}
	other := visit("other", "else", "sessions", "nodes:read")
	if got := other.get("/ui/sessions"); got.status != http.StatusOK || strings.Contains(got.body, shell) {
		t.Errorf("another tenant: %d", got.status)
	}
	for who, b := range map[string]*browser{"a part": part, "none": none, "another tenant": other} {
		for _, path := range []string{"", "/recording", "/cast"} {
			if got := b.get("/ui/sessions/" + shell + path); got.status/100 != 4 || strings.Contains(got.body, "hello") {
				t.Errorf("%s gets %s: %d", who, path, got.status)
			}
		}
		if got := b.post("/ui/sessions/"+shell+"/end", "sure", "yes"); got.status/100 != 4 {
			t.Errorf("%s ends it: %d", who, got.status)
		}
	}
	if got := none.get("/ui/sessions"); got.status != http.StatusForbidden || !strings.Contains(got.body, "lacks the scope sessions") {
		t.Errorf("without the scope: %d", got.status)
	}
	if len(h.events("session.played")) != 0 || len(h.events("session.killed")) != 0 {
		t.Error("something was shown, or ended")
	}
}

// TestUncountedSession: of a session whose gateway was killed, nobody knows the bytes, and that is no zero.
func TestUncountedSession(t *testing.T) {
	h := newHouse(t)
	c := h.enrolled("gpu-1", "platform", nil)
	row := sessions.Session{ID: "s-abcdefghijklmnop", NodeID: c.NodeID, Type: wire.SessionShell, CreatedBy: "account:ada", CreatedAt: h.now}
	records := sessions.New(h.store.Records())
	h.must(records.Add(t.Context(), row))
	row.EndedAt = &h.now
	row.Uncounted = true
	h.must(records.End(t.Context(), row))
	b := h.operator()
	const unknown = `<span class="none">–</span>`
	for page, want := range map[string]string{"/ui/sessions": `<td data-label="To node" class="num">` + unknown + `</td>`,
		"/ui/sessions/" + row.ID: "<dt>Bytes</dt><dd>" + unknown + " to the node, " + unknown + " from it</dd>"} {
		if got := b.get(page); !strings.Contains(got.body, want) {
			t.Errorf("%s lacks %s (status %d)", page, want, got.status)
		}
	}
}

// TestHostileSessions: nothing that a node or an operator says of a session becomes a part of a page, and no control reaches one.
func TestHostileSessions(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	node := h.enrolled("gpu-1", "platform", nil)
	evil := hostile + "\x1b[31m\u202e\u009b2J"
	shell := h.opened(node, wire.SessionShell, wire.ShellParams{User: "ada"}, says(t, evil, "\r\n\x1b]0;", evil, "\a", "end\r\n"))
	said, err := json.Marshal(pipe.Exit{Code: 1, Error: evil})
	h.must(err)
	var exit bytes.Buffer
	h.must(pipe.WriteFrame(&exit, pipe.FrameExit, said))
	exec := h.opened(node, wire.SessionExec, wire.ExecParams{Command: []string{"/bin/" + strings.ReplaceAll(hostile, "/", "")}}, exit.Bytes())
	h.opened(node, wire.SessionCopy, wire.CopyParams{Path: "/srv/" + hostile})
	h.kills(shell, evil)
	for _, path := range []string{"/ui/sessions", "/ui/sessions/" + shell, "/ui/sessions/" + shell + "/recording", "/ui/sessions/" + exec,
		"/ui/nodes/gpu-1"} {
		got := b.get(path)
		whole(t, path, got)
		if got.status != http.StatusOK || strings.ContainsAny(got.body, "\x1b\u202e\u009b\a") || !strings.Contains(got.body, "&lt;script&gt;") &&
			path != "/ui/sessions/"+exec {
			t.Errorf("%s: %d, with a control or without the text", path, got.status)
		}
	}
}

// TestRecordingPage: a recording is read as text with times, is downloaded as a file, and nobody looks at it unseen.
func TestRecordingPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	node := h.enrolled("gpu-1", "platform", nil)
	id := h.opened(node, wire.SessionShell, wire.ShellParams{User: "ada"}, says(t, "$ ls\r\n", "\x1b[1;34msrc\x1b[0m\r\n",
		"$ vim\r\n\x1b[?1049hfour hundred lines", "\x1b[?1049l$ clear\r\n\x1b[H\x1b[2J$ exit\r\n"))
	if page := b.get("/ui/sessions/" + id); !strings.Contains(page.body, "/recording") ||
		!strings.Contains(page.body, "muster session watch "+id) ||
		len(h.events("session.played")) != 0 {
		t.Error("the page of the session does not lead to its recording, or plays it")
	}
	path := "/ui/sessions/" + id + "/recording"
	live := b.get(path)
	if !strings.Contains(live.body, "The session goes on.") {
		t.Error("the page does not say that the session goes on")
	}
	h.kills(id, "")
	got := b.get(path)
	whole(t, "recording", got)
	for _, want := range []string{`<span>$ ls</span>`, `<span>src</span>`, `A program had the whole screen for`, `<span>$ clear</span>`,
		`<span>$ exit</span>`, "ended by account:eve", `<li data-at="0"><time>0:00</time>`, `href="/ui/sessions/` + id + `/cast" download`,
		"muster session play " + id, `src="/ui/assets/playback.js"`} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(got.body, "four hundred lines") || strings.Contains(got.body, "[1;34m") ||
		strings.Contains(got.body, "The session goes on.") {
		t.Error("the page has more than the text of the terminal")
	}
	cast := b.get("/ui/sessions/" + id + "/cast")
	if cast.status != http.StatusOK || !strings.HasPrefix(cast.header.Get("Content-Disposition"), "attachment") ||
		cast.header.Get("Content-Type") != api.RecordingType || cast.header.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(cast.body, `"version":2`) || !strings.Contains(cast.body, "four hundred lines") {
		t.Errorf("the file: %d %v", cast.status, cast.header)
	}
	played := h.events("session.played")
	if len(played) != 3 || played[0].Actor != "account:operator" || !strings.HasSuffix(played[0].Address, " (console)") {
		t.Errorf("%d events: %+v", len(played), played)
	}
	exec := h.opened(node, wire.SessionExec, wire.ExecParams{Command: []string{"true"}})
	if none := b.get("/ui/sessions/" + exec + "/recording"); none.status != http.StatusNotFound ||
		!strings.Contains(none.body, "there is no recording") {
		t.Errorf("what is not recorded: %d", none.status)
	}
	if page := b.get("/ui/sessions/" + exec); strings.Contains(page.body, "/recording") || !strings.Contains(page.body, "shells alone are") {
		t.Error("the page of a program offers a recording")
	}
}

// TestLongRecording: a long recording comes in parts, each of which leads to the next.
func TestLongRecording(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	node := h.enrolled("gpu-1", "platform", nil)
	var text strings.Builder
	for n := range picture.RecordingLines + 500 {
		fmt.Fprintf(&text, "line %d.\r\n", n)
	}
	id := h.opened(node, wire.SessionShell, wire.ShellParams{}, says(t, text.String()))
	path := "/ui/sessions/" + id + "/recording"
	first := b.get(path)
	if !strings.Contains(first.body, "line 1999.") || strings.Contains(first.body, "line 2000.") ||
		strings.Contains(first.body, ">Earlier<") ||
		!strings.Contains(first.body, `href="`+path+`?from=2000" rel="next">Later`) {
		t.Errorf("the first part: %d", first.status)
	}
	second := b.get(path + "?from=2000")
	whole(t, "second", second)
	if strings.Contains(second.body, "line 1999.") || !strings.Contains(second.body, "line 2499.") ||
		strings.Contains(second.body, ">Later<") ||
		!strings.Contains(second.body, ">Earlier<") {
		t.Errorf("the second part: %d", second.status)
	}
	if beyond := b.get(path + "?from=9000"); !strings.Contains(beyond.body, "has no line 9000") {
		t.Errorf("behind the end: %d", beyond.status)
	}
	if bad := b.get(path + "?from=nonsense"); !strings.Contains(bad.body, "<code>from=nonsense</code></span> was ignored") ||
		!strings.Contains(bad.body, "line 0.") {
		t.Errorf("no number: %d", bad.status)
	}
}
