package join

import (
	"bytes"
	"cmp"
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
	"sync"
	"syscall"
	"time"

	"muster/gateway/internal/paste"
)

const (
	sshFailed = 255 // ssh's own exit code, as opposed to the remote program's
	tail      = 24  // lines of what a program said that a failure repeats
)

// remoteError is why a step on a box failed.
type remoteError struct {
	why  string
	hint string
	said []string // what the program said, where it was not shown as it came
	cut  bool     // the connection, not the remote program, ended it
}

func (e *remoteError) Error() string { return e.why }

// broken tells whether the connection ended a step. Then nobody knows what the box did after that, and the folder may still be there.
func broken(err error) bool {
	var remote *remoteError
	return errors.As(err, &remote) && remote.cut
}

// lookScript prints the platform and a private folder from which programs may run: /tmp may be mounted noexec. It is one
// line, because every login shell can pass on one line. If nobody is left to read the folder's name, the box removes it itself.
const lookScript = `umask 077; trap "" PIPE; ` +
	`for tool in uname mktemp chmod cat rm; do command -v "$tool" >/dev/null || ` +
	`{ echo "this machine lacks $tool, which joining needs: install coreutils, or busybox" >&2; exit 1; }; done; uname -s; uname -m; ` +
	`for base in "$HOME" /var/tmp /tmp /dev/shm /run; do ` +
	`case "$base" in ""|*[!A-Za-z0-9/._+-]*) continue;; esac; ` +
	`d=$(mktemp -d "$base/.muster-push.XXXXXXXX" 2>/dev/null) || continue; ` +
	`if echo "#!/bin/sh" >"$d/try" && chmod 700 "$d/try" && "$d/try" 2>/dev/null; then rm -f "$d/try"; echo "$d" || rm -rf "$d"; exit 0; fi; ` +
	`rm -rf "$d"; done; ` +
	`echo "no folder here that this user may write to and run programs from: tried its home, /var/tmp, /tmp, /dev/shm and /run" >&2; exit 1`

// folder tells whether a name is one of the folders that lookScript makes. The name comes from the box, and goes into commands.
func folder(dir string) bool {
	base, name := filepath.Split(dir)
	unique, ok := strings.CutPrefix(name, ".muster-push.")
	return strings.HasPrefix(base, "/") && only(base, folderBytes) && !strings.Contains(base, "..") && ok && unique != "" &&
		only(unique, letters)
}

// look reaches the box for the first time. What it says is the word of a stranger: it goes into commands only after it was checked.
func (p *push) look(ctx context.Context, to box) (platform, dir string, err error) {
	said, err := p.remote(ctx, to, lookScript, nil, nil)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if err != nil {
		if made := lines[len(lines)-1]; folder(made) {
			err = errors.Join(err, p.clean(ctx, to, made))
		}
		return "", "", err
	}
	if len(lines) < 3 {
		return "", "", fmt.Errorf("it did not say what it is: %.200q", said)
	}
	lines = lines[len(lines)-3:] // a chatty login script may stand before them
	system := strings.TrimSpace(lines[0])
	machine := strings.TrimSpace(lines[1])
	dir = strings.TrimSpace(lines[2])
	if !folder(dir) {
		return "", "", fmt.Errorf("it named a folder that cannot be used: %.200q", dir)
	}
	if platform = platformOf(system, machine); platform == "" {
		return "", "", errors.Join(fmt.Errorf("it is %.40s on %.40s; there are agents for Linux on x86_64 and aarch64", system, machine),
			p.clean(ctx, to, dir))
	}
	return platform, dir, nil
}

func platformOf(system, machine string) string {
	if system != "Linux" {
		return ""
	}
	switch machine {
	case "x86_64", "amd64":
		return "linux-amd64"
	case "aarch64", "arm64":
		return "linux-arm64"
	}
	return ""
}

