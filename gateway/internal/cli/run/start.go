package run

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/work"
)

const (
	usualExpiry = time.Hour              // how long a task waits for its node
	startTime   = 20 * time.Second       // for a program to begin, until it is only said to be queued
	lookPause   = 500 * time.Millisecond // between two looks at a task
	mostAtOnce  = 16                     // tasks that are queued
)

// pairs are NAME=VALUE, one for each time that the flag is given.
type pairs map[string]string

// Set reads one.
func (p *pairs) Set(text string) error {
	name, value, found := strings.Cut(text, "=")
	if !found || name == "" {
		return errors.New("write NAME=VALUE")
	}
	if _, twice := (*p)[name]; twice {
		return errors.New("it has this NAME twice: leave one out")
	}
	if *p == nil {
		*p = pairs{}
	}
	(*p)[name] = value
	return nil
}

// order is one call of muster run.
type order struct {
	*cli.Session
	name string
	key  ed25519.PrivateKey // of the operator; nil: the gateway signs
	json bool
	wait bool
	life time.Duration

	program wire.WorkloadProcess
	gpus    map[string][]string // UUIDs of the allocation's GPUs, by node; nil: no allocation is named

	several bool
	begunOn atomic.Int32 // nodes that have taken the task, of those that were waited for
	printMu sync.Mutex
}

func runStart(ctx context.Context, s *cli.Session) error {
	o := &order{Session: s, json: s.Form == cli.FormJSON}
	if err := o.read(); err != nil {
		return err
	}
	nodes, err := o.nodes(ctx)
	if err != nil {
		return err
	}
	if err := o.replaces(ctx, nodes); err != nil {
		return err
	}
	o.several = len(nodes) > 1
	if !o.wait {
		return o.startAll(ctx, nodes)
	}
	return o.waitAll(ctx, nodes)
}

// nodes are those that are named, or those of the allocation that is.
func (o *order) nodes(ctx context.Context) ([]cli.Target, error) {
	id := o.program.Allocation
	if id == "" {
		return o.Chosen(ctx, o.Words, "run "+filepath.Base(o.Behind[0])+" on", false)
	}
	a, err := cli.Get[api.Allocation](ctx, o.Session, api.At(api.PathAllocation, id), nil)
	if err != nil {
		return nil, err
	}
	o.gpus = map[string][]string{}
	var nodes []cli.Target
	for _, slot := range a.Slots {
		if len(o.Words) > 0 && !slices.Contains(o.Words, slot.Node) && !slices.Contains(o.Words, slot.NodeID) {
			continue
		}
		if o.gpus[slot.NodeID] == nil {
			nodes = append(nodes, cli.Target{ID: slot.NodeID, Name: slot.Node})
		}
		o.gpus[slot.NodeID] = append(o.gpus[slot.NodeID], slot.GPUs...)
	}
	switch {
	case a.State != api.AllocationAllocated:
		return nil, cli.Hinted(fmt.Sprintf("the allocation %s is %s", id, a.State), o.Pasted("alloc show "+id)+" says what it waits for")
	case len(nodes) == 0:
		return nil, cli.Hinted(fmt.Sprintf("the allocation %s has no GPU on %s", id, strings.Join(o.Words, ", ")), o.Pasted("alloc show "+id))
	}
	return nodes, nil
}

