package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store/rqlite/rqlitetest"
)

// several are gateways on one store, each a house.
type several struct {
	t     *testing.T
	store string
	key   string
}

func newSeveral(t *testing.T, nodes ...string) *several {
	t.Helper()
	s := &several{t: t, store: "rqlite://" + strings.Join(nodes, ","), key: filepath.Join(t.TempDir(), "master.key")}
	if err := os.WriteFile(s.key, []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// house makes a gateway that is not started yet.
func (s *several) house(id string) *house {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "muster-house-")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { os.RemoveAll(dir) })
	address := free(s.t)
	return &house{t: s.t, data: dir, url: "https://" + address, env: []string{withAgents + "=" + filepath.Join(dir, "no-agents")},
		args: []string{"--listen", address, "--store", s.store, "--master-key-file", s.key, "--gateway-id", id, "--peer-listen", free(s.t)}}
}

// free is an address on which nobody listens now.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// member is a gateway that is started again when it ends with an error, as one that lost its lease does, as a service does it.
type member struct {
	*house
	id    string
	enter []string // runs the command that follows it in a place of its own

	mu      sync.Mutex
	process *process // that runs, or ran last
	ended   []int    // exit codes
	over    bool     // the test is
}

// begin starts a gateway.
func (s *several) begin(id string, more ...string) *member {
	s.t.Helper()
	m := &member{house: s.house(id), id: id}
	m.args = append(m.args, more...)
	return m.begin()
}

func (m *member) begin() *member {
	m.t.Helper()
	m.t.Cleanup(func() { m.now().kill() })
	m.run()
	m.t.Cleanup(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.over = true
	})
	return m
}

// run starts it, and starts it again for as long as it ends by itself with an error.
func (m *member) run() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	words := slices.Concat(m.enter, []string{os.Args[0], "serve", "--data", m.data}, m.args)
	p := start(m.t, "gateway "+m.id, append([]string{asGateway + "=1"}, m.env...), words[0], words[1:]...)
	m.process = p
	go func() {
		<-p.done
		code := p.cmd.ProcessState.ExitCode()
		m.mu.Lock()
		m.ended = append(m.ended, code)
		m.mu.Unlock()
		if code == exitFailed {
			<-time.After(2 * time.Second)
		}
		if code == exitLost || code == exitFailed {
			m.run()
		}
	}()
}

func (m *member) now() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// lost is how often it has ended as one that lost its lease.
func (m *member) lost() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, code := range m.ended {
		if code == exitLost {
			n++
		}
	}
	return n
}

// says runs a command until it succeeds and its output is as it should be.
func (m *member) says(what string, good func(out string) bool, args ...string) (out string) {
	m.t.Helper()
	m.tries(what, func(code int, stdout, _ string) bool {
		out = stdout
		return code == exitDone && good(stdout)
	}, args...)
	return out
}

// refuses runs a command until it fails with a text.
func (m *member) refuses(want string, args ...string) {
	m.t.Helper()
	m.tries("it says "+want, func(code int, _, stderr string) bool { return code == exitFailed && strings.Contains(stderr, want) }, args...)
}

// tries runs a command until it ends as it should: a gateway may be slow, and lose its lease.
func (m *member) tries(what string, good func(code int, stdout, stderr string) bool, args ...string) {
	m.t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(100 * time.Millisecond) {
		code, stdout, stderr := m.try(args...)
		if good(code, stdout, stderr) {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf("not so: %s\n%s%s", what, stdout, stderr)
		}
	}
}

// listed waits until the gateways are as they should be, as this one says.
func (m *member) listed(what string, good func(api.GatewayList) bool) (l api.GatewayList) {
	m.t.Helper()
	m.says(what, func(out string) bool {
		l = api.GatewayList{}
		return json.Unmarshal([]byte(out), &l) == nil && len(l.Gateways) > 0 && good(l)
	}, "gateway", "ls", "-o", "json")
	return l
}

// active waits until it says that the gateway with this id is the active one.
func (m *member) active(id string) {
	m.t.Helper()
	m.listed(id+" is the active gateway", func(l api.GatewayList) bool { return l.Gateways[0].ID == id })
}

// online waits until so many nodes are.
func (m *member) online(n int) {
	m.t.Helper()
	m.says("the nodes are online", func(out string) bool { return strings.Count(out, `"status":"online","unheard":false`) == n },
		"node", "ls", "-o", "json")
}

// ready waits until a gateway says so of itself.
func ready(t *testing.T, plain, want string) {
	t.Helper()
	var last string
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		r, err := http.Get("http://" + plain + wire.PathReady)
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if last = strings.TrimSpace(string(text)); last == want && r.StatusCode == http.StatusOK {
			return
		}
	}
	t.Errorf("it says %s, and not %s", last, want)
}

func (m *member) audit(kind string) string {
	m.t.Helper()
	return m.says("the audit is read", func(string) bool { return true }, "audit", "--kind", kind)
}

