package session

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/pty"
	"muster/gateway/internal/client"
	"muster/gateway/internal/session/asciicast"
)

const (
	shell = "s-aaaaaaaaaaaaaaaa" // goes on
	past  = "s-bbbbbbbbbbbbbbbb" // has ended
)

func noon() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

// gateway answers as the admin API does. Its fields say what a test wants.
type gateway struct {
	*testing.T
	dir    string
	state  string             // of the recording
	cast   []byte             // the recording
	frames chan []byte        // what a watcher gets; closed: the session has ended
	gone   chan struct{}      // a watcher has left
	killed []string           // paths
	pauses chan time.Duration // that a player makes; nil: nobody counts them
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // a test's own directory can be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{T: t, dir: dir, state: api.RecordingComplete, cast: cast("one ", "two\xc3", "\xa4 \x1b[?1049h"),
		frames: make(chan []byte, 9), gone: make(chan struct{}, 9)}
	listener, err := net.Listen("unix", filepath.Join(dir, client.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(g.answer)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		os.RemoveAll(dir)
	})
	return g
}

// cast is a recording of pieces, one every ten seconds.
func cast(pieces ...string) []byte {
	e := asciicast.NewEncoder(noon())
	all := e.Header(asciicast.Header{Width: 80, Height: 24})
	for i, piece := range pieces {
		all = append(all, bytes.Join(e.Output(noon().Add(time.Duration(i)*10*time.Second), []byte(piece)), nil)...)
	}
	return append(all, e.Resize(noon().Add(time.Minute), 50, 132)...)
}

func sessions() []api.Session {
	begun := noon().Add(-time.Hour)
	ended := noon().Add(-time.Minute)
	exit := 3
	return []api.Session{
		{ID: shell, Node: "gpu-1", NodeID: "n-1", Tenant: "default", Type: "session.shell", Params: []byte("null"), Status: api.SessionOpen,
			CreatedBy: "account ada", Address: "192.0.2.7", CreatedAt: begun, OpenedAt: &begun, BytesIn: new(int64(10)), BytesOut: new(int64(1000)), Recorded: true,
			IdleSeconds: 1800, LimitSeconds: 43200, About: map[string]string{"user": "ada\x1b"}},
		{ID: past, Node: "gpu-2", NodeID: "n-2", Tenant: "default", Type: "session.exec", Params: []byte(`{"command":["uptime\u001b"]}`),
			Status: api.SessionEnded, CreatedBy: "socket", CreatedAt: begun, OpenedAt: &begun, EndedAt: &ended, End: "it \x1b ended",
			ExitCode: &exit},
	}
}

func (g *gateway) answer(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/admin/")
	name, rest, _ := strings.Cut(strings.TrimPrefix(path, "sessions/"), "/")
	switch {
	case r.Method == http.MethodDelete:
		g.killed = append(g.killed, path)
		one := sessions()[0]
		one.Status = api.SessionEnded
		tell(w, 200, one)
	case path == "sessions" || strings.HasSuffix(path, "/sessions"):
		tell(w, 200, page(r))
	case strings.HasSuffix(path, "/watch"):
		g.watch(w, r)
	case rest == "recording" && name == shell:
		w.Header().Set("Content-Type", api.RecordingType)
		w.Header().Set(api.HeaderRecording, g.state)
		_, _ = w.Write(g.cast)
	case rest == "" && name == shell:
		tell(w, 200, sessions()[0])
	case rest == "" && name == past:
		tell(w, 200, sessions()[1])
	default:
		tell(w, 404, map[string]any{"error": map[string]string{"code": "not_found", "message": "there is no such session"}})
	}
}

// page gives one session a page.
func page(r *http.Request) api.SessionPage {
	q := r.URL.Query()
	var picked api.SessionPage
	for i, one := range sessions() {
		fits := q.Get("status") == "" || one.Status == q.Get("status")
		fits = fits && (!strings.Contains(r.URL.Path, "/nodes/") || strings.Contains(r.URL.Path, "/"+one.Node+"/"))
		fits = fits && (q.Get("type") == "" || one.Type == q.Get("type"))
		switch {
		case !fits || q.Get("cursor") == "second" && i == 0:
		case len(picked.Sessions) == 1:
			picked.Next = "second"
		default:
			picked.Sessions = append(picked.Sessions, one)
		}
	}
	return picked
}

func (g *gateway) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", api.WatchKind)
	defer func() { g.gone <- struct{}{} }()
	for flush := http.NewResponseController(w); flush.Flush() == nil; {
		select {
		case data, more := <-g.frames:
			if !more {
				return
			}
			_, _ = w.Write(data)
		case <-r.Context().Done():
			return
		}
	}
}

