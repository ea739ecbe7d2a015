package process

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/child"
	"muster/agent/internal/person"
	"muster/agent/internal/task"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

const (
	// startTime is how long a keeper may take to start the program.
	startTime = 20 * time.Second
	// lastLines is how much of its output a program that ended at once leaves in the error, in lines and in bytes.
	lastLines = 20
	maxLast   = 512
	// lookTime is how long a new look at the GPUs may take, with the wait for one that is under way.
	lookTime = 30 * time.Second
)

// start is one start at work.
type start struct {
	Host
	job    task.Job
	params *wire.WorkloadProcess
	who    person.Person
	order  order
	record record
	seen   []wire.GPU
}

// Start starts a program. If it runs already with the same params, nothing is done. holders are the others that keep GPUs for themselves.
func (h Host) Start(ctx context.Context, job task.Job, params *wire.WorkloadProcess, holders []Holder) task.Outcome {
	s := start{Host: h, job: job, params: params}
	s.record = record{Spec: spec(params), Boot: h.boot(), Secrets: slices.Sorted(maps.Keys(params.SecretEnv))}
	before, err := h.read(params.Name)
	known := err == nil
	if known && before.State == wire.RunRunning {
		if before.Spec == s.record.Spec {
			fmt.Fprintf(job.Output, "%s runs already: nothing was changed\n", params.Name)
			return s.ended(before, false)
		}
		return task.Failf("%s runs on this node with other params since task %s: stop it first (muster run stop %s), or use another name",
			params.Name, before.Task, params.Name)
	}
	if known && len(before.survivors()) > 0 {
		return task.Failf("the keeper of an earlier %s was killed, and its processes go on: end them first (muster run stop %s), "+
			"or use another name", params.Name, params.Name)
	}
	if err := s.prepare(ctx, holders); err != nil {
		return task.Failed(err)
	}
	if known {
		fmt.Fprintf(job.Output, "%s has ended before: it is replaced with its output\n", params.Name)
		if err := h.Stop(ctx, params.Name, 0); err != nil {
			return task.Failed(err)
		}
	} else if err := h.makeRoom(); err != nil {
		return task.Failed(err)
	}
	if err := s.begin(ctx); err != nil {
		_ = h.Stop(context.WithoutCancel(ctx), params.Name, 0)
		_ = h.remove(h.folder(params.Name)) // it may have no record yet
		return task.Failed(err)
	}
	h.tell()
	return s.settled(ctx)
}

// prepare finds out all that the program is started with.
func (s *start) prepare(ctx context.Context, holders []Holder) error {
	p := s.params
	var err error
	if s.who, err = person.Find(s.Accounts, p.User, s.job.Policy.CheckUser); err != nil {
		return err
	}
	environ := s.who.Environ("")
	s.order.Dir = p.Workdir
	if s.order.Dir == "" {
		s.order.Dir = s.who.Folder()
	} else if info, err := os.Stat(s.order.Dir); err != nil || !info.IsDir() {
		return wire.Refuse(wire.CodeTaskParamsInvalid, "there is no folder "+s.order.Dir+" on the node", "muster cp brings one there")
	}
	search, given := p.Env["PATH"]
	if !given {
		search = person.Variable(environ, "PATH")
	}
	path, exit := person.Program(p.Command[0], search, s.order.Dir)
	if exit != nil {
		return &child.ExitError{Code: exit.Code, Why: exit.Error}
	}
	s.order.Path = path
	s.order.Args = p.Command
	s.order.Credential = s.who.Credential()
	secrets, err := s.borrow(ctx)
	if err != nil {
		return err
	}
	gpus, err := s.gpus(ctx, holders)
	if err = cmp.Or(err, context.Cause(ctx)); err != nil { // a look takes long, and somebody may have canceled the task
		return err
	}
	now := s.now().UTC().Truncate(time.Second)
	s.record.Run = wire.Run{Name: p.Name, Task: s.job.ID, Program: wire.OneLine(filepath.Base(p.Command[0]), wire.MaxText), User: s.who.Name,
		GPUs: gpus, Allocation: p.Allocation, StartedAt: &now}
	set := slices.Concat([]string{"PYTHONUNBUFFERED=1"}, visible(gpus, s.seen), pairs(p.Env), pairs(secrets), []string{mark(s.job.ID)})
	s.order.Env = append(environ, set...) // of two with one name the later counts
	return nil
}

func pairs(vars map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		all = append(all, name+"="+vars[name])
	}
	return all
}

// borrow gets the secrets that the params name, as variables. From then on they are hidden in the output.
func (s *start) borrow(ctx context.Context) (map[string]string, error) {
	lent, err := s.job.Borrow(ctx, s.params)
	if err != nil {
		return nil, err
	}
	vars := map[string]string{}
	for name, secret := range s.params.SecretEnv {
		value := lent[secret]
		if strings.ContainsRune(value, 0) {
			return nil, wire.Refuse(wire.CodeTaskParamsInvalid, fmt.Sprintf("the secret %q has a zero byte, which no variable can hold", secret),
				"set it anew with muster secret set, as text")
		}
		vars[name] = value
		s.order.Secrets = append(s.order.Secrets, value)
	}
	return vars, nil
}

// gpus are those that the program gets.
func (s *start) gpus(ctx context.Context, holders []Holder) ([]string, error) {
	if s.params.GPUCount == 0 {
		if len(s.params.GPUs) > 0 {
			_ = s.look(ctx) // whose they are is known from an old reading too
		}
		return append([]string{}, s.params.GPUs...), nil
	}
	for _, r := range s.all() {
		if r.State == wire.RunRunning {
			holders = append(holders, Holder{"the run " + r.Name, r.GPUs})
		}
	}
	if err := s.look(ctx); err != nil {
		return nil, err
	}
	return choose(s.params.GPUCount, s.seen, holders)
}