func (o *order) read() error {
	var f struct {
		Name, User, Dir string
		Alloc           string
		GPUs            int `flag:"gpus"`
		Env             pairs
		EnvSecret       pairs
		Wait            bool
		Expires         time.Duration `flag:"expires,seconds"`
	}
	f.Expires = usualExpiry
	if n, err := strconv.Atoi(o.Flags.Text("gpus")); o.Flags.Given("gpus") && (err != nil || n < 1) {
		return cli.Usagef("a whole number from 1, or leave it out", "--gpus has the value %q: it is how many GPUs the program keeps",
			o.Flags.Text("gpus"))
	}
	if err := o.Flags.Into(&f); err != nil {
		return err
	}
	if !o.Flags.Given("name") { // the variables of these two are about nodes that join
		f.Name = ""
	}
	if !o.Flags.Given("gpus") {
		f.GPUs = 0
	}
	if len(o.Behind) == 0 {
		return cli.Usagef("such as muster run gpu-1 -- python train.py", "which program? Its words stand behind --")
	}
	p := wire.WorkloadProcess{Name: f.Name, Command: o.Behind, Env: f.Env, SecretEnv: f.EnvSecret, GPUCount: f.GPUs,
		User: f.User, Workdir: f.Dir, Allocation: f.Alloc}
	if p.Name == "" {
		p.Name = nameOf(o.Behind)
	}
	if err := cli.AsUsage(p.Check()); err != nil {
		return err
	}
	switch {
	case f.Alloc != "" && f.GPUs > 0:
		return cli.Usagef("leave --gpus out", "--alloc says which GPUs the program uses")
	case f.Alloc != "" && o.Flags.Text("selector") != "":
		return cli.Usagef("leave -l out, or name nodes of the allocation", "--alloc says where the program runs")
	}
	o.program = p
	o.name = p.Name
	var err error
	o.wait = f.Wait
	o.life = f.Expires
	o.key, err = work.Key(o.Session)
	return err
}

// replaces asks a person before the output goes of programs that had the same name and have ended. Without a person it says so.
func (o *order) replaces(ctx context.Context, nodes []cli.Target) error {
	if !o.Flags.Given("name") {
		return nil
	}
	var on []string
	for _, target := range nodes {
		n, _ := cli.Get[api.Node](ctx, o.Session, api.At(api.PathNode, target.ID), nil) // what is wrong with it is told when it gets its task
		if slices.ContainsFunc(runsOf(n), func(r wire.Run) bool { return r.Name == o.name && r.State != wire.RunRunning }) {
			on = append(on, n.Name)
		}
	}
	if len(on) == 0 {
		return nil
	}
	what := fmt.Sprintf("replace the %s that has ended on %s, with all that it wrote", o.name, strings.Join(on, ", "))
	if o.Interactive() {
		return o.Agree(what, what)
	}
	o.say("this will " + what)
	return nil
}

// nameOf makes a name from the program, or from the script that an interpreter is given.
func nameOf(command []string) string {
	word := command[0]
	for _, interpreter := range []string{"python", "sh", "bash", "node"} {
		plain := strings.TrimRight(filepath.Base(word), "0123456789.")
		if plain == interpreter && len(command) > 1 && !strings.HasPrefix(command[1], "-") {
			word = command[1]
			break
		}
	}
	base := filepath.Base(word)
	base = strings.TrimSuffix(base, filepath.Ext(base))
	plain := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, base), "-_")
	if plain == "" {
		plain = "run"
	}
	return plain[:min(len(plain), 40)] + "-" + wire.NewTaskID()[:5]
}

func (o *order) queue(ctx context.Context, node cli.Target) (api.Task, error) {
	p := o.program
	p.GPUs = o.gpus[node.ID]
	params, err := json.Marshal(p)
	if err != nil {
		return api.Task{}, err
	}
	return work.Queue(ctx, o.Session, o.key, api.NewTask{Node: node.ID, Type: wire.TaskWorkloadProcess, Params: params}, o.life)
}

// startAll starts the program everywhere, and does not wait for its end.
func (o *order) startAll(ctx context.Context, nodes []cli.Target) error {
	failed := o.everywhere(ctx, nodes, o.startOne)
	err := o.report(ctx, nodes, failed)
	if !o.json && ctx.Err() == nil && slices.Contains(failed, nil) {
		o.say(o.next(nodes))
	}
	return err
}

