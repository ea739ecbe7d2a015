package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/agent/internal/child"
)

// Names of the engines. The rules of WorkloadLaunch.Runtime are wire's.
const (
	docker  = "docker"
	podman  = "podman"
	nerdctl = "nerdctl"
)

// order is the order in which a launch takes them.
var order = [...]string{docker, podman, nerdctl}

const (
	// answerTime is how long an engine may take to answer a question. A daemon that hangs must not hold up the others.
	answerTime = 20 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 8 << 20
	// maxComplaint bounds what an error repeats of the engine's own words, in bytes.
	maxComplaint = 1 << 10
)

// engine is one of the programs that run containers. Their commands have the same form, with the differences that this package knows.
type engine struct {
	name string
	path string
	env  []string
	exec func(context.Context, child.Command) error
}

// silent is an engine that is on the node and does not answer.
type silent struct {
	name string
	err  error
}

// engines looks for engines, in their order.
func (h Host) engines(ctx context.Context) (answer []engine, mute []silent) {
	for _, name := range order {
		e := engine{name: name, env: h.env(), exec: h.exec()}
		e.path = lookPath(name, e.env)
		if e.path == "" {
			continue
		}
		if err := e.check(ctx); err != nil {
			mute = append(mute, silent{name, err})
			continue
		}
		answer = append(answer, e)
	}
	return answer, mute
}

// lookPath finds a program on the PATH of an environment. It is empty if the program is not there.
func lookPath(name string, env []string) string {
	for _, entry := range slices.Backward(env) {
		list, found := strings.CutPrefix(entry, "PATH=")
		if !found {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, name)
			if _, err := exec.LookPath(path); err == nil && filepath.IsAbs(path) {
				return path
			}
		}
		return ""
	}
	return ""
}

// check asks the engine for its version and for something that only a working engine can say. The version tells when another engine
// goes by this name: podman has a program docker, which takes podman's options.
func (e engine) check(ctx context.Context) error {
	ctx, done := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("no answer within %s", answerTime))
	defer done()
	version, err := e.ask(ctx, "--version")
	if err != nil {
		return err
	}
	if first, _, _ := strings.Cut(strings.ToLower(string(version)), " "); first != e.name {
		return fmt.Errorf("the program %s on this node is %.40q: use that by its own name", e.name, first)
	}
	_, err = e.ask(ctx, "ps", "--quiet", "--filter", "label="+labelTask+"=none")
	return err
}

// ask runs a command of the engine and gives what it printed. The error has the engine's own last words.
func (e engine) ask(ctx context.Context, args ...string) ([]byte, error) {
	return e.run(ctx, call{args: args})
}

// call is one command of an engine.
type call struct {
	args  []string
	env   []string  // beside the engine's own
	stdin []byte    // what it reads
	watch io.Writer // gets what the command complains about, and what it prints where out is nil; nil: nobody
	live  bool      // what it prints goes to watch too
}

func (e engine) run(ctx context.Context, c call) ([]byte, error) {
	out := child.Bounded{Most: maxAnswer}
	complaint := child.Tail{Most: maxComplaint}
	stdout := io.Writer(&out)
	stderr := io.Writer(&complaint)
	if c.watch != nil {
		stderr = io.MultiWriter(&complaint, c.watch)
	}
	if c.live {
		stdout = io.MultiWriter(&out, c.watch)
	}
	err := e.exec(ctx, child.Command{Program: e.path, Args: c.args, Env: append(slices.Clone(e.env), c.env...),
		Stdin: bytes.NewReader(c.stdin), Stdout: stdout, Stderr: stderr})
	if err == nil && out.Cut {
		err = fmt.Errorf("%s %s printed more than %d bytes", e.name, c.args[0], maxAnswer)
	}
	if text := strings.Join(strings.FieldsFunc(string(complaint.Bytes()), isLineEnd), "; "); err != nil && text != "" {
		err = fmt.Errorf("%s %s: %w: %s", e.name, c.args[0], err, text)
	}
	return out.Kept, err
}

func isLineEnd(r rune) bool { return r == '\n' || r == '\r' }

// choose picks the engine of a launch: the one that the params name, else the first.
func choose(wanted string, answer []engine, mute []silent) (engine, error) {
	for _, e := range answer {
		if wanted == "" || e.name == wanted {
			return e, nil
		}
	}
	for _, s := range mute {
		if wanted == "" || s.name == wanted {
			return engine{}, fmt.Errorf("%s is on this node and does not answer: %w; %s", s.name, s.err, startHint(s.name))
		}
	}
	if wanted != "" && len(answer) > 0 {
		return engine{}, fmt.Errorf("this node has no %s: install it, or launch with runtime=%s, which is there", wanted, answer[0].name)
	}
	return engine{}, errors.New("this node has no docker, podman or nerdctl: install one of them first, such as podman " +
		"(apt-get install podman), then launch again")
}

// startHint is what a person does about an engine that does not answer.
func startHint(name string) string {
	switch name {
	case docker:
		return "systemctl start docker, and the agent's user must be allowed to use it"
	case nerdctl:
		return "systemctl start containerd"
	}
	return "podman info, as the agent's user, says more"
}

// EnginesFolder is a folder in the agent's state directory. It has an empty file for each engine that has been used.
const EnginesFolder = "workload-engines"

// use remembers that an engine is used. Without that, an engine that stands idle on the node and does not answer would be taken for one
// whose containers cannot be seen.
func (h Host) use(name string) error {
	folder := filepath.Join(h.State, EnginesFolder)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name), nil, 0o600)
}

// used is true if nobody can tell.
func (h Host) used(name string) bool {
	_, err := os.Stat(filepath.Join(h.State, EnginesFolder, name))
	return !errors.Is(err, fs.ErrNotExist)
}
