package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/agent/internal/command"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// asAgent makes the test binary run as the agent, on a machine whose files are below the variable's value. join installs a copy of
// the program that runs, so here it installs the test binary. An installed one knows its machine by a file at the top of it.
const (
	asAgent = "AGENT_TEST_ROOT"
	boxFile = ".box"
)

func TestMain(m *testing.M) {
	if root := cmp.Or(os.Getenv(asAgent), boxOf(os.Args[0])); root != "" {
		runOn(root)
	}
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", "6") // most tests wait for other processes
	}
	os.Exit(m.Run())
}

// boxOf is the root of the machine on which a program is installed, empty if it is on none.
func boxOf(program string) string {
	if filepath.Base(program) != service.Name {
		return ""
	}
	for dir := filepath.Dir(program); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, boxFile)); err == nil {
			return dir
		}
	}
	return ""
}

// box is a machine in a folder. It joins a gateway in this process, and starts real processes.
type box struct {
	t     *testing.T
	g     *gatewaytest.Gateway
	url   string
	root  string
	uid   int
	base  string
	env   map[string]string
	token string
	calls []string  // of the system's tools
	units *exec.Cmd // what the scripted systemd runs
	tools func(call string) ([]byte, error)

	script atomic.Pointer[func(gatewaytest.Request) *gatewaytest.Reply]
}

func newBox(t *testing.T) *box {
	t.Helper()
	b := &box{t: t, g: gatewaytest.New(t), root: t.TempDir(), env: map[string]string{"HOME": "/root"}}
	b.base = filepath.Join(b.root, "base")
	b.g.Interval = 5
	b.g.Script = b.answer
	b.url = gatewaytest.Listen(t, b.g, b.g.Serving(t))
	b.token = b.g.Token(t)
	if err := os.WriteFile(filepath.Join(b.root, boxFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"agent.log", "supervisor.log", "status.json", "agent.err"} {
				raw, _ := os.ReadFile(filepath.Join(b.base, name))
				t.Logf("--- %s\n%s", name, raw)
			}
		}
		b.clean()
	})
	return b
}

// systemdBox is a box on which systemd runs.
func systemdBox(t *testing.T) *box {
	t.Helper()
	b := newBox(t)
	b.mkdir("run/systemd/system")
	return b
}

// clean ends what still runs, also after a failed test.
func (b *box) clean() {
	m := b.manager()
	m.Command = func(context.Context, string, ...string) ([]byte, error) { return nil, nil }
	b.stopUnit()
	if err := m.Stop(context.Background()); err != nil {
		b.t.Errorf("end what runs: %v", err)
	}
}

func (b *box) manager() service.Manager {
	return service.Manager{System: b.program(nil, nil).System, Base: b.base, Settings: "/etc/muster/agent.env"}
}

// answer answers requests for which the scripted gateway has no answer.
func (b *box) answer(q gatewaytest.Request) *gatewaytest.Reply {
	if rule := b.script.Load(); rule != nil {
		if reply := (*rule)(q); reply != nil {
			return reply
		}
	}
	if q.Path == wire.PathHealth {
		return &gatewaytest.Reply{Status: 200, Body: []byte(`{"status":"ok"}`), Unproven: true}
	}
	return nil
}

// rule scripts the gateway from now on. nil ends that.
func (b *box) rule(script func(gatewaytest.Request) *gatewaytest.Reply) {
	if script == nil {
		b.script.Store(nil)
		return
	}
	b.script.Store(&script)
}

func (b *box) program(out, errs *screen) command.Program {
	p := command.Program{
		Version: version, Getenv: func(name string) string { return b.env[name] }, Stdin: strings.NewReader(""), Stdout: out, Stderr: errs,
	}
	p.System = service.System{Root: b.root, UID: b.uid, Getenv: p.Getenv, Command: b.command}
	p.Patience = time.Minute
	return p
}

// brief is the patience of a test that waits in vain. Programs that look for races are many times slower.
func brief() time.Duration {
	built, _ := debug.ReadBuildInfo()
	if built != nil && slices.Contains(built.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 15 * time.Second
	}
	return 3 * time.Second
}

// command stands for systemctl alone.
func (b *box) command(_ context.Context, name string, args ...string) ([]byte, error) {
	call := strings.Join(append([]string{name}, args...), " ")
	b.calls = append(b.calls, call)
	if b.tools != nil {
		if out, err := b.tools(call); err != nil {
			return out, err
		}
	}
	switch {
	case name == "crontab":
		return []byte("no crontab"), errors.New("exit status 1")
	case strings.HasPrefix(call, "systemctl start"):
		return nil, b.startUnit()
	case strings.HasPrefix(call, "systemctl restart"):
		b.stopUnit()
		return nil, b.startUnit()
	case strings.HasPrefix(call, "systemctl stop"):
		b.stopUnit()
	}
	return nil, nil
}

func (b *box) startUnit() error {
	if b.units != nil {
		return nil
	}
	settings, err := service.ReadSettings(filepath.Join(b.root, "etc/muster/agent.env"))
	if err != nil {
		return err
	}
	b.units = exec.Command(service.Layout{Base: b.base}.Program(), "run")
	b.units.Env = append(settings.Environ(), asAgent+"="+b.root, "PATH="+os.Getenv("PATH"), "GORACE="+os.Getenv("GORACE"))
	b.units.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test run that is interrupted leaves nothing behind
	return b.units.Start()
}

func (b *box) stopUnit() {
	if b.units != nil {
		_ = b.units.Process.Signal(syscall.SIGTERM)
		_ = b.units.Wait()
		b.units = nil
	}
}

func (b *box) mkdir(path string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Join(b.root, path), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

// call runs one command of the agent.
func (b *box) call(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	var out, errs screen
	code = execute(context.Background(), b.program(&out, &errs), args)
	for _, text := range []string{out.String(), errs.String()} {
		if strings.Contains(text, b.token) {
			b.t.Errorf("the token is on the screen:\n%s", text)
		}
	}
	return code, out.String(), errs.String()
}

// join runs join with the flags that every join here needs.
func (b *box) join(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	return b.call(append([]string{"join", "--gateway", b.url, "--state", b.base, "--name", "gpu-1", "--no-gpu", "--interval", "200ms"},
		args...)...)
}

// joined joins and expects that to succeed.
func (b *box) joined(args ...string) string {
	b.t.Helper()
	code, out, errs := b.join(append([]string{"--token", b.token}, args...)...)
	if code != 0 {
		b.t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	return out
}

func (b *box) status() identity.Status {
	status, _ := identity.ReadStatus(b.base)
	return status
}

// until polls a condition on other processes, because they give no other sign.
func (b *box) until(what string, ok func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			b.t.Fatalf("not so after 20 s: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// online waits for a heartbeat that this agent sends after now.
func (b *box) online() {
	b.t.Helper()
	before := len(b.g.Requests("/heartbeat"))
	b.until("another heartbeat", func() bool { return len(b.g.Requests("/heartbeat")) > before+1 })
}

// lastBeat is the newest heartbeat.
func (b *box) lastBeat() (beat wire.HeartbeatRequest) {
	all := b.g.Requests("/heartbeat")
	if len(all) > 0 {
		_ = json.Unmarshal(all[len(all)-1].Body, &beat)
	}
	return beat
}

// holding lists the files below the root that contain a text.
func (b *box) holding(text string) (paths []string) {
	_ = filepath.WalkDir(b.root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if raw, _ := os.ReadFile(path); strings.Contains(string(raw), text) {
				paths = append(paths, path)
			}
		}
		return nil
	})
	return paths
}
