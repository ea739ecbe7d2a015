package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asGateway makes the test binary be the gateway itself, so that a test can kill it for real; withDescriptors gives it a limit.
const (
	asGateway       = "MUSTER_TEST_AS_GATEWAY"
	withDescriptors = "MUSTER_TEST_DESCRIPTORS"
)

func TestMain(m *testing.M) {
	if os.Getenv(asGateway) != "" {
		limitDescriptors(os.Getenv(withDescriptors))
		if agents := os.Getenv(withAgents); agents != "" {
			os.Exit(serveAgents(agents))
		}
		main()
		return
	}
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", "4") // most tests wait for other processes
	}
	code := m.Run()
	if agentDir != "" {
		os.RemoveAll(agentDir)
	}
	os.Exit(code)
}

func limitDescriptors(text string) {
	if text == "" {
		return
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		panic(err)
	}
}

var (
	agentOnce sync.Once
	agentDir  string
	agentErr  error
)

// agentBinary builds the real agent once, with the flags of `make build`, which has compiled its packages then. If the tests look for
// races, so does the agent, with the flags of the tests, which have compiled most of them.
func agentBinary(t *testing.T) string {
	t.Helper()
	agentOnce.Do(func() {
		if agentDir, agentErr = os.MkdirTemp("", "muster-agent-"); agentErr != nil {
			return
		}
		flags := []string{"-trimpath", "-gcflags=all=-l"}
		cgo := "CGO_ENABLED=0"
		if looksForRaces() {
			flags = []string{"-race"}
			cgo = "CGO_ENABLED=1"
		}
		build := exec.Command("go", append(append([]string{"build", "-tags", "nethttpomithttp2", "-o", agentDir}, flags...), "muster/agent")...)
		build.Env = append(os.Environ(), cgo)
		if out, err := build.CombinedOutput(); err != nil {
			agentErr = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if agentErr != nil {
		t.Fatalf("build the agent: %v", agentErr)
	}
	return filepath.Join(agentDir, "agent")
}

// looksForRaces tells whether this test was built by go test -race.
func looksForRaces() bool {
	built, _ := debug.ReadBuildInfo()
	return built != nil && slices.Contains(built.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// patience is how long a test waits for what has to come: programs that look for races, on a busy machine, are many times slower.
const patience = 2 * time.Minute

// process is a gateway or an agent that a test runs and may kill.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	done   chan struct{}
	mu     sync.Mutex
	output bytes.Buffer
	lines  chan string
}

// start runs a program; its output is shown when the test fails. The process is killed at the test's end.
func start(t *testing.T, name string, env []string, path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(path, args...), done: make(chan struct{}), lines: make(chan string, 1000)}
	p.cmd.Env = append(cleanEnv(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test run that is interrupted leaves nothing behind
	reader, writer := io.Pipe()
	p.cmd.Stdout = writer
	p.cmd.Stderr = writer
	p.cmd.WaitDelay = 20 * time.Second // for what it has started, and has left running
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		p.read(reader)
		close(read)
	}()
	go func() {
		_ = p.cmd.Wait()
		writer.Close()
		<-read // the last line is in its text
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("--- %s\n%s", name, p.text())
		}
	})
	return p
}

func (p *process) read(from io.Reader) {
	defer close(p.lines)
	for scan := bufio.NewScanner(from); scan.Scan(); {
		p.mu.Lock()
		p.output.WriteString(scan.Text() + "\n")
		p.mu.Unlock()
		select {
		case p.lines <- scan.Text():
		default:
		}
	}
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop asks the process to end, as systemd would, and waits.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
}

// await gives the first line that contains text.
func (p *process) await(text string) string {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if strings.Contains(line, text) {
				return line
			}
			if !ok {
				p.t.Fatalf("%s ended without saying %q:\n%s", p.name, text, p.text())
			}
		case <-deadline:
			p.t.Fatalf("%s did not say %q:\n%s", p.name, text, p.text())
		}
	}
}

// house is one gateway with its data directory.
type house struct {
	t       *testing.T
	data    string
	url     string
	env     []string
	args    []string
	program string // the gateway; empty: this test's own binary
	gateway *process
}

// newHouse starts a gateway on a free loopback port.
func newHouse(t *testing.T, args ...string) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "muster-house-") // t.TempDir's path can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	// It carries no agents: those of a build beside the tests would take the place of the agents under test.
	h := &house{t: t, data: dir, env: []string{withAgents + "=" + filepath.Join(dir, "no-agents")},
		args: append([]string{"--listen", "127.0.0.1:0"}, args...)}
	h.open()
	return h
}

// open starts the gateway on the address that it had before, if it had one.
func (h *house) open() {
	h.t.Helper()
	args := append([]string{"serve", "--data", h.data}, h.args...)
	h.gateway = start(h.t, "gateway", append([]string{asGateway + "=1"}, h.env...), cmp.Or(h.program, os.Args[0]), args...)
	line := h.gateway.await(" serves ")
	_, rest, _ := strings.Cut(line, " on ")
	address, _, _ := strings.Cut(rest, " ")
	h.url = "https://" + address
	h.args[1] = address
}

