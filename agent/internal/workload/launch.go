package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/internal/child"
	"muster/agent/internal/mask"
	"muster/agent/internal/task"
	"muster/agent/wire"
)

const (
	// cleanTime is how long what a failed launch has left may take to remove. A task that was ended does not get more than half a minute.
	cleanTime = 25 * time.Second
	// lastLines is how much of its log a container that ended at once leaves in the task's output.
	lastLines = 50
	// maxLast bounds how much of that stands in the error, in bytes.
	maxLast = 512
)

// launch is one launch at work.
type launch struct {
	host    Host
	job     task.Job
	params  *wire.WorkloadLaunch
	engine  engine
	mounts  []wire.Mount
	secrets map[string]string // by the names of the secrets
	veil    *mask.Veil
	out     io.Writer // the task's output, without the secrets
}

// Launch runs a container. If a container runs already with the same params, nothing is done.
func (h Host) Launch(ctx context.Context, job task.Job, params *wire.WorkloadLaunch) task.Outcome {
	l := launch{host: h, job: job, params: params, veil: &mask.Veil{To: job.Output}}
	l.out = l.veil
	outcome := l.do(ctx)
	l.veil.Flush()
	outcome.Error = l.veil.Text(outcome.Error)
	return outcome
}

func (l *launch) do(ctx context.Context) task.Outcome {
	mounts, err := resolveMounts(l.params.Mounts, l.job.Policy.MountRoots)
	if err != nil {
		return task.Failed(err)
	}
	l.mounts = mounts
	before, err := l.before(ctx)
	if err != nil {
		return task.Failed(err)
	}
	if before != nil && before.alive() {
		fmt.Fprintf(l.out, "%s runs already in %s: nothing was changed\n", l.params.Name, before.engine.name)
		return l.ended(*before, false)
	}
	if err := l.prepare(ctx); err != nil {
		return task.Failed(err)
	}
	if before != nil {
		fmt.Fprintf(l.out, "%s has ended before: its container is replaced\n", l.params.Name)
		if err := before.engine.remove(ctx, labelFilter(Label, l.params.Name), before.ID); err != nil {
			return task.Failed(fmt.Errorf("the container that has ended could not be removed: %w", err))
		}
	}
	return l.start(ctx)
}

// before gives the container of this workload, where there is one that the launch may keep or replace. It chooses the engine too.
func (l *launch) before(ctx context.Context) (*container, error) {
	v := l.host.look(ctx, l.params.Name)
	if v.trouble != nil {
		return nil, v.trouble
	}
	var err error
	l.engine, err = choose(l.params.Runtime, v.engines, v.silent)
	if r, taken := l.host.Runs.Find(l.params.Name); taken && err == nil {
		err = fmt.Errorf("the name %s is a program's on this node, %s since task %s: stop that first (workload.stop name=%s), "+
			"or use another name", r.Name, r.State, r.Task, r.Name)
	}
	if err != nil || len(v.found) == 0 {
		return nil, err
	}
	c := v.found[0]
	if c.label(labelSpec) != spec(l.params) || l.params.Runtime != "" && l.params.Runtime != c.engine.name {
		return nil, fmt.Errorf("the workload %s is on this node with other params, %s in %s since task %s: stop it first (workload.stop name=%s)",
			l.params.Name, c.State.Status, c.engine.name, c.label(labelTask), l.params.Name)
	}
	return &c, nil
}

// prepare gets the secrets and the image.
func (l *launch) prepare(ctx context.Context) error {
	if err := l.borrow(ctx); err != nil {
		return err
	}
	if err := l.host.use(l.engine.name); err != nil {
		return fmt.Errorf("it could not be written down that %s is used: %w", l.engine.name, err)
	}
	return l.fetch(ctx)
}

// borrow asks for the secrets that the params name. From then on they are hidden in all that people read.
func (l *launch) borrow(ctx context.Context) error {
	secrets, err := l.job.Borrow(ctx, l.params)
	if err != nil {
		return err
	}
	l.secrets = secrets
	hidden := slices.Collect(maps.Values(secrets))
	if _, password, found := strings.Cut(secrets[l.params.Login], ":"); found {
		hidden = append(hidden, password)
	}
	l.veil.Mask = mask.New(hidden...)
	return nil
}

