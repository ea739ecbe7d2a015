package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"muster/agent/sign"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
)

// sshScript stands in for ssh: it notes its arguments and runs the remote command in the box's own folder, if nothing
// is on PATH but what the box has.
const sshScript = `#!/bin/sh
{ echo ssh; for a; do printf '%s\n' "$a"; done; env | grep ^MUSTER_; echo; } >>"$BOXES/argv"
while [ "$1" != -- ]; do shift; done
box=$BOXES/$(printf %s "${2##*@}" | tr : _)
[ -d "$box" ] || { echo "ssh: Could not resolve hostname ${2##*@}" >&2; exit 255; }
if [ -e "$box/refused" ]; then cat "$box/refused" >&2; exit 255; fi
[ ! -e "$box/motd" ] || cat "$box/motd"
cd "$box" && HOME=$box/home PATH=$box/bin exec sh -c "$3"
`

// agentScript stands in for the agent: it notes how it was called and what it read, and says steps.
const agentScript = `#!/bin/sh
{ printf '%s\n' "$@"; } >"$HOME/joined"
cat >"$HOME/token"
[ ! -p "$HOME/wait" ] || read x <"$HOME/wait"
[ ! -p "$HOME/wake" ] || echo x >"$HOME/wake"
echo "[1/2] enrolled"
if [ -e "$HOME/broken" ]; then echo "[2/2] failed: no GPU here: the driver is missing"; echo "not joined: as said there" >&2; exit 1; fi
printf '[2/2] online'
`

// boxes are a gateway and machines that are reached through a stand-in for ssh.
type boxes struct {
	*house
	folder string
	agents fs.FS
}

func newBoxes(t *testing.T) *boxes {
	h := newHouse(t)
	h.api.Gateway = api.Gateway{URL: "https://gw.example", RootPin: "sha256:0a"}
	h.dir = h.listen()
	b := &boxes{house: h, folder: t.TempDir(), agents: fstest.MapFS{"linux-amd64/muster-agent": {Data: []byte(agentScript)}}}
	tools := filepath.Join(b.folder, "tools")
	if err := os.Mkdir(tools, 0o700); err != nil {
		t.Fatal(err)
	}
	b.write(filepath.Join(tools, "ssh"), sshScript)
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	t.Setenv("BOXES", b.folder)
	t.Setenv("TMPDIR", t.TempDir()) // which nobody else uses meanwhile
	return b
}

// write makes a file anew, inside the test's own folder only: never through a link.
func (b *boxes) write(path, text string) {
	b.t.Helper()
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(path, []byte(text), 0o700)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// box makes a machine that has a few of the POSIX tools and no others.
func (b *boxes) box(name string) (home string) {
	b.t.Helper()
	bin := filepath.Join(b.folder, name, "bin")
	home = filepath.Join(b.folder, name, "home")
	for _, dir := range []string{bin, home} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, tool := range []string{"mktemp", "chmod", "rm", "cat", "sh"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			b.t.Fatal(err)
		}
		b.write(filepath.Join(bin, tool), "#!/bin/sh\nexec "+path+" \"$@\"\n")
	}
	b.write(filepath.Join(bin, "uname"), "#!/bin/sh\n[ \"$1\" = -s ] && echo Linux || echo x86_64\n")
	return home
}

func (b *boxes) push(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	return b.pushUntil(b.t.Context(), args...)
}

// pushUntil is push for a person who leaves when ctx ends.
func (b *boxes) pushUntil(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(ctx, cli.Env{Args: append([]string{"--data", b.dir, "push"}, args...),
		Getenv: func(name string) string { return b.env[name] },
		Stdin:  strings.NewReader(""), Stdout: &out, Stderr: &errs, Agents: b.agents}, commands.All())
	return code, out.String(), errs.String()
}

func (b *boxes) read(elements ...string) string {
	b.t.Helper()
	raw, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(raw)
}