// muster runs an operator's command against this house and gives its output; a failure ends the test.
func (h *house) muster(args ...string) string {
	h.t.Helper()
	code, stdout, stderr := h.try(args...)
	if code != 0 {
		h.t.Fatalf("muster %s: exit %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

func (h *house) try(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	code = run(ctx, append([]string{"--data", h.data}, args...), func(string) string { return "" }, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func (h *house) token(args ...string) string {
	h.t.Helper()
	var made struct {
		Token string `json:"token"`
	}
	text := h.muster(append([]string{"token", "create", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.Token == "" {
		h.t.Fatalf("token create: %v in %s", err, text)
	}
	return made.Token
}

// agent starts a real agent that reports every 200 ms, with a state directory of its own name.
func (h *house) agent(name, token string, more ...string) *process {
	h.t.Helper()
	return h.agentWith(nil, agentBinary(h.t), name, token, more...)
}

// agentWith is agent with more environment and another program.
func (h *house) agentWith(env []string, program, name, token string, more ...string) *process {
	h.t.Helper()
	args := []string{"run", "--gateway", h.url, "--name", name, "--state", filepath.Join(h.data, "agent-"+name), "--interval", "200ms"}
	if token != "" {
		env = append(slices.Clone(env), "MUSTER_TOKEN="+token)
	}
	return start(h.t, "agent "+name, env, program, append(args, more...)...)
}

type listedNode struct {
	ID, Name, Tenant, State, Status string
	Provider                        string
	InstanceID                      string `json:"instance_id"`
	Labels                          map[string]string
	LastSeen                        *time.Time `json:"last_seen"`
	Certificate                     *struct {
		Fingerprint string
		Generation  int
	}
	Hardware *struct {
		Probe struct{ State, Error string }
		GPUs  []struct {
			UUID, Name     string
			MemoryTotalMiB *int64 `json:"memory_total_mib"`
			MemoryUsedMiB  *int64 `json:"memory_used_mib"`
		}
	}
}

func (h *house) nodes(args ...string) []listedNode {
	h.t.Helper()
	var page struct{ Nodes []listedNode }
	text := h.muster(append([]string{"node", "ls", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &page); err != nil {
		h.t.Fatalf("node ls: %v in %s", err, text)
	}
	return page.Nodes
}

// until polls a condition on the running programs; they are other processes, so there is nothing else to wait on.
func (h *house) until(what string, ok func() bool) {
	h.t.Helper()
	h.within(patience, what, ok)
}

// within is until with a patience of its own.
func (h *house) within(long time.Duration, what string, ok func() bool) {
	h.t.Helper()
	deadline := time.Now().Add(long)
	for !ok() {
		if time.Now().After(deadline) {
			h.t.Fatalf("not so after %s: %s\n%s", long, what, h.muster("node", "ls", "-o", "wide", "--all"))
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (h *house) node(name string) (listedNode, bool) {
	for _, n := range h.nodes("--all") {
		if n.Name == name && n.State != "retired" {
			return n, true
		}
	}
	return listedNode{}, false
}

func (h *house) online(name string) bool {
	n, ok := h.node(name)
	return ok && n.Status == "online" && n.State == "active"
}

// cleanEnv is the environment without what would configure muster or a proxy.
func cleanEnv() []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "MUSTER_") && !strings.HasSuffix(strings.ToLower(name), "_proxy") {
			env = append(env, entry)
		}
	}
	return env
}

// smi writes a stand-in for nvidia-smi that shows n GPUs.
func smi(t *testing.T, n int) string {
	t.Helper()
	const script = `#!/bin/sh
case "$*" in
*--help-query-gpu*) for f in index uuid name pci.bus_id driver_version mig.mode.current memory.total memory.used utilization.gpu ` +
		`temperature.gpu power.draw enforced.power.limit; do echo "\"$f\""; done ;;
*--query-gpu=*)
	for a; do case $a in --query-gpu=*) fields=${a#*=} ;; esac; done
	i=0; while [ $i -lt COUNT ]; do row=
		for f in $(echo "$fields" | tr , ' '); do
			case $f in index) v=$i ;; uuid) v=GPU-0000000$i-aaaa-bbbb-cccc-0123456789ab ;; name) v="NVIDIA H100 80GB HBM3" ;; ` +
		`pci.bus_id) v=00000000:0$i:00.0 ;;
			driver_version) v=590.48.01 ;; mig.mode.current) v=Disabled ;; memory.total) v=81559 ;; memory.used) v=39233 ;; ` +
		`utilization.gpu) v=99 ;; *) v="[N/A]" ;; esac
			row="$row${row:+, }$v"; done; echo "$row"; i=$((i+1)); done ;;
esac
`
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(script, "COUNT", fmt.Sprint(n))), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func alive(p *process) bool {
	return !errors.Is(p.cmd.Process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

func writePEM(t *testing.T, path string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
