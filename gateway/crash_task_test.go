package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
)

// step is a moment in a task's life at which something is killed.
type step struct {
	name   string
	path   string // how the request ends that is stopped there; "": the handler or the journal tells
	after  bool   // it is stopped when the gateway has answered, and the answer is lost
	status string // of the task at that moment
	worked bool   // the handler is at work, so that an agent that dies leaves the task interrupted
}

func (s step) completes(agentDies bool) bool { return !agentDies || !s.worked }

// taskSteps are all of them, in their order.
func taskSteps() []step {
	return []step{
		{"queued", "/tasks/wait", false, wire.TaskQueued, false},
		{"dispatched", "/tasks/wait", true, wire.TaskDispatched, false},
		{"accepted", "/started", false, wire.TaskDispatched, false},
		{"begun", "/started", true, wire.TaskRunning, false},
		{"at-work", "", false, wire.TaskRunning, true},
		{"writing", "/output", true, wire.TaskRunning, true},
		{"finished", "/result", false, wire.TaskRunning, false},
		{"sent", "/result", true, wire.TaskCompleted, false},
		{"acknowledged", "", false, wire.TaskCompleted, false},
	}
}

// checkpoint ends TLS between one agent and the gateway. It stops the agent's request at a step until it is opened, and loses it then. What
// the gateway itself wants to know of the node, with a node.check, goes through.
type checkpoint struct {
	step
	forward *httputil.ReverseProxy
	task    atomic.Pointer[string] // the id of the task, once it was given to the agent
	once    sync.Once
	reached chan struct{}
	opened  chan struct{}
}

func (c *checkpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	wait := strings.HasSuffix(r.URL.Path, "/tasks/wait")
	if id := c.task.Load(); c.path == "" || c.isOpen() || !wait && (id == nil || !strings.Contains(r.URL.Path, *id)) {
		c.forward.ServeHTTP(w, r)
		return
	}
	silent := c.path == "/output" && !bytes.Contains(body, []byte(`"data"`))
	stops := strings.HasSuffix(r.URL.Path, c.path) && !silent
	if stops && !c.after {
		c.stop(r)
	}
	answer := httptest.NewRecorder()
	c.forward.ServeHTTP(answer, r)
	given := !wait || c.gives(answer.Body.Bytes()) // a wait without the task goes on
	if stops && given && answer.Code == http.StatusOK {
		c.stop(r)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// gives tells whether the answer to a wait has the task, and remembers its id.
func (c *checkpoint) gives(answer []byte) bool {
	var signed wire.SignedTask
	var p wire.TaskPayload
	if json.Unmarshal(answer, &signed) != nil || json.Unmarshal(signed.Payload, &p) != nil || p.Type != wire.TaskWorkloadStop {
		return false
	}
	c.task.Store(&p.TaskID)
	return true
}

func (c *checkpoint) isOpen() bool {
	select {
	case <-c.opened:
		return true
	default:
		return false
	}
}

// stop holds the request, and then ends its connection without an answer.
func (c *checkpoint) stop(r *http.Request) {
	c.once.Do(func() { close(c.reached) })
	select {
	case <-c.opened:
	case <-r.Context().Done():
	}
	panic(http.ErrAbortHandler)
}

// hand is a node with one task that reaches one step.
type hand struct {
	step
	check *checkpoint
	proxy *httptest.Server
	roots string
	agent *process
	task  string
}

// crew is a house with one hand for each step. Their handlers call a played podman, which counts.
type crew struct {
	*house
	engine string // the folder of the played podman
	hands  []*hand
}

// playedPodman knows the container of a name where the file up.NAME is there. It writes each name that it is to stop into a file, and
// is at work on that as long as the file hold.NAME is there.
const playedPodman = `#!/bin/sh
cd DIR || exit 1
for last; do :; done
case "$1" in
--version) echo "podman version 4.3.1" ;;
ps) name=${last#label=muster.workload=}; [ ! -e "up.$name" ] || echo "$name" ;;
container) echo '[{"Id":"'$last'","Name":"muster-'$last'","State":{"Status":"running"},` +
	`"Config":{"Labels":{"muster.workload":"'$last'","muster.task":"earlier"}}}]' ;;
stop) echo "$last" >>runs; while [ -e "hold.$last" ]; do /bin/sleep 0.2; done ;;
rm) /bin/rm -f "up.$last" ;;
esac
`

// podman makes a folder with a played podman.
func podman(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "podman"), []byte(strings.ReplaceAll(playedPodman, "DIR", dir)), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func newCrew(t *testing.T) *crew {
	c := &crew{house: newHouse(t, "--plain-listen", "127.0.0.1:0", "--trusted-proxy", "127.0.0.1"), engine: podman(t)}
	plain := strings.TrimPrefix(c.gateway.await("without TLS: "), "without TLS: ")
	c.args[3] = plain // the next start has it too
	for _, s := range taskSteps() {
		h := &hand{step: s, roots: filepath.Join(c.data, s.name+".pem")}
		forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: plain})
		forward.ErrorLog = log.New(io.Discard, "", 0) // the gateway is away for a while
		h.check = &checkpoint{step: s, forward: forward, reached: make(chan struct{}), opened: make(chan struct{})}
		h.proxy = httptest.NewTLSServer(h.check)
		t.Cleanup(h.proxy.Close)
		writePEM(t, h.roots, h.proxy.Certificate().Raw)
		c.touch("up." + s.name)
		if s.worked {
			c.touch("hold." + s.name)
		}
		c.hands = append(c.hands, h)
	}
	return c
}