func tell(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func env(name string) string {
	return map[string]string{"TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": "/nowhere"}[name]
}

// muster runs a command without a terminal.
func (g *gateway) muster(words string) (code int, stdout, stderr string) {
	g.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(g.Context(), cli.Env{Args: append([]string{"--data", g.dir}, strings.Fields(words)...), Getenv: env, Now: noon,
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}, Commands())
	return code, out.String(), errs.String()
}

// TestList shows sessions page by page, and those that were asked for.
func TestList(t *testing.T) {
	g := newGateway(t)
	for words, want := range map[string][]string{
		"session ls": {shell, "gpu-1", "shell", "open", "yes", "account ada",
			"1h", "59m", "1010", past, "exec", `it \x1b ended`, "2 sessions"},
		"session ls --limit 1":           {shell, "1 session; there are older ones: --limit N shows more"},
		"session ls --open":              {shell, "1 session\n"},
		"session ls --node gpu-2":        {past, "1 session\n"},
		"session ls --type session.exec": {past, "1 session\n"},
		"session ls --node none -o json": {`{"sessions":[],"next":""}`},
		"session ls --open -o json":      {`{"sessions":[{"id":"` + shell + `"`},
		"session show " + shell: {"recorded", "muster --data", "session play " + shell,
			"after 30m without a byte, after 12h in any case", "10 to the node", `ada\x1b`},
		"session show " + past:              {`{"command":["uptime\u001b"]}`, "exit code", "3", `it \x1b ended`},
		"session show " + past + " -o json": {`"exit_code":3,"bytes_in":null,"bytes_out":null`},
	} {
		code, out, errs := g.muster(words)
		if code != 0 || errs != "" {
			t.Errorf("%s: exit %d: %s", words, code, errs)
		}
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("%s lacks %q:\n%s", words, part, out)
			}
		}
	}
	code, out, errs := g.muster("session show " + past + " s-none")
	if code != 1 || !strings.Contains(out, past) || !strings.Contains(errs, "there is no such session") {
		t.Errorf("one of two: exit %d: %s%s", code, out, errs)
	}
}

// TestWrongUse: what is wrong is said before anything is shown.
func TestWrongUse(t *testing.T) {
	g := newGateway(t)
	for _, c := range []struct {
		words string
		code  int
		says  string
	}{
		{"session ls --type odd", 1, "there is no session type"}, {"session ls --limit 0", 2, "whole number"},
		{"session ls -o yaml", 2, "one of table"}, {"session show", 2, "needs ID"}, {"session show s-none", 1, "no such session"},
		{"session play " + shell, 2, "--to FILE keeps the recording"}, {"session play " + shell + " --raw --to x", 2, "exclude each other"},
		{"session play x --raw --speed 0", 2, "is no speed"}, {"session play x --raw --speed fast", 2, "is no speed"},
		{"session play x --raw --speed NaN", 2, "is no speed"}, {"session play x --raw --idle-limit x", 2, "no duration"},
		{"session play x --raw", 1, "no such session"}, {"session play x --to -", 1, "no such session"},
		{"session watch " + shell, 2, "--raw writes"}, {"session watch x --raw", 1, "no such session"},
		{"session kill " + shell, 2, "add --yes"}, {"session kill x --yes", 1, "no such session"},
	} {
		code, out, errs := g.muster(c.words)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %s%s", c.words, code, out, errs)
		}
	}
}

// TestKeep: the recording goes into a new file, or through a pipe. What is wrong with it is the last word.
func TestKeep(t *testing.T) {
	g := newGateway(t)
	file := filepath.Join(t.TempDir(), "shell.cast")
	if code, _, errs := g.muster("session play " + shell + " --to " + file); code != 0 {
		t.Errorf("exit %d: %s", code, errs)
	}
	info, err := os.Stat(file)
	raw, errRead := os.ReadFile(file)
	if err != nil || errRead != nil || !bytes.Equal(raw, g.cast) || info.Mode() != 0o600 {
		t.Errorf("%q, %v, %v, %v", raw, info, err, errRead)
	}
	if code, _, errs := g.muster("session play " + shell + " --to " + file); code != 1 || !strings.Contains(errs, "is left as it is") {
		t.Errorf("a second time: exit %d: %s", code, errs)
	}
	other := filepath.Join(t.TempDir(), "none.cast")
	if code, _, _ := g.muster("session play " + past + " --to " + other); code != 1 {
		t.Errorf("no recording: exit %d", code)
	}
	if _, err := os.Stat(other); !os.IsNotExist(err) {
		t.Errorf("an empty file stays: %v", err)
	}
	for state, c := range map[string]struct {
		code int
		says string
	}{
		api.RecordingComplete: {0, ""}, api.RecordingLive: {0, "session watch " + shell},
		api.RecordingCutOff:  {1, "the end of the recording is missing"},
		api.RecordingDamaged: {1, "the recording is damaged"}, "odd": {1, `the recording is odd`},
	} {
		g.state = state
		code, out, errs := g.muster("session play " + shell + " --raw")
		if code != c.code || out != "one twoä \x1b[?1049h" || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %q, %s", state, code, out, errs)
		}
		if code, out, _ := g.muster("session play " + shell + " --to -"); code != c.code || out != string(g.cast) {
			t.Errorf("%s through a pipe: exit %d: %q", state, code, out)
		}
	}
	g.cast = []byte("no recording")
	if code, _, errs := g.muster("session play " + shell + " --raw"); code != 1 || !strings.Contains(errs, "this is no recording") {
		t.Errorf("something else: exit %d: %s", code, errs)
	}
}