// left fails the test when the push left anything on the box beside what the agent itself wrote.
func (b *boxes) left(home string) {
	b.t.Helper()
	onBox := func() []string {
		found, _ := filepath.Glob(filepath.Join(home, ".muster-push.*"))
		return found
	}
	for deadline := time.Now().Add(10 * time.Second); len(onBox()) > 0; { // the box cleans up by itself if it is cut off
		if <-time.After(10 * time.Millisecond); time.Now().After(deadline) {
			b.t.Fatalf("left on the box: %s", onBox())
		}
	}
	if found, _ := filepath.Glob(filepath.Join(os.TempDir(), "muster-push-*")); len(found) > 0 {
		b.t.Errorf("left here: %s", found)
	}
}

func (b *boxes) liveTokens() int {
	b.t.Helper()
	return strings.Count(b.done("token", "ls", "-o", "json"), `"id"`)
}

func TestPush(t *testing.T) {
	b := newBoxes(t)
	home := b.box("gpu-1")
	b.write(filepath.Join(b.folder, "gpu-1", "motd"), "Welcome!\nHave a lot of fun.\n")
	t.Setenv("MUSTER_API_TOKEN", "msa_x_secret")
	key := filepath.Join(t.TempDir(), "key")
	b.write(key, "")
	code, out, errs := b.push("ubuntu@gpu-1", "-p", "39467", "-i", key, "--tenant", "platform", "--label", "rack=7", "--label", "tier=spot",
		"--gpus", "8",
		"--name", "gpu-7", "--provider", "vast_ai", "--instance-id", "it's")
	if code != 0 || errs != "" || !strings.HasPrefix(out, "linux-amd64: reached") ||
		!strings.HasSuffix(out, "[1/2] enrolled\n[2/2] online\n") {
		t.Fatalf("code %d\n%s\n%s", code, out, errs)
	}
	want := "join\n--gateway\nhttps://gw.example\n--root-pin\nsha256:0a\n" +
		"--provider\nvast_ai\n--instance-id\nit's\n--name\ngpu-7\n--token-file\n-\n"
	if got := b.read(home, "joined"); got != want {
		t.Errorf("the agent was called with %q, want %q", got, want)
	}
	token, err := sign.ParseToken(strings.TrimSpace(b.read(home, "token")))
	if err != nil || token.Kind != sign.EnrollmentToken {
		t.Fatalf("the agent read %v, %v", token, err)
	}
	argv := b.read(b.folder, "argv")
	if strings.Contains(argv, token.Secret) || strings.Contains(argv, "MUSTER_") {
		t.Errorf("a secret is in the arguments or the environment:\n%s", argv)
	}
	for _, want := range []string{"\n-p\n39467\n", "\n-i\n" + key + "\n", "\n--\nubuntu@gpu-1\n", "\nForwardAgent=no\n"} {
		if !strings.Contains(argv, want) {
			t.Errorf("the arguments lack %q:\n%s", want, argv)
		}
	}
	if strings.Contains(argv, "BatchMode") || strings.Contains(argv, "StrictHostKeyChecking") ||
		strings.Contains(argv, "UserKnownHostsFile") {
		t.Errorf("ssh's own ways were changed:\n%s", argv)
	}
	b.left(home)
	list := b.done("token", "ls", "--all", "-o", "json")
	for _, want := range []string{`"tenant":"platform"`, `"uses":1`, `"gpus":8`, `"node":"gpu-7"`, `"rack":"7"`, `"tier":"spot"`} {
		if !strings.Contains(list, want) {
			t.Errorf("the token lacks %s: %s", want, list)
		}
	}
	if n := b.liveTokens(); n != 0 {
		t.Errorf("%d tokens are still good after a join that spent none", n)
	}
}