// look looks at the GPUs now: an older reading does not know what has begun to use them since.
func (s *start) look(ctx context.Context) error {
	if s.GPUs == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	begun := s.now().Truncate(time.Second)
	probe, gpus := s.GPUs(bounded)
	s.seen = gpus
	if probe.State == wire.ProbeAbsent || probe.SampledAt != nil && !probe.SampledAt.Before(begun) {
		return nil
	}
	return wire.Refuse(wire.CodeTaskForbidden,
		strings.TrimSuffix("which GPUs are free cannot be seen now, because the last look at them is "+probe.State+": "+probe.Error, ": "),
		"wait until the node's GPUs can be read (muster node show), or leave --gpus out: the program sees all GPUs then")
}

// begin makes the folder of the run, and starts its keeper.
func (s *start) begin(ctx context.Context) error {
	folder := s.folder(s.params.Name)
	raw, err := json.Marshal(s.record)
	if err == nil {
		err = os.RemoveAll(folder) // a folder without a record: what else is in it is of another run
	}
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err == nil {
		err = disk.Replace(filepath.Join(folder, recordFile), raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("a folder for the run could not be made: %w", disk.Advise(err))
	}
	told, err := json.Marshal(s.order)
	if err != nil {
		return err
	}
	a, err := s.launch(ctx, append(slices.Clone(s.Keeper), folder), told)
	switch {
	case err != nil:
		return fmt.Errorf("start the keeper of the run: %w", err)
	case a.Exit != nil:
		return &child.ExitError{Code: a.Exit.Code, Why: a.Exit.Error}
	case a.Error != "":
		return fmt.Errorf("start %s: %s", s.record.Program, a.Error)
	}
	fmt.Fprintf(s.job.Output, "%s runs as %s, process %d\n", s.params.Name, s.who.Name, a.PID)
	return nil
}

// launch starts a keeper in a session of processes of its own, and waits for its answer. Nothing of it ends with the agent: no signal for
// the agent's group reaches it, and the service manager stops the agent alone.
func (s *start) launch(ctx context.Context, command []string, told []byte) (a answer, err error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return a, err
	}
	defer reader.Close()
	cmd := &exec.Cmd{Path: command[0], Args: append([]string{"muster-agent"}, command[1:]...), Env: child.Environ(), Dir: "/",
		Stdin: bytes.NewReader(told), Stdout: writer}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	writer.Close() // else the read below would not end with the keeper
	if err != nil {
		return a, err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	limit := time.Now().Add(startTime)
	if end, limited := ctx.Deadline(); limited && end.Before(limit) {
		limit = end
	}
	_ = reader.SetReadDeadline(limit)
	raw, err := io.ReadAll(io.LimitReader(reader, maxFile))
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil { // it may have started the program, and not have written that down
		_ = cmd.Process.Kill()
		select {
		case <-ended:
		case <-time.After(lastTime): // the kernel holds it
		}
		for begun := time.Now(); len(marked(s.job.ID, syscall.SIGKILL)) > 0 && time.Since(begun) < lastTime; {
			time.Sleep(20 * time.Millisecond)
		}
	}
	return a, err
}

// settled watches the new run for a while: a wrong path, a missing file or a missing driver shows within that time.
func (s *start) settled(ctx context.Context) task.Outcome {
	var r run
	for begun := time.Now(); ; {
		var err error
		if r, err = s.read(s.params.Name); err != nil {
			return task.Failed(err)
		}
		if r.State != wire.RunRunning || time.Since(begun) > s.settle() || !transport.Sleep(ctx, 20*time.Millisecond) {
			break
		}
	}
	o := s.ended(r, true)
	switch {
	case r.State == wire.RunRunning:
		return o
	case r.ExitCode == nil:
		o.ExitCode = 1
		o.Error = fmt.Sprintf("%s is %s: %s", s.params.Name, r.State, r.Why)
	case *r.ExitCode == 0:
		fmt.Fprintf(s.job.Output, "%s has done its work and ended with exit code 0\n", s.params.Name)
	default:
		o.ExitCode = *r.ExitCode
		o.Error = fmt.Sprintf("%s ended at once, with exit code %d; its last words: %s", s.record.Program, *r.ExitCode, s.lastWords())
		if r.Why != "" {
			o.Error += "; " + r.Why
		}
	}
	return o
}

// lastWords are the end of the output.
func (s *start) lastWords() string {
	out, err := s.Output(s.params.Name)
	last := child.Tail{Most: maxLast}
	if err == nil {
		_, err = out.Tail(lastLines, &last)
	}
	if err != nil {
		return err.Error()
	}
	return last.Words()
}

func (s *start) ended(r run, changed bool) task.Outcome {
	all := map[string]any{"changed": changed, "runtime": Runtime, "task": r.Task, "state": r.State, "gpus": r.GPUs, "pid": r.Main.PID}
	if r.ExitCode != nil {
		all["exit_code"] = *r.ExitCode
	}
	return task.Ended(nil, all)
}

// Runtime stands in the place where a container has its engine.
const Runtime = "process"

// spec is a digest of what a run is made from. Two tasks with the same one want the same program.
func spec(params *wire.WorkloadProcess) string {
	p := *params
	p.TaskTime = wire.TaskTime{}
	return task.Digest(&p)
}