// TestPace: pauses are cut first by speed and then by their bound.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		pace         pace
		passed, want time.Duration
	}{
		{pace{speed: 1}, time.Hour, time.Hour}, {pace{speed: 2}, time.Second, time.Second / 2},
		{pace{speed: 0.5, pause: time.Second}, time.Millisecond, 2 * time.Millisecond},
		{pace{speed: 2, pause: time.Second}, time.Hour, time.Second},
	} {
		if got := c.pace.wait(c.passed); got != c.want {
			t.Errorf("%+v: %s for %s, want %s", c.pace, got, c.passed, c.want)
		}
	}
}

// person is somebody who looks at a terminal on which a command runs.
type person struct {
	*testing.T
	*pty.Pair
	done chan int
	errs bytes.Buffer
}

func (g *gateway) onTerminal(words string) *person {
	g.Helper()
	pair, err := pty.Open(100, 20)
	if err != nil {
		g.Fatal(err)
	}
	p := &person{T: g.T, Pair: pair, done: make(chan int, 1)}
	ctx, stop := context.WithCancel(g.Context())
	pause := func(ctx context.Context, d time.Duration) error {
		if g.pauses == nil || d == answerTime {
			return ctx.Err()
		}
		select {
		case g.pauses <- d:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	go func() {
		p.done <- cli.Run(ctx, cli.Env{Args: append([]string{"--data", g.dir}, strings.Fields(words)...), Getenv: env, Now: noon,
			Stdin: pair.Program, Stdout: pair.Program, Stderr: &p.errs, Pause: pause}, Commands())
	}()
	g.Cleanup(func() {
		stop()
		pair.Close()
	})
	return p
}

// see waits until a text was shown.
func (p *person) see(text string) {
	p.Helper()
	for {
		said, news := p.Said()
		if strings.Contains(said, text) {
			return
		}
		<-news // what the command has shown last may come after its end
	}
}

// ends waits for the end of the command. The terminal has to be as it was.
func (p *person) ends(code int) {
	p.Helper()
	if got := <-p.done; got != code {
		p.Errorf("exit code %d, want %d: %s", got, code, p.errs.String())
	}
	if now, err := p.Settings(); err != nil || now.Lflag&1 == 0 || now.Lflag&2 == 0 || now.Lflag&8 == 0 { // ISIG, ICANON, ECHO
		p.Errorf("the terminal is left as %+v, %v", now, err)
	}
}

// TestPlay: a terminal is shown what the other one was sent, at its pace, and is given back as it was.
func TestPlay(t *testing.T) {
	g := newGateway(t)
	g.pauses = make(chan time.Duration)
	p := g.onTerminal("session play " + shell + " --speed 2 --idle-limit 4s")
	for i, want := range []time.Duration{0, 4 * time.Second, 4 * time.Second, 4 * time.Second} {
		if got := <-g.pauses; got != want {
			t.Errorf("pause %d: %s, want %s", i, got, want)
		}
	}
	p.see("one twoä \x1b[?1049h")
	p.see("\x1b[?1049l")
	p.ends(0)
}

// TestLeaves: what a terminal answers is no key, and a key counts also if others were pressed with it.
func TestLeaves(t *testing.T) {
	for typed, want := range map[string]bool{"q": true, "xq": true, "\x03": true, "\x03\x03": true, "\x1b[A\x03": true, "": false, "x": false,
		"\x1bP1$r q\x1b\\": false, "\x1b[24;80R": false} {
		if got := leaves([]byte(typed)); got != want {
			t.Errorf("%q: %v", typed, got)
		}
	}
}

// TestPlayLeft: q ends at once, wherever the recording is, and so does ^C. Other keys do not.
func TestPlayLeft(t *testing.T) {
	for _, key := range []string{"q", "\x03"} {
		g := newGateway(t)
		g.state = api.RecordingDamaged
		g.pauses = make(chan time.Duration)
		p := g.onTerminal("session play " + shell + " --idle-limit 0")
		if got := <-g.pauses; got != 0 {
			t.Errorf("the first pause: %s", got)
		}
		p.see("one")
		if err := p.Press("x"); err != nil {
			t.Fatal(err)
		}
		if got := <-g.pauses; got != 10*time.Second {
			t.Errorf("the second pause: %s", got)
		}
		p.see("two")
		if err := p.Press(key); err != nil {
			t.Fatal(err)
		}
		p.ends(0)
	}
}

// TestKill ends each session by the node that it is with.
func TestKill(t *testing.T) {
	g := newGateway(t)
	code, out, errs := g.muster("session kill " + shell + " --yes")
	if code != 0 || out != shell+": ended\n" || len(g.killed) != 1 || g.killed[0] != "nodes/n-1/sessions/"+shell {
		t.Errorf("exit %d: %s%s%q", code, out, errs, g.killed)
	}
}