// TestPushFolder has a home whose file system runs no programs: chmod does nothing there.
func TestPushFolder(t *testing.T) {
	b := newBoxes(t)
	home := b.box("gpu-1")
	chmod := filepath.Join(b.folder, "gpu-1", "bin", "chmod")
	real, err := exec.LookPath("chmod")
	if err != nil {
		t.Fatal(err)
	}
	b.write(chmod, "#!/bin/sh\ncase $2 in "+home+"/*) exit 0 ;; esac\nexec "+real+" \"$@\"\n")
	code, out, errs := b.push("gpu-1")
	if code != 0 || !strings.Contains(out, "copying the agent to /var/tmp/.muster-push.") &&
		!strings.Contains(out, "copying the agent to /tmp/.muster-push.") {
		t.Fatalf("code %d\n%s\n%s", code, out, errs)
	}
	_, dir, _ := strings.Cut(strings.SplitN(out, "\n", 2)[0], "the agent to ")
	if _, err := os.Stat(dir); err == nil || dir == "" {
		t.Errorf("%s is still there", dir)
	}
	b.left(home)
	b.write(chmod, "#!/bin/sh\nexit 0\n")
	if code, _, errs := b.push("gpu-1"); code != 1 || !strings.Contains(errs, "no folder here that this user may write to and run "+
		"programs from") {
		t.Errorf("no folder at all: code %d, %s", code, errs)
	}
	b.left(home)
}

const changedKey = `@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
Offending ED25519 key in /home/me/.ssh/known_hosts:7
Host key verification failed.
`

func TestPushFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(b *boxes, box string)
		host  string
		says  []string
		shown bool // the agent's own words, as they came
	}{
		{name: "host key", set: func(b *boxes, box string) { b.write(filepath.Join(box, "refused"), changedKey) },
			says: []string{"HAS CHANGED", "known_hosts:7", "gpu-1: Host key verification failed", "compare the key", "forget its old key"}},
		{name: "unknown host key", set: func(b *boxes, box string) {
			b.write(filepath.Join(box, "refused"), "Host key verification failed.\n")
		},
			says: []string{"gpu-1: Host key verification failed", "compare the key", "accept it by connecting once"}},
		{name: "no key", set: func(b *boxes, box string) {
			b.write(filepath.Join(box, "refused"), "gpu-1: Permission denied (publickey).\n")
		},
			says: []string{"Permission denied (publickey)", "-i FILE"}},
		{name: "no such host", host: "elsewhere", says: []string{"Could not resolve hostname elsewhere", "check the address"}},
		{name: "another system", set: func(b *boxes, box string) {
			b.write(filepath.Join(box, "bin", "uname"), "#!/bin/sh\n[ \"$1\" = -s ] && echo Darwin || echo arm64\n")
		},
			says: []string{"it is Darwin on arm64; there are agents for Linux"}},
		{name: "no agent for it", set: func(b *boxes, box string) {
			b.write(filepath.Join(box, "bin", "uname"), "#!/bin/sh\n[ \"$1\" = -s ] && echo Linux || echo aarch64\n")
		},
			says: []string{"carries no agent for linux-arm64", "make build"}},
		{name: "no agents at all", set: func(b *boxes, _ string) { b.agents = nil }, says: []string{"carries no agents"}},
		{name: "disk full", set: func(b *boxes, box string) {
			b.write(filepath.Join(box, "bin", "cat"), "#!/bin/sh\necho 'cat: write error: No space left on device' >&2\nexit 1\n")
		},
			says: []string{"could not be copied: cat: write error: No space left", "10 MB"}},
		{name: "join fails", set: func(b *boxes, box string) { b.write(filepath.Join(box, "home", "broken"), "") },
			says: []string{"muster: gpu-1: [2/2] failed: no GPU here: the driver is missing", "may be given again"}, shown: true},
		{name: "no tool", set: func(b *boxes, box string) {
			if err := os.Remove(filepath.Join(box, "bin", "mktemp")); err != nil {
				b.t.Fatal(err)
			}
		}, says: []string{"gpu-1: this machine lacks mktemp, which joining needs: install coreutils"}},
		{name: "no folder", set: func(b *boxes, box string) {
			b.write(filepath.Join(box, "bin", "mktemp"), "#!/bin/sh\nexit 1\n")
		}, says: []string{"no folder here"}},
		{name: "a folder that is a command", set: func(b *boxes, box string) {
			b.write(filepath.Join(box, "bin", "mktemp"),
				"#!/bin/sh\nmkdir -p '"+box+"/.muster-push.x$(reboot)'; echo '"+box+"/.muster-push.x$(reboot)'\n")
			b.write(filepath.Join(box, "bin", "mkdir"), "#!/bin/sh\nexec /bin/mkdir \"$@\"\n")
		}, says: []string{"named a folder that cannot be used"}},
		{name: "says nothing", set: func(b *boxes, box string) {
			b.write(filepath.Join(box, "bin", "mktemp"), "#!/bin/sh\nkill -9 $PPID\n")
		}, says: []string{"signal: killed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBoxes(t)
			home := b.box("gpu-1")
			if c.set != nil {
				c.set(b, filepath.Join(b.folder, "gpu-1"))
			}
			if c.host == "" {
				c.host = "gpu-1"
			}
			code, out, errs := b.push(c.host)
			if code != 1 || strings.Contains(out, "no GPU here") != c.shown {
				t.Errorf("code %d\n%s\n%s", code, out, errs)
			}
			for _, want := range c.says {
				if !strings.Contains(errs, want) {
					t.Errorf("it does not say %q:\n%s", want, errs)
				}
			}
			if n := b.liveTokens(); n != 0 {
				t.Errorf("%d tokens are still good", n)
			}
			b.left(home)
		})
	}
}

