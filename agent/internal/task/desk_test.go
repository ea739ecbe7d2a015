package task_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/task"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/sign"
	"muster/agent/wire"
)

// desk is the gateway's side of tasks, and a node with its worker, in synthetic time.
type desk struct {
	t     *testing.T
	g     *gatewaytest.Gateway
	pipe  *gatewaytest.Pipe
	key   ed25519.PrivateKey // the gateway's task key
	state identity.State     // under mu while the worker runs
	cfg   task.Config
	log   bytes.Buffer
	local func() time.Time // the node's own clock; nil: time.Now

	mu      sync.Mutex
	queue   []wire.SignedTask // given out one after the other
	bell    chan struct{}
	waits   int
	steps   []string // what the node did, by task: started, output, result
	bodies  map[string][][]byte
	results map[string]wire.TaskResult
	output  map[string][]wire.TaskOutput
	cancel  map[string]bool
	reports int // so many waits are told to report
	secrets map[string]string
	refuse  func(step, id string) *gatewaytest.Reply // nil, or nil from it: as usual
	jobs    []task.Job
	handle  func(ctx context.Context, job task.Job) task.Outcome
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{
		t: t, g: gatewaytest.New(t), key: newKey(t), bell: make(chan struct{}, 1), bodies: map[string][][]byte{},
		results: map[string]wire.TaskResult{}, output: map[string][]wire.TaskOutput{}, cancel: map[string]bool{},
	}
	d.g.Tasks = []ed25519.PrivateKey{newKey(t), d.key}
	d.g.Route = d.route
	d.pipe = gatewaytest.ServePipe(t, d.g, nil)
	d.state = d.g.Node(t)
	d.cfg = task.Config{State: d.state, Folder: t.TempDir(), Handle: d.work, Logger: slog.New(slog.NewTextHandler(&d.log, nil))}
	d.cfg.Session = func(_ identity.State, p wire.TaskPayload, _ ed25519.PublicKey) {
		t.Errorf("session %s was opened", p.TaskID)
	}
	return d
}

// client is the node's, with its identity.
func (d *desk) client() *transport.Client {
	d.t.Helper()
	client, err := transport.New(transport.Config{Gateway: "http://" + gatewaytest.Host, Dial: d.pipe.Dial, Now: d.local})
	if err != nil {
		d.t.Fatal(err)
	}
	id, err := d.state.Transport()
	if err != nil {
		d.t.Fatal(err)
	}
	client.Use(id)
	return client
}

// run is one run of the agent of this length. The waits follow one another as the heartbeat's loop makes them.
func (d *desk) run(length time.Duration) *task.Worker {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), length)
	defer cancel()
	return d.runUntil(ctx)
}

func (d *desk) runUntil(ctx context.Context) *task.Worker {
	d.t.Helper()
	d.cfg.Client = d.client()
	defer d.cfg.Client.Close()
	w := task.New(d.cfg)
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	for ctx.Err() == nil {
		bounded, cut := context.WithTimeout(ctx, 30*time.Second)
		until, _ := bounded.Deadline()
		d.mu.Lock()
		state := d.state
		d.mu.Unlock()
		_ = w.Wait(bounded, state, until)
		cut()
	}
	if err := <-ended; err != nil {
		d.t.Error(err)
	}
	return w
}

func (d *desk) work(ctx context.Context, job task.Job) task.Outcome {
	d.mu.Lock()
	d.jobs = append(d.jobs, job)
	handle := d.handle
	d.mu.Unlock()
	if handle == nil {
		return task.Outcome{}
	}
	return handle(ctx, job)
}

// payload is a good one.
func (d *desk) payload(kind, params string) wire.TaskPayload {
	now := d.g.Now().UTC()
	return wire.TaskPayload{
		TaskID: wire.NewTaskID(), NodeID: d.state.NodeID, Enrolment: d.state.Enrolment, Type: kind, Params: json.RawMessage(params),
		IssuedAt: now, ExpiresAt: now.Add(time.Hour), Nonce: "n",
	}
}

// give queues a task.
func (d *desk) give(p wire.TaskPayload) string {
	raw, err := json.Marshal(p)
	if err != nil {
		d.t.Fatal(err)
	}
	d.giveSigned(sign.SealTask(d.key, raw))
	return p.TaskID
}

