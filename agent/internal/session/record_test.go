package session_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"muster/agent/internal/host"
	"muster/agent/internal/session"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// leaving starts programs of many kinds, and says their numbers: one in a group of its own, one that bears no mark of its session, a daemon
// with a session of its own, itself.
const leaving = `trap '' HUP TERM; timeout 600 sleep 600 & a=$!; env -i sleep 600 & b=$!; setsid sleep 600 & c=$!; echo $a $b $c $$ ok; wait`

// TestKilledAgent: what runs in a session ends with an agent that is killed, or with the next agent at the latest. A daemon, which is in no
// session any more, runs on. The agent is this test in another process.
func TestKilledAgent(t *testing.T) {
	t.Parallel()
	if state := os.Getenv("SESSION_TEST_STATE"); state != "" {
		d := desked(t, state)
		for _, kind := range []string{wire.SessionShell, wire.SessionExec} {
			params, _ := json.Marshal(wire.ExecParams{Command: []string{"sh", "-c", leaving}})
			o := d.open(kind, string(params))
			o.ready()
			fmt.Println("pids", o.until("ok"))
		}
		select {}
	}
	state := t.TempDir()
	agent := exec.Command(os.Args[0], "-test.run=^TestKilledAgent$")
	agent.Env = append(os.Environ(), "SESSION_TEST_STATE="+state)
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	var pids, daemons []string
	for lines := bufio.NewScanner(out); len(daemons) < 2 && lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), "pids "); found {
			all := strings.Fields(rest)
			daemons = append(daemons, all[2])
			pids = append(pids, all[0], all[1], all[3])
		}
	}
	_ = agent.Process.Kill()
	_ = agent.Wait()
	for _, pid := range daemons {
		defer kill(t, pid)
	}
	if len(daemons) < 2 || slices.ContainsFunc(slices.Concat(pids[:2], pids[3:5]), dead) {
		t.Fatalf("%q and %q do not run after the agent was killed", pids, daemons)
	}
	gone(t, pids[5]) // what an exec has started itself
	desked(t, state)
	for _, pid := range pids {
		gone(t, pid)
	}
	forgotten(t, state)
	if slices.ContainsFunc(daemons, dead) {
		t.Error("a daemon was ended")
	}
}

// desked is a node whose agent has this state directory.
func desked(t *testing.T, state string) *desk {
	t.Helper()
	d := prepare(t)
	d.cfg.State = state
	d.begin(transport.Config{Gateway: gatewaytest.Listen(t, d.g, nil)})
	return d
}

// forgotten waits until there is no record any more.
func forgotten(t *testing.T, state string) {
	t.Helper()
	await(t, "a record stays", func() bool {
		names, err := os.ReadDir(filepath.Join(state, session.ProgramsFolder))
		return err == nil && len(names) == 0
	})
}

// sleeper is a process with a session of its own, that has nothing to do with the agent.
func sleeper(t *testing.T, environ ...string) (pid int, ticks string) {
	t.Helper()
	c := exec.Command("sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Env = append(os.Environ(), environ...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c.Process.Pid, host.ProcessOf(c.Process.Pid).Ticks
}

// TestStrangers: what got the number of an earlier program is no program of a session, and what cannot be read ends nothing.
func TestStrangers(t *testing.T) {
	state := t.TempDir()
	if err := os.Mkdir(filepath.Join(state, session.ProgramsFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	note := func(id, text string) {
		if err := os.WriteFile(filepath.Join(state, session.ProgramsFolder, id), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	boot := host.BootID()
	record := func(pid int, ticks, boot string) string {
		return fmt.Sprintf(`{"pid":%d,"start_ticks":%q,"boot_id":%q}`, pid, ticks, boot)
	}
	other := wire.NewSessionID()
	stranger, ticks := sleeper(t, wire.EnvSession+"="+other, wire.EnvSession+"X="+other)
	for _, text := range []string{
		record(stranger, "1", boot), record(stranger, "", boot), record(stranger, ticks, "another boot"), record(-1, "", boot),
		record(0, "", boot), record(1, "", boot), record(1<<30, "1", boot), "{", "", "null",
	} {
		note(wire.NewSessionID(), text)
	}
	note("odd", record(stranger, ticks, boot))
	elsewhere, _ := sleeper(t) // another session's mark: the number in its record is a stranger's
	note(other, record(elsewhere, "1", boot))
	known, its := sleeper(t)
	note(wire.NewSessionID(), record(known, its, boot))
	id := wire.NewSessionID()
	marked, _ := sleeper(t, wire.EnvSession+"="+id)
	note(id, record(marked, "", boot))
	desked(t, state)
	forgotten(t, state)
	for _, pid := range []int{stranger, elsewhere} {
		if dead(strconv.Itoa(pid)) {
			t.Error("a stranger was ended")
		}
	}
	for _, pid := range []int{known, marked} {
		gone(t, strconv.Itoa(pid))
	}
}

// TestRecords: a program has a record while it runs, and bears the mark of its session.
func TestRecords(t *testing.T) {
	state := t.TempDir()
	d := desked(t, state)
	o := d.open(wire.SessionExec, `{"command":["sh","-c","echo $MUSTER_SESSION ok; read line"]}`)
	o.ready()
	if said := o.until("ok"); !strings.HasPrefix(said, o.id+" ok") {
		t.Errorf("its mark is %q", said)
	}
	await(t, "there is no record", func() bool {
		_, err := os.Stat(filepath.Join(state, session.ProgramsFolder, o.id))
		return err == nil
	})
	o.send('e', "")
	o.exit()
	forgotten(t, state)
}
