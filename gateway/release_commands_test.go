package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/gateway/api"
	keys "muster/gateway/api/trust"
)

// terminal is a gateway, a real agent that updates itself, and the built muster as a process of its own for each command.
type terminal struct {
	*house
	folder string // for files
}

// does runs a command that must end so, and gives what it printed.
func (c terminal) does(code int, args ...string) string {
	c.t.Helper()
	return c.given("", code, args...)
}

// given is does with something on standard input.
func (c terminal) given(stdin string, code int, args ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 4*time.Minute)
	defer cancel()
	q := exec.CommandContext(ctx, os.Args[0], args...)
	q.Env = append(cleanEnv(), asGateway+"=1", "MUSTER_DATA="+c.data)
	q.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	q.Stdout = &out
	q.Stderr = &errs
	_ = q.Run()
	if q.ProcessState == nil || q.ProcessState.ExitCode() != code {
		c.t.Fatalf("muster %s: %v, want exit %d\n%s%s", strings.Join(args, " "), q.ProcessState, code, out.String(), errs.String())
	}
	return out.String() + errs.String()
}

// says wants a command to succeed and to print a text.
func (c terminal) says(want string, args ...string) {
	c.t.Helper()
	if out := c.does(exitDone, args...); !strings.Contains(out, want) {
		c.t.Errorf("muster %s does not say %q:\n%s", strings.Join(args, " "), want, out)
	}
}

func (c terminal) channelNow() api.Channel {
	c.t.Helper()
	var now api.Channel
	if err := json.Unmarshal([]byte(c.does(exitDone, "release", "status", "--channel", "stable", "-o", "json")), &now); err != nil {
		c.t.Fatal(err)
	}
	return now
}

// channelIs wants the channel stable in a state, at a version.
func (c terminal) channelIs(state, version string) api.Channel {
	c.t.Helper()
	now := c.channelNow()
	if now.State != state || now.Version != version {
		c.t.Errorf("the channel is %s at %s, want %s at %s: %s", now.State, now.Version, state, version, now.Why)
	}
	return now
}

// keepRunning runs an installed agent as a service does: it starts it again whenever it ends, and lets the last good version check first.
// kill ends the agent that runs now, as a crash does.
func (c terminal) keepRunning(name, token string) (kill func()) {
	base := filepath.Join(c.data, "agent-"+name)
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	var log bytes.Buffer
	var now atomic.Pointer[os.Process]
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			q := exec.CommandContext(ctx, filepath.Join(base, "current", "muster-agent"), "run", "--gateway", c.url, "--name", name,
				"--state", base, "--interval", "200ms", "--no-gpu")
			q.Env = append(cleanEnv(), "MUSTER_TOKEN="+token)
			q.Stdout = &log
			q.Stderr = &log
			q.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if q.Start() == nil {
				now.Store(q.Process)
				_ = q.Wait()
			}
		}
	}()
	c.t.Cleanup(func() {
		stop()
		<-over
		if c.t.Failed() {
			c.t.Logf("--- agent %s\n%s", name, log.String())
		}
	})
	return func() {
		var agent int // an update has made the agent's keeper of the process: the agent is the child of one of its threads
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", now.Load().Pid))
		for _, thread := range threads {
			if children, err := os.ReadFile(thread); err == nil {
				_, _ = fmt.Sscan(string(children), &agent)
			}
		}
		if agent == 0 {
			c.t.Fatal("the keeper has no agent")
		}
		_ = syscall.Kill(agent, syscall.SIGKILL)
	}
}