func (d *desk) giveSigned(signed wire.SignedTask) {
	d.mu.Lock()
	d.queue = append(d.queue, signed)
	d.mu.Unlock()
	select {
	case d.bell <- struct{}{}:
	default:
	}
}

// diag queues a task without params.
func (d *desk) diag() string { return d.give(d.payload(wire.TaskDiagCollect, `{}`)) }

func (d *desk) route(q gatewaytest.Request) *gatewaytest.Reply {
	if strings.HasSuffix(q.Path, "/tasks/wait") {
		return d.wait(q)
	}
	rest, ok := strings.CutPrefix(q.Path, wire.PrefixTasks)
	if !ok {
		return nil
	}
	id, step, _ := strings.Cut(rest, "/")
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = append(d.steps, step)
	d.bodies[step] = append(d.bodies[step], q.Body)
	if d.refuse != nil {
		if reply := d.refuse(step, id); reply != nil {
			return reply
		}
	}
	switch step {
	case "output":
		var out wire.TaskOutput
		if err := sign.DecodeStrict(q.Body, &out); err != nil {
			d.t.Error(err)
		}
		if out.File == wire.TaskProbe {
			return d.g.JSON(200, wire.TaskProgress{Data: make([]byte, min(out.Offset, wire.MaxTaskPiece))})
		}
		d.output[id] = append(d.output[id], out)
	case "result":
		var result wire.TaskResult
		if err := sign.DecodeStrict(q.Body, &result); err != nil {
			d.t.Error(err)
		}
		d.results[id] = result
		return d.g.JSON(200, struct{}{})
	case "secrets":
		if q.Method != "POST" {
			d.t.Errorf("%s of secrets", q.Method)
		}
		return d.g.JSON(200, wire.TaskSecrets{Secrets: d.secrets})
	}
	return d.g.JSON(200, wire.TaskProgress{Cancel: d.cancel[id]})
}

func (d *desk) wait(q gatewaytest.Request) *gatewaytest.Reply {
	seconds, err := time.ParseDuration(q.Query.Get(wire.TaskWaitSeconds) + "s")
	if err != nil || seconds > wire.MaxTaskWait {
		d.t.Errorf("a wait of %v: %v", seconds, err)
	}
	timer := time.NewTimer(seconds)
	defer timer.Stop()
	tasks := strings.Contains(q.Query.Get(wire.TaskWaitFor), wire.WaitTasks)
	if d.countWait(tasks); d.report() {
		return d.g.JSON(200, wire.ReportNow{Report: true})
	}
	for {
		if signed, found := d.next(tasks); found {
			return d.g.JSON(200, signed)
		}
		select {
		case <-d.bell:
		case <-timer.C:
			return &gatewaytest.Reply{Status: 204}
		case <-q.Gone:
			return &gatewaytest.Reply{Hangup: true}
		}
	}
}

// report tells whether a wait is told to report.
func (d *desk) report() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports--
	return d.reports >= 0
}

// countWait counts the waits for tasks.
func (d *desk) countWait(tasks bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if tasks {
		d.waits++
	}
}

// next is the first document that a wait takes: a session, or a task too.
func (d *desk) next(tasks bool) (signed wire.SignedTask, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.queue, func(one wire.SignedTask) bool { return tasks || bytes.Contains(one.Payload, []byte(`"session.`)) })
	if i < 0 {
		return signed, false
	}
	signed = d.queue[i]
	d.queue = slices.Delete(d.queue, i, i+1)
	return signed, true
}

func (d *desk) result(id string) wire.TaskResult {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.results[id]
	if !ok {
		d.t.Errorf("no result of %s; the node did %v\n%s", id, d.steps, d.log.String())
	}
	return r
}

// did are the steps that the node told of, without output.
func (d *desk) did() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var told []string
	for _, step := range d.steps {
		if step != "output" {
			told = append(told, step)
		}
	}
	return strings.Join(told, " ")
}

func (d *desk) begun() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.jobs)
}

func (d *desk) journal() string {
	d.t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.cfg.Folder, task.JournalFile))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(raw)
}