// TestStandBy: nodes and operators come to the active gateway through any one. When it dies, another one takes over: the same nodes are
// online there, and nobody enrols again. One that was away for a while hears that it is not the active one any more, and ends.
func TestStandBy(t *testing.T) {
	t.Parallel()
	standBy(t, newSeveral(t, rqlitetest.Serve(t, rqlitetest.New(t))))
}

func standBy(t *testing.T, s *several) {
	a := s.begin("gw1")
	a.active("gw1")
	plain := free(t)
	b := s.begin("gw2", "--plain-listen", plain)
	token := func(m *member) string {
		var made api.NewToken
		m.says("a token is made", func(out string) bool { return json.Unmarshal([]byte(out), &made) == nil && made.Token != "" },
			"token", "create", "-o", "json")
		return made.Token
	}
	a.agent("a", token(b))
	b.agent("b", token(a))
	a.online(2)
	l := b.listed("the other one stands by", func(l api.GatewayList) bool { return len(l.Gateways) == 2 })
	if l.Gateways[0].ID == "gw1" {
		ready(t, plain, `{"role":"standby","status":"ready"}`)
	} else { // it was slow, and the other one took over
		a, b = b, a
	}
	if log := b.audit("token.created"); !strings.Contains(log, "socket of gw") {
		t.Errorf("nobody says on which gateway the operator called:\n%s", log)
	}

	pushed := a.says("a release is pushed", func(string) bool { return true }, "release", "push", "linux/"+runtime.GOARCH+"="+agentBinary(t),
		"--version", "9.9.9")

	a.now().kill()
	b.active(b.id)
	if log := b.audit("gateway.active"); !strings.Contains(log, "gateway="+b.id+" in_place_of="+a.id) {
		t.Errorf("the audit does not say who took over:\n%s", log)
	}
	if b.id == "gw2" {
		ready(t, plain, `{"role":"active","status":"ready"}`)
	}
	copied := b.says("the blobs are there", func(string) bool { return true }, "backup", filepath.Join(t.TempDir(), "backup.tar"))
	if !strings.Contains(copied, ", and 2 blobs of the registry with ") {
		t.Errorf("the other gateway has not what was pushed: %s\n%s", pushed, copied)
	}
	a.run()
	a.active(b.id)
	b.online(2)
	if log := a.audit("node.enrolled"); strings.Count(log, "node.enrolled") != 2 {
		t.Errorf("nodes have enrolled again:\n%s", log)
	}

	before, away := b.lost(), b.now()
	if err := away.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.active(a.id)
	if err := away.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.active(a.id)
	if b.lost() == before || !strings.Contains(away.text(), "not the active one any more") {
		t.Errorf("the one that was away did not end:\n%s", away.text())
	}

	b.listed("the other one stands by", func(l api.GatewayList) bool { return len(l.Gateways) == 2 })
	b.refuses("those that do: "+b.id, "gateway", "hand-over", "gw7")
	before = a.lost()
	if out := b.muster("gateway", "hand-over"); !strings.Contains(out, b.id+" is the active gateway in place of "+a.id) {
		t.Errorf("got %s", out)
	}
	a.active(b.id)
	if a.lost() == before {
		t.Error("a gateway that has handed over does not end to stand by")
	}
	b.online(2)
	a.now().kill()
	b.listed("nobody stands by", func(l api.GatewayList) bool { return len(l.Gateways) == 1 })
	b.refuses("no gateway stands by", "gateway", "hand-over")
	b.now().stop()
	if code := b.now().cmd.ProcessState.ExitCode(); code != exitDone {
		t.Errorf("a gateway that is stopped ends with %d", code)
	}
}

// TestSharedKey: a gateway on a shared store makes no master key, and one with another key does not stand by.
func TestSharedKey(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, rqlitetest.Serve(t, rqlitetest.New(t)))
	s.begin("gw1").active("gw1")
	second := s.house("gw2")
	fails := func(want string) {
		t.Helper()
		p := start(t, "second", second.env, os.Args[0], append([]string{"serve", "--data", second.data}, second.args...)...)
		<-p.done
		if p.cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(p.text(), want) {
			t.Errorf("it ends with %d, and does not say %q:\n%s", p.cmd.ProcessState.ExitCode(), want, p.text())
		}
	}
	second.env = append(second.env, asGateway+"=1")
	other := filepath.Join(second.data, "other.key")
	if err := os.WriteFile(other, []byte(base64.StdEncoding.EncodeToString([]byte("another key of thirty-two bytes."))), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, arg := range second.args {
		if arg == "--master-key-file" {
			second.args[i+1] = other
			fails("is not that of the gateways that have used this store")
			second.args = append(second.args[:i:i], second.args[i+2:]...)
			fails("never gets one made")
			break
		}
	}
	if _, err := os.Stat(filepath.Join(second.data, "master.key")); err == nil {
		t.Error("a key was made")
	}
}