// next says how to follow the program, and how to end it.
func (o *order) next(nodes []cli.Target) string {
	if len(nodes) > 1 {
		return "follow one: " + o.Pasted("run logs -f "+o.name+" "+nodes[0].Name) + "\nend all:    " + o.Pasted("run stop "+o.name+" --all")
	}
	return "follow it: " + o.Pasted("run logs -f "+o.name) + "\nend it:    " + o.Pasted("run stop "+o.name)
}

// everywhere queues the task of each node before it looks at one: a program that runs for long holds up no other. It gives what failed.
func (o *order) everywhere(ctx context.Context, nodes []cli.Target, then func(context.Context, cli.Target, api.Task) error) []error {
	failed := make([]error, len(nodes))
	tasks := make([]api.Task, len(nodes))
	cli.AtOnce(len(nodes), mostAtOnce, func(i int) { tasks[i], failed[i] = o.queue(ctx, nodes[i]) })
	cli.AtOnce(len(nodes), len(nodes), func(i int) {
		if failed[i] == nil {
			failed[i] = then(ctx, nodes[i], tasks[i])
		}
	})
	return failed
}

// startOne waits a little for the program to begin. A node that is away begins later.
func (o *order) startOne(ctx context.Context, node cli.Target, task api.Task) (err error) {
	if o.json {
		o.printMu.Lock()
		defer o.printMu.Unlock()
		return o.WriteJSON(task)
	}
	within := startTime
	heard, away := o.LastHeard(ctx, node.ID)
	if away { // waiting would only hold the person up
		within = 0
		o.say(screen.Printable(node.Name) + " " + heard)
	}
	if task, err = ended(ctx, o.Session, task, within); err != nil {
		return err
	}
	if wire.TaskEnded(task.Status) && task.Status != wire.TaskCompleted {
		return o.notBegun(task)
	}
	o.print(node, o.begun(task))
	return nil
}

// begun says what a task has come to.
func (o *order) begun(task api.Task) string {
	switch {
	case task.Status != wire.TaskCompleted && task.QueueReason != "":
		return fmt.Sprintf("%s is queued as task %s: %s", o.name, task.ID, task.QueueReason)
	case task.Status != wire.TaskCompleted:
		return fmt.Sprintf("%s is %s as task %s: the node begins with it when it is heard from", o.name, task.Status, task.ID)
	case string(task.Values["changed"]) == "false":
		return o.name + " runs there already"
	case task.Values["exit_code"] != nil:
		return o.name + " has ended already, with exit code " + string(task.Values["exit_code"])
	}
	return o.name + " runs"
}

// notBegun is the failure of a task, with the program's own exit code where it has one.
func (o *order) notBegun(task api.Task) error {
	err := cli.Hinted(fmt.Sprintf("%s %s: %s", o.name, task.Status, strings.TrimPrefix(task.Code+": "+task.Error, ": ")),
		"muster task show "+task.ID+" says more")
	if task.ExitCode != nil && *task.ExitCode > 0 && !o.several {
		return &cli.EndedWith{Code: *task.ExitCode, Err: err}
	}
	return err
}

// ended waits for the end of a task, for so long at most.
func ended(ctx context.Context, s *cli.Session, task api.Task, within time.Duration) (api.Task, error) {
	_, err := s.Poll(ctx, lookPause, within, func() (bool, error) {
		now, err := cli.Get[api.Task](ctx, s, api.At(api.PathTask, task.ID), nil)
		if err == nil {
			task = now
		}
		return wire.TaskEnded(task.Status), err
	})
	return task, err
}

// print prints a line about a node.
func (o *order) print(node cli.Target, text string) {
	o.printMu.Lock()
	defer o.printMu.Unlock()
	o.Printf("%s: %s\n", node.Name, text)
}

// say prints lines for a person.
func (o *order) say(text string) {
	o.printMu.Lock()
	defer o.printMu.Unlock()
	fmt.Fprintln(o.Stderr, text)
}