// copy carries the agent over ssh's standard input. scp would need sftp on the machine.
func (p *push) copy(ctx context.Context, to box, platform, dir string) error {
	if p.Agents == nil {
		return errors.New("this program carries no agents; build it with: make build")
	}
	body, err := fs.ReadFile(p.Agents, platform+"/muster-agent")
	if err != nil {
		return fmt.Errorf("this program carries no agent for %s; build it with: make build", platform)
	}
	_, err = p.remote(ctx, to, "cat >"+quote(dir+"/muster-agent"), bytes.NewReader(body), nil)
	var failed *remoteError
	if errors.As(err, &failed) && !failed.cut {
		failed.why = "the agent could not be copied: " + failed.why
		failed.hint = "the machine needs some 10 MB of room"
	}
	return err
}

// clean removes the folder from the box, also when the box's time is up.
func (p *push) clean(ctx context.Context, to box, dir string) error {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	if _, err := p.remote(late, to, "rm -rf "+quote(dir), nil, nil); err != nil {
		return fmt.Errorf("%s may still be there", dir)
	}
	return nil
}

// remote runs a script on the box, and returns its standard output. All that it prints also goes to out as it comes.
func (p *push) remote(ctx context.Context, to box, script string, stdin io.Reader, out io.Writer) (string, error) {
	args := slices.Clone(p.ssh)
	if port := cmp.Or(to.port, p.port); port != "" {
		args = append(args, "-p", port)
	}
	return runSSH(ctx, append(args, "-T", "--", to.host, "exec /bin/sh -c "+quote(script)), stdin, out)
}

// runSSH runs ssh without the variables that configure muster, since a SendEnv could send them to the box. When ctx ends, ssh gets a
// signal to end by itself, so that it leaves the terminal as it was.
func runSSH(ctx context.Context, args []string, stdin io.Reader, out io.Writer) (string, error) {
	command := exec.CommandContext(ctx, "ssh", args...)
	command.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "MUSTER_") })
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 2 * time.Second
	var said bytes.Buffer
	all := &transcript{also: out}
	command.Stdin = stdin
	command.Stdout = io.MultiWriter(&said, all)
	command.Stderr = all
	err := command.Run()
	if err == nil {
		return said.String(), nil
	}
	failed := &remoteError{cut: true, said: all.lines()}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		failed.cut = exit.ExitCode() == sshFailed || exit.ExitCode() < 0
	}
	failed.why = err.Error()
	if len(failed.said) > 0 && exit != nil && exit.Exited() {
		failed.why = lastWords(failed.said)
	}
	failed.explain(ctx)
	if out != nil && !failed.cut {
		failed.said = nil
	}
	return said.String(), failed
}

// lastWords is the line that names the failed step, else the last line.
func lastWords(said []string) string {
	for _, line := range slices.Backward(said) {
		if strings.HasPrefix(line, "[") && strings.Contains(line, "] failed: ") {
			return line
		}
	}
	return said[len(said)-1]
}

// explain completes why a program failed, and says what to do.
func (e *remoteError) explain(ctx context.Context) {
	text := strings.Join(e.said, "\n")
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.why = "it did not end within the time"
		e.hint = "--timeout allows more; muster node ls tells whether it joined meanwhile"
	case ctx.Err() != nil:
		e.why = "interrupted"
	case strings.Contains(text, "HOST IDENTIFICATION HAS CHANGED"):
		e.hint = "another machine may answer there: compare the key with what the machine's owner says. If it was made anew, forget its old " +
			"key as ssh says above, and accept the new one by connecting once with ssh"
	case strings.Contains(text, "Host key verification failed"):
		e.hint = "compare the key with what the machine's owner says, then accept it by connecting once with ssh"
	case strings.Contains(text, "Permission denied (") || strings.Contains(text, "Too many authentication failures"):
		e.hint = "name the key with -i FILE, or load it with ssh-add"
	case e.cut:
		e.hint = "check the address and the port (-p) with ssh itself"
	default:
		e.hint = "what it says above is the machine's own word; the same command may be given again"
	}
}

// transcript keeps what both streams of a program say, and passes it on as it comes.
type transcript struct {
	mu   sync.Mutex
	also io.Writer
	all  bytes.Buffer
}

func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.also != nil {
		_, _ = t.also.Write(b) // the writer below remembers a failure
	}
	return t.all.Write(b)
}

func (t *transcript) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, line := range strings.Split(t.all.String(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-tail):]
}

// quote makes one word of a POSIX shell command line.
func quote(word string) string { return paste.Quoted(word) }