// TestReleaseCommands: every command about releases, run as the program that an operator runs, against a gateway and an agent that are
// processes too.
func TestReleaseCommands(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(agentBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	c := terminal{newHouse(t), t.TempDir()}
	build := func(version string, content []byte) {
		file := filepath.Join(c.folder, "agent-"+version)
		if err := os.WriteFile(file, content, 0o700); err != nil {
			t.Fatal(err)
		}
		c.does(exitDone, "release", "push", "linux/"+runtime.GOARCH+"="+file, "--version", version)
	}
	c.installed("desk", program)
	kill := c.keepRunning("desk", c.token())
	c.until("online", func() bool { return c.online("desk") })
	build("1.0.0", program)
	build("2.0.0", append(bytes.Clone(program), '2')) // another digest, and the program is the same
	build("3.0.0", append(bytes.Clone(program), '3'))

	c.says("1 of 1 node on it", "release", "promote", "1.0.0", "--now", "--yes", "--watch")
	first := c.channelIs("done", "1.0.0")
	c.says("node pinned", "release", "pin", "desk", "--yes")
	c.says("as it is", "release", "pins")
	c.says("1 pinned", "release", "promote", "2.0.0", "--yes", "--watch")
	c.channelIs("done", "2.0.0") // nobody is to get it
	c.says("Rollback of the channel stable: from 2.0.0 (", "release", "rollback", "--yes", "--watch")
	c.says("1 node on the channel again", "release", "unpin", "desk", "--yes")
	c.says("None of them was pinned", "release", "unpin", "desk", "--yes")
	if out := c.does(exitDone, "release", "pins"); strings.Contains(out, "desk") {
		t.Errorf("still pinned:\n%s", out)
	}
	if now := c.channelIs("done", "1.0.0"); now.Sequence <= first.Sequence {
		t.Errorf("the number is %d after %d", now.Sequence, first.Sequence)
	}
	c.does(exitFailed, "release", "pause") // what has ended is not paused

	c.crashed(kill)
	c.signed()
	c.steered()
	c.kept()
}

// crashed has the agent end by itself after it took a release: the channel goes back without a person, and the node with it.
func (c terminal) crashed(kill func()) {
	c.t.Helper()
	c.says("1 of 1 node on it", "release", "promote", "2.0.0", "--now", "--go-back", "--yes", "--watch")
	c.channelIs("done", "2.0.0")
	kill()
	c.until("the channel has gone back", func() bool {
		return strings.Contains(c.does(exitDone, "release", "status"), "1 of 1 node on it") && c.channelNow().State == "taken_back"
	})
	if now := c.channelIs("taken_back", "1.0.0"); !strings.Contains(now.Why, "desk (since then its agent ended by itself (1)") {
		c.t.Errorf("nobody says why: %s", now.Why)
	}
	c.says("desk", "audit", "--kind", "release.unwell")
	c.until("a person is told", func() bool { return strings.Contains(c.does(exitDone, "alert", "ls"), "rollout_halted") })
}

// signed promotes with a key that the gateway does not have: made on the spot, and on a machine without a network. The node takes the
// release by it.
func (c terminal) signed() {
	c.t.Helper()
	key := filepath.Join(c.folder, "release.key")
	c.does(exitDone, "key", "generate", key)
	c.does(exitDone, "key", "add", "--release", key+".pub")
	payload := filepath.Join(c.folder, "payload.json")
	envelope := filepath.Join(c.folder, "signed.json")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	write(payload, c.does(exitDone, "release", "sign", "--channel", "stable", "--digest", "2.0.0"))
	signing := exec.Command(os.Args[0], "release", "sign", "--key", key, payload) // no data directory: it reaches no gateway
	signing.Env = append(cleanEnv(), asGateway+"=1", "MUSTER_DATA="+c.folder)
	text, err := signing.Output()
	if err != nil {
		c.t.Fatalf("sign offline: %v", err)
	}
	write(envelope, string(text))
	c.does(exitFailed, "release", "promote", "3.0.0", "--pointer", envelope, "--yes") // it names another release
	out := c.does(exitDone, "release", "promote", "2.0.0", "--pointer", envelope, "--now", "--yes", "--watch")
	if !strings.Contains(out, "1 of 1 node on it") {
		c.t.Errorf("the node does not take what the operator signed:\n%s", out)
	}
	if now := c.channelIs("done", "2.0.0"); now.SignedBy != c.operatorsKey() {
		c.t.Errorf("the pointer is signed by %s, and the operator's key is %s", now.SignedBy, c.operatorsKey())
	}
	c.does(exitFailed, "release", "drop", "2.0.0", "--yes") // the channel needs it
	c.does(exitUsage, "release", "promote", "3.0.0", "--key", key, "--pointer", envelope, "--yes")
	c.does(exitDone, "release", "pin", "desk", "--digest", "2.0.0", "--key", key, "--yes")
	c.says("2.0.0", "release", "pins")
	c.does(exitDone, "release", "unpin", "desk", "--key", key, "--yes")
}

// operatorsKey is the id of the release key that the gateway does not have.
func (c terminal) operatorsKey() string {
	c.t.Helper()
	var list struct{ Keys []keys.Key }
	if err := json.Unmarshal([]byte(c.does(exitDone, "key", "ls", "-o", "json")), &list); err != nil {
		c.t.Fatal(err)
	}
	for _, k := range list.Keys {
		if k.Role == "release" && !k.Online {
			return k.ID
		}
	}
	c.t.Fatal("the operator's key is not listed")
	return ""
}

// steered pauses a rollout, goes on with it, and aborts it. The node stays on the release before: its maintenance window is closed all the
// while, so the rollout is not done before the last command.
func (c terminal) steered() {
	c.t.Helper()
	later := time.Now().UTC().Add(12 * time.Hour)
	c.does(exitDone, "node", "label", "desk", "maintenance-window="+later.Format("15:04")+"-"+later.Add(time.Hour).Format("15:04"))
	c.does(exitDone, "release", "promote", "3.0.0", "--yes")
	c.says("Rollout paused", "release", "pause")
	c.channelIs("paused", "3.0.0")
	c.says("was paused already: nothing was changed", "release", "pause")
	c.says("Rollout running", "release", "resume")
	c.says("was running already: nothing was changed", "release", "resume")
	c.says("runs already with these waves: nothing was changed", "release", "promote", "3.0.0", "--yes")
	c.says("Note: this ended the rollout of 3.0.0, which was running in wave 1 of 2", "release", "promote", "3.0.0", "--yes", "--soak", "5m")
	c.channelIs("running", "3.0.0")
	c.says("Rollout aborted", "release", "abort", "--yes")
	c.channelIs("aborted", "2.0.0")
	c.does(exitFailed, "release", "status", "--channel", "stable", "--watch") // a rollout that was aborted did not end well
	c.does(exitFailed, "release", "rollback", "--yes")
}

// kept keeps a credential and drops it; and drops a release that nobody needs.
func (c terminal) kept() {
	c.t.Helper()
	const password = "pass-word-of-the-robot"
	if out := c.given(password+"\n", exitDone, "release", "login", "ghcr", "ghcr.io", "--username", "robot"); strings.Contains(out, password) {
		c.t.Error("the password is printed")
	}
	if out := c.does(exitDone, "release", "logins"); !strings.Contains(out, "robot") || strings.Contains(out, password) {
		c.t.Errorf("the credentials are\n%s", out)
	}
	c.does(exitUsage, "release", "logout", "ghcr") // nobody to ask
	c.does(exitDone, "release", "logout", "ghcr", "--yes")
	c.does(exitFailed, "release", "logout", "ghcr", "--yes")
	c.does(exitDone, "release", "drop", "3.0.0", "--yes")
	c.does(exitFailed, "release", "show", "3.0.0")
	if out := c.does(exitDone, "events"); strings.Contains(out, password) {
		c.t.Error("the password is in the log")
	}
}