func (c *crew) touch(name string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.engine, name), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// hire starts a hand's agent; the token counts at its first start alone.
func (c *crew) hire(h *hand, token string) {
	c.t.Helper()
	env := []string{"SSL_CERT_FILE=" + h.roots, "PATH=" + c.engine}
	if token != "" {
		env = append(env, "MUSTER_TOKEN="+token)
	}
	h.agent = start(c.t, "agent "+h.name, env, agentBinary(c.t), "run", "--gateway", h.proxy.URL, "--name", h.name, "--state", c.state(h),
		"--interval", "2s", "--no-gpu")
}

func (c *crew) state(h *hand) string { return filepath.Join(c.data, "agent-"+h.name) }

func (c *crew) allOnline() bool {
	online := 0
	for _, n := range c.nodes("--status", "online") {
		if n.State == wire.StateActive {
			online++
		}
	}
	return online == len(c.hands)
}

// crewTask is what the tests read of a task.
type crewTask struct {
	ID, Node, Status, Code string
	Output                 struct{ Head string }
}

func (c *crew) order(h *hand) {
	c.t.Helper()
	var made crewTask
	text := c.muster("task", "run", h.name, wire.TaskWorkloadStop, "name="+h.name, "-o", "json")
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.ID == "" {
		c.t.Fatalf("task run: %v in %s", err, text)
	}
	h.task = made.ID
}

func (c *crew) show(h *hand) crewTask {
	c.t.Helper()
	var shown crewTask
	text := c.muster("task", "show", h.task, "-o", "json")
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		c.t.Fatalf("task show: %v in %s", err, text)
	}
	return shown
}

// unended are the tasks that have not ended.
func (c *crew) unended() []crewTask {
	c.t.Helper()
	var page struct{ Tasks []crewTask }
	text := c.muster("task", "ls", "--open", "-o", "json")
	if err := json.Unmarshal([]byte(text), &page); err != nil {
		c.t.Fatalf("task ls: %v in %s", err, text)
	}
	return page.Tasks
}

// runs is how often the handler of a hand's task was at work.
func (c *crew) runs(h *hand) int {
	n := 0
	raw, _ := os.ReadFile(filepath.Join(c.engine, "runs"))
	for line := range strings.Lines(string(raw)) {
		if line == h.name+"\n" {
			n++
		}
	}
	return n
}

// journal is what the hand's agent has written down.
func (c *crew) journal(h *hand) (string, error) {
	raw, err := os.ReadFile(filepath.Join(c.state(h), "tasks.journal"))
	return string(raw), err
}

