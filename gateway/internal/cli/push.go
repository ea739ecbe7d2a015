package cli

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
	"sync"
	"time"

	"muster/gateway/internal/adminapi"
)

const (
	pushTTL      = 15 * time.Minute // of the token that is minted for one box
	pushTimeout  = 5 * time.Minute
	pushParallel = 8
	pushTail     = 3 // lines of a box's output that the summary repeats
)

// push is one call of the command: the same for every box.
type push struct {
	*session
	client  *adminapi.Client
	gateway adminapi.Gateway
	token   adminapi.TokenRequest
	join    []string // flags for the agent's join, without the gateway and the token
	ssh     []string // options that ssh and scp share
	port    string
	single  bool // one box: its ssh may ask the person for a password
}

// pushNodes carries the agent to boxes over the system's own ssh and joins them. Each box gets a token of its own, which
// never stands in an argument and is revoked when the box does not join.
func pushNodes(ctx context.Context, s *session) error {
	p, err := s.newPush(ctx)
	if err != nil {
		return err
	}
	timeout, err := s.options.duration("timeout", pushTimeout)
	if err != nil {
		return err
	}
	results := make([]error, len(s.args))
	var wait sync.WaitGroup
	free := make(chan struct{}, pushParallel)
	out := &screen{to: s.Stdout}
	for i, host := range s.args {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			bounded, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			results[i] = p.box(bounded, host, out.of(host, p.single))
		})
	}
	wait.Wait()
	return p.summary(results)
}

func (s *session) newPush(ctx context.Context) (*push, error) {
	p := &push{session: s, single: len(s.args) == 1, port: s.options.text("port")}
	for _, host := range s.args {
		if host == "" || host[0] == '-' || strings.ContainsAny(host, " \t\n'\"") {
			return nil, usagef("write user@host, or a name from your ssh config", "%q is no host", host)
		}
	}
	for _, tool := range []string{"ssh", "scp"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is not on this machine; install openssh-client, or copy bin/muster-agent by hand and run its join", tool)
		}
	}
	var err error
	if p.token, err = s.tokenRequest(); err != nil {
		return nil, err
	}
	if p.token.Uses, p.token.TTL = 1, adminapi.Duration(pushTTL); s.options.text("instance-id") != "" {
		p.token.BindInstance = s.options.text("provider") != ""
	}
	if err := p.flags(); err != nil {
		return nil, err
	}
	if p.client, err = s.client(ctx); err != nil {
		return nil, err
	}
	p.gateway, err = p.client.Gateway(ctx)
	return p, err
}

// flags are what ssh and join are called with.
func (p *push) flags() error {
	for _, name := range []string{"name", "provider", "instance-id"} {
		value := p.options.text(name)
		if value == "" {
			continue
		}
		if !p.single && name != "provider" {
			return usagef("push one box at a time to give each its own", "--%s is for one box, and there are %d", name, len(p.args))
		}
		p.join = append(p.join, "--"+name, value)
	}
	p.ssh = []string{"-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15"}
	if !p.single {
		p.ssh = append(p.ssh, "-o", "BatchMode=yes") // questions of several boxes at once are nobody's to answer
	}
	if key := p.options.text("identity"); key != "" {
		p.ssh = append(p.ssh, "-i", key)
	}
	return nil
}

// box joins one box: look, copy, join. The token is minted when the box is known to be reachable and of a platform that
// there is an agent for.
func (p *push) box(ctx context.Context, host string, out io.Writer) (err error) {
	platform, dir, err := p.look(ctx, host)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, copying the agent\n", platform)
	if err := p.copy(ctx, host, platform, dir); err != nil {
		return errors.Join(err, p.clean(host, dir))
	}
	minted, err := p.client.CreateToken(ctx, p.token)
	if err != nil {
		return errors.Join(err, p.clean(host, dir))
	}
	err = p.joinBox(ctx, host, dir, minted.Token, out)
	if err != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, p.client.RevokeToken(late, minted.ID), p.clean(host, dir))
	}
	return err
}

// lookScript prints the platform and makes a private folder from which programs may run: /tmp may be mounted noexec.
const lookScript = `umask 077
uname -s; uname -m
for base in "$HOME" /var/tmp /tmp /dev/shm /run; do
	d=$(mktemp -d "$base/.muster-push.XXXXXXXX" 2>/dev/null) || continue
	printf '#!/bin/sh\nexit 0\n' >"$d/try" && chmod 700 "$d/try" && "$d/try" 2>/dev/null && rm -f "$d/try" && echo "$d" && exit 0
	rm -rf "$d"
done
echo "no folder that programs may run from" >&2; exit 1`

