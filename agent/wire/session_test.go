package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// sessionParams has params of each type that are taken.
func sessionParams() map[string]string {
	return map[string]string{
		wire.SessionShell: `{"user":"ada","term":"xterm-256color","rows":50,"columns":132,"command":["tmux","attach"],` +
			`"idle_seconds":1800,"limit_seconds":43200}`,
		wire.SessionExec:    `{"user":"ada","command":["nvidia-smi","-L"],"idle_seconds":60}`,
		wire.SessionForward: `{"host":"127.0.0.1","port":22,"limit_seconds":60}`,
		wire.SessionCopy: `{"user":"ada","path":"/srv/a b","write":true,"offset":5,"mode":420,"size":10,"sha256":"` +
			strings.Repeat("0a", 32) + `"}`,
		wire.SessionLogs: `{"source":"unit:ssh.service","since":"2026-01-02T03:04:05Z","follow":true}`,
	}
}

// TestSessionTypes: every row of the table can be used: it is found, read strictly, checked and bounded.
func TestSessionTypes(t *testing.T) {
	openers := map[string]bool{"": true}
	for _, part := range wire.SessionOpeners() {
		openers[part] = true
	}
	used := map[string]bool{}
	good := sessionParams()
	for _, kind := range wire.SessionTypes() {
		found, err := wire.FindSessionType(kind.Name)
		if err != nil || found.Name != kind.Name || !strings.HasPrefix(kind.Name, "session.") {
			t.Errorf("%s: found %q, %v", kind.Name, found.Name, err)
		}
		if kind.About == "" || !openers[kind.Opener] {
			t.Errorf("%s: about %q, opener %q", kind.Name, kind.About, kind.Opener)
		}
		used[kind.Opener] = true
		params := kind.New()
		if err := sign.DecodeStrict([]byte(good[kind.Name]), params); err != nil {
			t.Errorf("%s: %v", kind.Name, err)
		}
		if err := params.Check(); err != nil {
			t.Errorf("%s %s: %v", kind.Name, good[kind.Name], err)
		}
		bounded := kind.New()
		if err := sign.DecodeStrict([]byte(`{"idle_seconds":7,"limit_seconds":8}`), bounded); err != nil {
			t.Errorf("%s: %v", kind.Name, err)
		}
		if got := bounded.Bounds(); got != (wire.SessionBounds{IdleSeconds: 7, LimitSeconds: 8}) {
			t.Errorf("%s: bounds %+v", kind.Name, got)
		}
		if err := sign.DecodeStrict([]byte(`{"Port":1,"usr":""}`), kind.New()); err == nil {
			t.Errorf("%s takes unknown params", kind.Name)
		}
		if _, err := wire.FindTaskType(kind.Name); err == nil {
			t.Errorf("%s is a type of task too", kind.Name)
		}
	}
	if len(used) != len(openers) || len(good) != len(wire.SessionTypes()) {
		t.Errorf("openers %v are used, and there are %v", used, openers)
	}
	_, err := wire.FindSessionType("session.rm")
	checkRefusal(t, "an unknown type", err, wire.CodeTaskTypeUnknown, wire.SessionShell)
}

// TestSessionParamsAbout: a person learns of each param what it is.
func TestSessionParamsAbout(t *testing.T) {
	for _, kind := range wire.SessionTypes() {
		shape := reflect.TypeOf(kind.New()).Elem()
		for _, field := range reflect.VisibleFields(shape) {
			about := field.Tag.Get("about")
			if !field.Anonymous && (about == "" || strings.HasSuffix(about, ".")) {
				t.Errorf("%s: %s says %q of itself", kind.Name, field.Name, about)
			}
		}
	}
}

func checkRefusal(t *testing.T, what string, err error, code, says string) {
	t.Helper()
	var refusal *wire.ErrorDetail
	if !errors.As(err, &refusal) || refusal.Code != code || refusal.Hint == "" || !strings.Contains(refusal.Error(), says) {
		t.Errorf("%s: got %v, want %s and %q", what, err, code, says)
	}
}