func TestPushInterrupted(t *testing.T) {
	b := newBoxes(t)
	b.box("gpu-1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _, errs := b.pushUntil(ctx, "gpu-1"); code != 1 || !strings.Contains(errs, "interrupted") {
		t.Errorf("code %d, %s", code, errs)
	}
}

// TestPushSeveral joins two machines that wait for each other, so that it ends only if both are joined at the same time.
func TestPushSeveral(t *testing.T) {
	b := newBoxes(t)
	first := b.box("gpu-1")
	second := b.box("fd00__7")
	b.write(filepath.Join(b.box("gpu-3"), "broken"), "")
	meet := filepath.Join(first, "wait")
	if err := syscall.Mkfifo(meet, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(meet, filepath.Join(second, "wake")); err != nil {
		t.Fatal(err)
	}
	code, out, errs := b.push("root@gpu-1", "root@[fd00::7]", "gpu-3", "elsewhere", "--timeout", "30s")
	if code != 1 || !strings.HasSuffix(out, "\n4 machines: 2 joined, 2 failed\n") {
		t.Fatalf("code %d\n%s\n%s", code, out, errs)
	}
	for _, want := range []string{"root@gpu-1: [2/2] online\n", "root@[fd00::7]: [1/2] enrolled\n",
		"gpu-3: [2/2] failed: no GPU here: the driver is missing\ngpu-3: not joined: as said there\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no line %q:\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "muster: gpu-3: [2/2] failed: no GPU") ||
		!strings.Contains(errs, "muster: elsewhere: ssh: Could not resolve") || strings.Contains(errs, "muster: root@") {
		t.Errorf("failures:\n%s", errs)
	}
	argv := b.read(b.folder, "argv")
	for _, want := range []string{"\n--\nroot@fd00::7\n", "\nexec /bin/sh -c 'cat >'\\''" + second + "/.muster-push.", "\nBatchMode=yes\n"} {
		if !strings.Contains(argv, want) {
			t.Errorf("the arguments lack %q:\n%s", want, argv)
		}
	}
	a := b.read(first, "token")
	if c := b.read(second, "token"); a == c {
		t.Error("two machines got one token")
	}
	if n := b.liveTokens(); n != 0 {
		t.Errorf("%d tokens are still good", n)
	}
}

func TestPushUsage(t *testing.T) {
	b := newBoxes(t)
	b.box("gpu-1")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no host", nil, 2, "which machines?"},
		{"empty", []string{""}, 2, "is empty"},
		{"an option", []string{"--", "-oProxyCommand=reboot"}, 2, "is no host"},
		{"an option after the user", []string{"root@-oProxyCommand=reboot"}, 2, "is no host"},
		{"a user that is an option", []string{"--", "-x@gpu-1"}, 2, "is no host"},
		{"no address", []string{"root@"}, 2, "is no host"},
		{"no user", []string{"@gpu-1"}, 2, "is no host"},
		{"a command", []string{"gpu-1;reboot"}, 2, "is no host"},
		{"a substitution", []string{"$(reboot)"}, 2, "is no host"},
		{"blanks", []string{"gpu-1 reboot"}, 2, "is no host"},
		{"a line feed", []string{"gpu-1\nreboot"}, 2, "is no host"},
		{"a path", []string{"ssh://gpu-1"}, 2, "is no host"},
		{"no port", []string{"203.0.113.7:"}, 2, "has no port from 1 to 65535"},
		{"a port that is none", []string{"203.0.113.7:ssh"}, 2, "has no port from 1 to 65535"},
		{"no name", []string{"gpu-1="}, 2, "is not a node's name"},
		{"a bad name", []string{"gpu-1=it's"}, 2, "is not a node's name"},
		{"a bad name of one", []string{"gpu-1", "--name", "it's"}, 1, "is not a node's name"},
		{"a name twice", []string{"gpu-1=a", "gpu-2=a"}, 2, "the name \"a\" stands twice"},
		{"two names for one", []string{"gpu-1=a", "--name", "b"}, 2, "leave one of them out"},
		{"a host by two ports twice", []string{"gpu-1:22", "gpu-1:23", "gpu-1:22"}, 2, "stands twice"},
		{"no file", []string{"--hosts", "/nonexistent/hosts"}, 1, "no such file"},
		{"twice", []string{"gpu-1", "gpu-1"}, 2, "stands twice"},
		{"a name for two", []string{"gpu-1", "gpu-2", "--name", "x"}, 2, "--name is for one machine"},
		{"bad port", []string{"gpu-1", "-p", "ssh"}, 2, "whole number"},
		{"bad timeout", []string{"gpu-1", "--timeout", "soon"}, 2, "no duration"},
		{"bad label", []string{"gpu-1", "--label", "x"}, 2, "is no label"},
		{"bad gpus", []string{"gpu-1", "--gpus", "many"}, 2, "whole number"},
		{"bad gateway", []string{"gpu-1", "--gateway", "gw"}, 2, "is no URL"},
		{"no key file", []string{"gpu-1", "-i", "/nonexistent/key"}, 1, "no such file"},
		{"bad tenant", []string{"gpu-1", "--tenant", "a b"}, 1, "hint: "},
	} {
		code, _, errs := b.push(c.args...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: code %d, %s", c.name, code, errs)
		}
	}
	raw, err := os.ReadFile(filepath.Join(b.folder, "argv"))
	if strings.Contains(string(raw), "reboot") {
		t.Errorf("ssh was called with it: %s, %v", raw, err)
	}
	b.env = map[string]string{"MUSTER_GATEWAY": "https://10.0.0.5:7443"}
	if code, _, errs := b.push("gpu-1", "--force"); code != 0 ||
		!strings.Contains(b.read(b.folder, "gpu-1", "home", "joined"), "\nhttps://10.0.0.5:7443\n--force\n") {
		t.Errorf("another URL: code %d, %s", code, errs)
	}
	b.env = map[string]string{"MUSTER_FORCE": "perhaps"}
	if code, _, errs := b.push("gpu-1"); code != 2 || !strings.Contains(errs, "MUSTER_FORCE") {
		t.Errorf("bad force: code %d, %s", code, errs)
	}
	b.env = nil
	t.Setenv("PATH", t.TempDir())
	if code, _, errs := b.push("gpu-1"); code != 1 || !strings.Contains(errs, "install openssh-client") {
		t.Errorf("no ssh: code %d, %s", code, errs)
	}
}

func TestPushToLoopback(t *testing.T) {
	b := newBoxes(t)
	b.box("gpu-1")
	b.api.Gateway.URL = "https://127.0.0.1:7443"
	b.dir = b.listen()
	if code, _, errs := b.push("gpu-1"); code != 0 || !strings.Contains(errs, "--gateway URL") {
		t.Errorf("code %d, %s", code, errs)
	}
	b.dir = t.TempDir()
	if code, _, errs := b.push("gpu-1"); code != 1 || !strings.Contains(errs, "muster serve --data") {
		t.Errorf("no gateway: code %d, %s", code, errs)
	}
}