// noted tells whether the hand's journal says that its task got so far.
func (c *crew) noted(h *hand, journalStep string) bool {
	text, _ := c.journal(h)
	return strings.Contains(text, `{"task":"`+h.task+`","step":"`+journalStep+`"`)
}

// arrive waits until a hand's task is at its step.
func (c *crew) arrive(h *hand) {
	c.t.Helper()
	switch {
	case h.path != "":
		select {
		case <-h.check.reached:
		case <-time.After(patience):
			c.t.Fatalf("the task never got to %s: %+v\n%s", h.name, c.show(h), h.agent.text())
		}
	case h.worked:
		c.until("the handler of "+h.name+" is at work", func() bool { return c.runs(h) > 0 })
	default:
		c.until("the task of "+h.name+" is reported", func() bool { return c.noted(h, "reported") })
	}
	c.until("the task of "+h.name+" is "+h.status, func() bool { return c.show(h).Status == h.status })
	if h.name == "finished" && !c.noted(h, "finished") {
		text, err := c.journal(h)
		c.t.Errorf("a result was sent that is not in the journal, %v:\n%s\n%s", err, text, h.agent.text())
	}
}

// TestTaskKill: the agent, the gateway or both are killed at every step of a task's life. Every task ends once, as completed, or as
// interrupted where the handler was cut off. No handler runs twice, and nothing stays open.
func TestTaskKill(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"agent", "gateway", "both"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t)
			token := c.token("--uses", fmt.Sprint(len(c.hands)))
			for _, h := range c.hands {
				c.hire(h, token)
			}
			c.until("all are online", c.allOnline)
			for _, h := range c.hands {
				c.order(h)
			}
			for _, h := range c.hands {
				c.arrive(h)
			}
			c.strike(victim != "gateway", victim != "agent")
			for _, h := range c.hands {
				_ = os.Remove(filepath.Join(c.engine, "hold."+h.name))
			}
			c.until("all tasks have ended", func() bool { return len(c.unended()) == 0 })
			for _, h := range c.hands {
				c.judge(h, victim != "gateway")
			}
			if victim != "both" {
				return
			}
			c.strike(true, true) // what has ended stays so
			c.until("all are online again", c.allOnline)
			for _, h := range c.hands {
				c.judge(h, true)
			}
		})
	}
}

// strike kills, loses what is on its way, and starts again.
func (c *crew) strike(agents, gateway bool) {
	c.t.Helper()
	if gateway {
		c.gateway.kill()
	}
	for _, h := range c.hands {
		if agents {
			h.agent.kill()
		}
		if !h.check.isOpen() {
			close(h.check.opened)
		}
	}
	if gateway {
		c.open()
	}
	for _, h := range c.hands {
		if agents {
			c.hire(h, "")
		}
	}
}

// judge holds a hand's task against what must have become of it.
func (c *crew) judge(h *hand, agentDied bool) {
	c.t.Helper()
	got := c.show(h)
	want := crewTask{ID: h.task, Node: h.name, Status: wire.TaskCompleted}
	if !h.completes(agentDied) {
		want.Status = wire.TaskFailed
		want.Code = wire.TaskInterrupted
	}
	output := got.Output.Head
	got.Output.Head = ""
	if got != want {
		c.t.Errorf("killed while it was %s: got %+v, want %+v", h.name, got, want)
	}
	if want.Status == wire.TaskCompleted && output != "podman stops "+h.name+"\n" {
		c.t.Errorf("killed while it was %s: the output is %q", h.name, output)
	}
	if n := c.runs(h); n != 1 {
		c.t.Errorf("killed while it was %s: the handler ran %d times", h.name, n)
	}
	events := c.muster("events", "--kind", "task.finished", "-o", "json")
	if n := strings.Count(events, h.task); n != 1 {
		c.t.Errorf("killed while it was %s: it ended %d times", h.name, n)
	}
	if refused := c.muster("events", "--kind", "task.result_refused"); strings.Contains(refused, h.task) {
		c.t.Errorf("killed while it was %s: a result was refused:\n%s", h.name, refused)
	}
	c.until("the journal of "+h.name+" is done with its task", func() bool { return c.noted(h, "reported") })
}