// TestSessionRefusals: everything that Check refuses, and the nearest that it takes.
func TestSessionRefusals(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	write := func(more string) string { return `{"path":"/a","write":true,"sha256":"` + sum + `"` + more + `}` }
	long := strings.Repeat("x", wire.MaxSessionCommand)
	for _, c := range []struct {
		kind, params string
		refused      string // what the refusal names; empty: it is taken
	}{
		{wire.SessionShell, `{}`, ""},
		{wire.SessionShell, `{"user":"a.b-c_d$"}`, ""},
		{wire.SessionShell, `{"user":"-rf"}`, "user"},
		{wire.SessionShell, `{"user":"a:b"}`, "user"},
		{wire.SessionShell, `{"user":"../root"}`, "user"},
		{wire.SessionShell, `{"user":"a b"}`, "user"},
		{wire.SessionShell, `{"user":"a\u0000"}`, "user"},
		{wire.SessionShell, `{"user":"a\u001b[2J"}`, "user"},
		{wire.SessionShell, `{"user":"` + strings.Repeat("a", 32) + `"}`, ""},
		{wire.SessionShell, `{"user":"` + strings.Repeat("a", 33) + `"}`, "user"},
		{wire.SessionShell, `{"term":"screen.xterm+256_color-1"}`, ""},
		{wire.SessionShell, `{"term":"../../etc/passwd"}`, "term"},
		{wire.SessionShell, `{"term":"a=b"}`, "term"},
		{wire.SessionShell, `{"term":"` + strings.Repeat("x", 33) + `"}`, "term"},
		{wire.SessionShell, `{"rows":1000,"columns":1000}`, ""},
		{wire.SessionShell, `{"rows":1001}`, "rows"},
		{wire.SessionShell, `{"columns":-1}`, "columns"},
		{wire.SessionShell, `{"command":[]}`, ""},
		{wire.SessionShell, `{"command":[""]}`, "command"},
		{wire.SessionShell, `{"idle_seconds":86400,"limit_seconds":86400}`, ""},
		{wire.SessionShell, `{"idle_seconds":-1}`, "idle_seconds"},
		{wire.SessionShell, `{"idle_seconds":86401}`, "idle_seconds"},
		{wire.SessionShell, `{"limit_seconds":-1}`, "limit_seconds"},
		{wire.SessionShell, `{"limit_seconds":86401}`, "limit_seconds"},
		{wire.SessionExec, `{"command":["sh","-c","; \n $(id)",""]}`, ""},
		{wire.SessionExec, `{}`, "command"},
		{wire.SessionExec, `{"command":["","x"]}`, "command"},
		{wire.SessionExec, `{"command":["a\u0000b"]}`, "command"},
		{wire.SessionExec, `{"command":["` + long[1:] + `"]}`, ""},
		{wire.SessionExec, `{"command":["` + long + `"]}`, "command"},
		{wire.SessionExec, `{"command":["x"],"user":"a/b"}`, "user"},
		{wire.SessionExec, `{"command":["x"],"limit_seconds":-5}`, "limit_seconds"},
		{wire.SessionForward, `{"port":1}`, ""},
		{wire.SessionForward, `{"port":65535,"host":"db-1.example_x"}`, ""},
		{wire.SessionForward, `{"port":22,"host":"fe80::1%eth0"}`, ""},
		{wire.SessionForward, `{"port":22,"host":"fe80::1%\u001b[2J"}`, "host"},
		{wire.SessionForward, `{"port":22,"host":"a:22"}`, "host"},
		{wire.SessionForward, `{"port":22,"host":"-oProxyCommand=id"}`, "host"},
		{wire.SessionForward, `{"port":22,"host":"a b"}`, "host"},
		{wire.SessionForward, `{"port":22,"host":"/run/docker.sock"}`, "host"},
		{wire.SessionForward, `{"port":22,"host":"` + strings.Repeat("a", 254) + `"}`, "host"},
		{wire.SessionForward, `{}`, "port"},
		{wire.SessionForward, `{"port":65536}`, "port"},
		{wire.SessionForward, `{"port":22,"idle_seconds":-1}`, "idle_seconds"},
		{wire.SessionCopy, `{"path":"/a/../b"}`, ""},
		{wire.SessionCopy, `{"path":"/a","offset":9007199254740992}`, ""},
		{wire.SessionCopy, write(""), ""},
		{wire.SessionCopy, write(`,"size":5,"offset":5,"mode":4095`), ""},
		{wire.SessionCopy, `{}`, "path"},
		{wire.SessionCopy, `{"path":"a"}`, "path"},
		{wire.SessionCopy, `{"path":"/a\u0000"}`, "path"},
		{wire.SessionCopy, `{"path":"/` + strings.Repeat("a", wire.MaxSessionPath) + `"}`, "path"},
		{wire.SessionCopy, `{"path":"/a","user":"a b"}`, "user"},
		{wire.SessionCopy, `{"path":"/a","offset":-1}`, "offset"},
		{wire.SessionCopy, `{"path":"/a","offset":9007199254740993}`, "offset"},
		{wire.SessionCopy, `{"path":"/a","size":-1}`, "size"},
		{wire.SessionCopy, `{"path":"/a","size":9007199254740993}`, "size"},
		{wire.SessionCopy, write(`,"size":5,"offset":6`), "offset"},
		{wire.SessionCopy, write(`,"mode":4096`), "mode"},
		{wire.SessionCopy, write(`,"mode":-1`), "mode"},
		{wire.SessionCopy, `{"path":"/a","write":true}`, "sha256"},
		{wire.SessionCopy, `{"path":"/a","sha256":"` + strings.ToUpper(sum) + `"}`, "sha256"},
		{wire.SessionCopy, `{"path":"/a","sha256":"` + sum[2:] + `"}`, "sha256"},
		{wire.SessionCopy, `{"path":"/a","sha256":"zz"}`, "sha256"},
		{wire.SessionCopy, write(`,"limit_seconds":-1`), "limit_seconds"},
		{wire.SessionCopy, `{"path":"/a","folder":true}`, ""},
		{wire.SessionCopy, `{"path":"/a","folder":true,"write":true,"name":"a b"}`, ""},
		{wire.SessionCopy, `{"path":"/a","folder":true,"write":true,"name":"-..\u000a"}`, ""},
		{wire.SessionCopy, write(`,"folder":true`), "folder"},
		{wire.SessionCopy, `{"path":"/a","folder":true,"sparse":true}`, "folder"},
		{wire.SessionCopy, `{"path":"/a","folder":true,"size":1}`, "folder"},
		{wire.SessionCopy, `{"path":"/a","folder":true,"offset":1}`, "folder"},
		{wire.SessionCopy, `{"path":"/a","folder":true,"mode":1}`, "folder"},
		{wire.SessionCopy, `{"path":"/a","folder":true,"write":true,"origin":"` + strings.Repeat("0a", 32) + `"}`, ""},
		{wire.SessionCopy, `{"path":"/a","folder":true,"write":true,"origin":"../a"}`, "origin"},
		{wire.SessionCopy, `{"path":"/a","folder":true,"origin":"` + strings.Repeat("0a", 32) + `"}`, "origin"},
		{wire.SessionCopy, `{"path":"/a","folder":true,"name":"b"}`, "name"},
		{wire.SessionCopy, write(`,"name":"b"`), "name"},
		{wire.SessionCopy, `{"path":"/a","folder":true,"write":true,"name":".."}`, "name"},
		{wire.SessionCopy, `{"path":"/a","folder":true,"write":true,"name":"a/b"}`, "name"},
		{wire.SessionCopy, `{"path":"/a","folder":true,"write":true,"name":"a\u0000"}`, "name"},
		{wire.SessionCopy, `{"path":"/a","folder":true,"write":true,"name":"` + strings.Repeat("a", 256) + `"}`, "name"},
		{wire.SessionLogs, `{"source":"boot","limit_seconds":-1}`, "limit_seconds"},
		{wire.SessionLogs, `{"source":"agent"}`, ""},
	} {
		kind, err := wire.FindSessionType(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		params := kind.New()
		if err := json.Unmarshal([]byte(c.params), params); err != nil {
			t.Fatalf("%.200s: %v", c.params, err)
		}
		err = params.Check()
		if c.refused == "" && err != nil {
			t.Errorf("%s %.200s: %v", c.kind, c.params, err)
		}
		if c.refused != "" {
			checkRefusal(t, c.kind+" "+c.params[:min(len(c.params), 200)], err, wire.CodeTaskParamsInvalid, c.refused)
		}
	}
}

// TestLogSources: each source is taken, and nothing else that an argument of a program could be.
func TestLogSources(t *testing.T) {
	for _, good := range []string{
		wire.LogAgent, wire.LogKernel, wire.LogBoot, wire.LogUnit + "ssh@1.service", wire.LogUnit + `a-b_c:d.timer`,
		wire.LogWorkload + "llm", wire.LogUnit + strings.Repeat("u", wire.MaxLogName),
	} {
		if err := wire.CheckLogSource(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "Agent", "agents", "unit", wire.LogUnit, wire.LogUnit + "-f", wire.LogUnit + "a b", wire.LogUnit + "*", wire.LogUnit + "a/b",
		wire.LogUnit + "ü", wire.LogWorkload, wire.LogWorkload + "--all", wire.LogUnit + strings.Repeat("u", wire.MaxLogName+1),
		"file:/etc/shadow",
	} {
		checkRefusal(t, bad, wire.CheckLogSource(bad), wire.CodeBadRequest, "source")
		params := wire.LogsParams{Source: bad}
		checkRefusal(t, bad, params.Check(), wire.CodeBadRequest, "source")
	}
}

// TestLogLine: a line says only what it has, so that a program can ask for what is missing.
func TestLogLine(t *testing.T) {
	raw, err := json.Marshal(wire.LogLine{Time: time.Unix(0, 0).UTC(), Source: wire.LogKernel, Message: "x"})
	if err != nil || string(raw) != `{"time":"1970-01-01T00:00:00Z","source":"kernel","message":"x"}` {
		t.Errorf("%s, %v", raw, err)
	}
	if got := strings.Join(wire.LogLevels(), " "); got != "debug info warn error" {
		t.Errorf("levels %s", got)
	}
}

// TestSessionID: an id is taken back as it was made, is no task's, and nothing like it is taken.
func TestSessionID(t *testing.T) {
	id := wire.NewSessionID()
	if err := wire.CheckSessionID(id); err != nil || id == wire.NewSessionID() {
		t.Errorf("%s: %v", id, err)
	}
	if wire.CheckTaskID(id) == nil {
		t.Errorf("%s is a task's id too", id)
	}
	bare := strings.TrimPrefix(id, "s-")
	for _, bad := range []string{"", "s-", bare, "s-" + bare + "a", "s-" + strings.ToUpper(bare), "S-" + bare, "s-../../../etc/xx", id + "/"} {
		checkRefusal(t, bad, wire.CheckSessionID(bad), wire.CodeBadRequest, "not a session's id")
	}
}

// TestSessionPath: the path that the agent asks for is one of the route that the gateway builds.
func TestSessionPath(t *testing.T) {
	if got := wire.SessionChannelPath("s-x", "3"); got != "/internal/v1/sessions/s-x/channels/3" {
		t.Error(got)
	}
}

// FuzzSessionParams: whatever is taken has no NUL, and no user or host that a program could take for an option or a path.
func FuzzSessionParams(f *testing.F) {
	kinds := wire.SessionTypes()
	for i, kind := range kinds {
		f.Add(i, []byte(sessionParams()[kind.Name]))
	}
	f.Fuzz(func(t *testing.T, which int, raw []byte) {
		params := kinds[uint(which)%uint(len(kinds))].New()
		if sign.DecodeStrict(raw, params) != nil || params.Check() != nil {
			return
		}
		var names []string
		switch p := params.(type) {
		case *wire.ShellParams:
			names = append(names, p.User, strings.TrimLeft(p.Term, "-")) // TERM is no argument
		case *wire.ExecParams:
			names = append(names, p.User)
		case *wire.ForwardParams:
			names = append(names, p.Host)
		case *wire.CopyParams:
			names = append(names, p.User)
		case *wire.LogsParams:
			names = append(names, strings.TrimPrefix(p.Source, wire.LogUnit))
		}
		for _, name := range names {
			if strings.ContainsAny(name, "\x00\x1b/\n ") || strings.HasPrefix(name, "-") {
				t.Errorf("%q of %s was taken", name, raw)
			}
		}
	})
}