func (p *push) look(ctx context.Context, host string) (platform, dir string, err error) {
	said, err := p.remote(ctx, host, lookScript, nil, nil)
	if err != nil {
		return "", "", err
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if len(lines) < 3 {
		return "", "", fmt.Errorf("%s did not say what it is: %.200q", host, said)
	}
	lines = lines[len(lines)-3:] // a chatty login script may stand before them
	dir = lines[2]
	if !filepath.IsAbs(dir) || !strings.Contains(dir, "/.muster-push.") {
		return "", "", fmt.Errorf("%s named a folder that cannot be used: %.200q", host, dir)
	}
	arch := map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[lines[1]]
	if lines[0] != "Linux" || arch == "" {
		return "", "", errors.Join(fmt.Errorf("%s is %s %s; there are agents for Linux on amd64 and arm64", host, lines[0], lines[1]), p.clean(host, dir))
	}
	return "linux-" + arch, dir, nil
}

// copy hands the agent to scp from a file of its own, since scp reads files only.
func (p *push) copy(ctx context.Context, host, platform, dir string) error {
	file, err := p.agentFile(platform)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	args := append([]string{"-q"}, p.ssh...)
	if p.port != "" {
		args = append(args, "-P", p.port)
	}
	command := exec.CommandContext(ctx, "scp", append(args, "--", file, bracketed(host)+":"+dir+"/muster-agent")...)
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	command.WaitDelay = 2 * time.Second
	if err := command.Run(); err != nil {
		return fmt.Errorf("copy the agent to %s: %s", host, reason(ctx, err, said.String()))
	}
	return nil
}

func (p *push) agentFile(platform string) (string, error) {
	if p.Agents == nil {
		return "", errors.New("this program carries no agents")
	}
	body, err := fs.ReadFile(p.Agents, platform+"/muster-agent")
	if err != nil {
		return "", fmt.Errorf("this program carries no agent for %s; build it with: make build", platform)
	}
	file, err := os.CreateTemp("", "muster-agent-")
	if err != nil {
		return "", err
	}
	_, err = file.Write(body)
	if err = errors.Join(err, file.Chmod(0o700), file.Close()); err != nil {
		os.Remove(file.Name())
		return "", err
	}
	return file.Name(), nil
}

// joinBox runs the agent's join with the token on its standard input, and shows what it says as it says it.
func (p *push) joinBox(ctx context.Context, host, dir, token string, out io.Writer) error {
	words := []string{dir + "/muster-agent", "join", "--gateway", p.gateway.URL, "--root-pin", p.gateway.RootPin, "--token-file", "-"}
	for i, word := range append(words, p.join...) {
		if i == 0 {
			words = words[:0:0]
		}
		words = append(words, quote(word))
	}
	script := strings.Join(words, " ") + "; code=$?; rm -rf " + quote(dir) + "; exit $code"
	_, err := p.remote(ctx, host, script, strings.NewReader(token+"\n"), out)
	return err
}

func (p *push) clean(host, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := p.remote(ctx, host, "rm -rf "+quote(dir), nil, nil)
	if err != nil {
		return fmt.Errorf("%s on %s may still be there", dir, host)
	}
	return nil
}

// remote runs a script on the box. What it prints goes to out as it comes, or is returned.
func (p *push) remote(ctx context.Context, host, script string, stdin io.Reader, out io.Writer) (string, error) {
	args := slices.Clone(p.ssh)
	if p.port != "" {
		args = append(args, "-p", p.port)
	}
	command := exec.CommandContext(ctx, "ssh", append(args, "-T", "--", host, "exec /bin/sh -c "+quote(script))...)
	var said, errs bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = stdin, &said, &errs
	if out != nil {
		command.Stdout, command.Stderr = io.MultiWriter(out, &said), io.MultiWriter(out, &errs)
	}
	command.WaitDelay = 2 * time.Second
	if err := command.Run(); err != nil {
		return said.String(), fmt.Errorf("%s: %s", host, reason(ctx, err, said.String()+errs.String()))
	}
	return said.String(), nil
}

// reason is why a program failed: the time was up, else its last words.
func reason(ctx context.Context, err error, said string) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "no end within the time; --timeout allows more"
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	last := strings.TrimSpace(strings.Join(lines[max(0, len(lines)-pushTail):], "; "))
	if last == "" {
		return err.Error()
	}
	return last
}

// summary says for several boxes which joined, and fails when one did not.
func (p *push) summary(results []error) error {
	joined := 0
	for i, err := range results {
		if err == nil {
			joined++
			continue
		}
		report(p.Stderr, err.Error(), "try again with the same command; ssh "+p.args[i]+" shows what the box says of itself")
	}
	if !p.single {
		fmt.Fprintf(p.Stdout, "%s: %d joined, %d failed\n", plural(len(results), "box"), joined, len(results)-joined)
	}
	if joined < len(results) {
		return errReported
	}
	return nil
}

// quote makes one word of a POSIX shell command line.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// bracketed is a host as scp takes it: an IPv6 address needs brackets before the colon.
func bracketed(host string) string {
	user, address, ok := strings.Cut(host, "@")
	if !ok {
		user, address = "", host
	}
	if strings.Count(address, ":") < 2 || strings.HasPrefix(address, "[") {
		return host
	}
	if ok {
		return user + "@[" + address + "]"
	}
	return "[" + address + "]"
}

// screen is where several boxes print, each line whole and behind its box's name.
type screen struct {
	mu sync.Mutex
	to io.Writer
}

func (s *screen) of(host string, single bool) io.Writer {
	w := &boxWriter{screen: s}
	if !single {
		w.prefix = host + ": "
	}
	return w
}

type boxWriter struct {
	*screen
	prefix string
	rest   []byte
}

func (w *boxWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		at := bytes.IndexByte(w.rest, '\n')
		if at < 0 {
			return len(p), nil
		}
		fmt.Fprintf(w.to, "%s%s\n", w.prefix, printable(strings.TrimRight(string(w.rest[:at]), "\r")))
		w.rest = w.rest[at+1:]
	}
}