// start runs the container and watches it for a while. After a failure nothing of it is left.
func (l *launch) start(ctx context.Context) task.Outcome {
	c, err := l.run(ctx)
	if err == nil {
		err = l.settled(ctx, &c)
	}
	if err == nil {
		return l.ended(c, true)
	}
	outcome := task.Failed(l.hint(err))
	if c.ID != "" && c.State.ExitCode > 0 {
		outcome.ExitCode = c.State.ExitCode
	}
	if err := l.clean(ctx); err != nil {
		outcome.Error += fmt.Sprintf("; what it left could not be removed: %v", err)
	}
	return outcome
}

func (l *launch) run(ctx context.Context) (container, error) {
	vars := map[string]string{}
	maps.Copy(vars, l.params.Env)
	for name, secret := range l.params.SecretEnv {
		vars[name] = l.secrets[secret]
	}
	env, err := newEnvironment(vars)
	if err != nil {
		return container{}, err
	}
	answer, err := l.engine.run(ctx, call{args: l.arguments(env), env: env.own, stdin: env.file, watch: l.out})
	if err != nil {
		return container{}, err
	}
	id := strings.TrimSpace(string(answer))
	if !containerID(id) {
		return container{}, fmt.Errorf("%s run did not answer with the id of a container", l.engine.name)
	}
	return container{engine: l.engine, ID: id}, nil
}

// containerID tells whether a text is an id as every engine makes them.
func containerID(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// settled waits until the new container has ended, or has run for a while, and looks at it. A container that did its work within that
// time and ended with 0 is no failure.
func (l *launch) settled(ctx context.Context, c *container) error {
	watch, done := context.WithTimeoutCause(ctx, l.host.settle(), errors.New("it runs"))
	_, _ = l.engine.ask(watch, "wait", c.ID) // only the time counts: what became of the container is asked for in any case
	done()
	found, err := l.engine.inspect(ctx, c.ID)
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%s does not know the container that it has started", l.engine.name)
	}
	*c = found[0]
	switch {
	case c.alive():
		fmt.Fprintf(l.out, "%s runs in %s\n", l.params.Name, l.engine.name)
		return nil
	case c.State.Status != "exited" && c.State.Status != "stopped":
		return fmt.Errorf("the container is %q, and does not run: %s", c.State.Status, c.State.Error)
	}
	last := l.lastWords(ctx, c.ID)
	if c.State.ExitCode == 0 {
		fmt.Fprintf(l.out, "%s has done its work and ended with exit code 0\n", l.params.Name)
		return nil
	}
	reason := ""
	if c.State.OOMKilled {
		reason = ", out of memory: raise memory_mib"
	}
	return fmt.Errorf("the container ended at once, with exit code %d%s; its last words: %s", c.State.ExitCode, reason, last)
}

// lastWords copies the end of the container's log to the task's output, and gives the end of that.
func (l *launch) lastWords(ctx context.Context, id string) string {
	last := child.Tail{Most: maxLast}
	if err := l.engine.logs(ctx, id, lastLines, io.MultiWriter(&last, l.out)); err != nil {
		return err.Error()
	}
	return last.Words()
}

// hint adds what a person does about an engine that cannot find the GPUs.
func (l *launch) hint(err error) error {
	text := err.Error()
	switch {
	case len(l.params.GPUs) == 0:
		return err
	case strings.Contains(text, "CDI") || strings.Contains(text, "nvidia.com/gpu"):
		return fmt.Errorf("%w; make the list of the node's GPUs: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml "+
			"(it comes with the package nvidia-container-toolkit)", err)
	case strings.Contains(text, "could not select device driver"):
		return fmt.Errorf("%w; install nvidia-container-toolkit, then: nvidia-ctk runtime configure --runtime=docker", err)
	}
	return err
}

// clean removes what a failed launch has left, also when the task is over.
func (l *launch) clean(ctx context.Context) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer done()
	filter := labelFilter(labelTask, l.job.ID)
	left, err := l.engine.list(ctx, filter)
	if err != nil || len(left) == 0 {
		return err
	}
	return l.engine.remove(ctx, filter, idsOf(left)...)
}

func (l *launch) ended(c container, changed bool) task.Outcome {
	all := map[string]any{"changed": changed, "runtime": c.engine.name, "container": c.ID, "image": l.params.Image, "state": c.State.Status}
	if !c.alive() {
		all["exit_code"] = c.State.ExitCode
	}
	return task.Ended(nil, all)
}
