package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/remote"
	"muster/gateway/internal/client"
)

const (
	benchKeys = 200       // keys in one measurement
	benchFile = 256 << 20 // bytes
	keyBudget = 20        // ms
	copyLeast = 0.5       // of scp
)

// sessions measures what an operator notices: how long a key takes to come back, and how fast a file goes.
func (m *bench) sessions(t *table) {
	g := m.serve(filepath.Join(m.dir, "sessions"))
	defer g.end()
	agent := m.child(nil, []string{"MUSTER_TOKEN=" + g.credential()}, m.idle.path, "run", "--gateway", g.url(), "--root-pin", g.rootPin(),
		"--state", filepath.Join(m.dir, "agent-sessions"), "--name", "measured", "--no-gpu", "--interval", idlePace.String())
	agent.start()
	defer agent.kill()
	g.does("node", "wait", "measured", "--timeout", "60s")
	m.keys(t, g)
	m.copies(t, g)
}

// rootPin is the pin of the gateway's root.
func (g *served) rootPin() string {
	g.Helper()
	about, err := client.Get[api.Gateway](g.Context(), g.operator(g), api.PathGateway, nil)
	g.must(err)
	return about.RootPin
}

// does runs a command on this gateway.
func (g *served) does(args ...string) {
	g.Helper()
	c := exec.Command(g.muster, append([]string{"--data", g.data}, args...)...)
	if out, err := c.CombinedOutput(); err != nil {
		g.Fatalf("muster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// keys measures the way of one byte to a program on the node and back, by turns with a plain request.
func (m *bench) keys(t *table, g *served) {
	c := m.operator(g)
	params, err := json.Marshal(wire.ExecParams{Command: []string{"cat"}})
	m.must(err)
	s, err := remote.Open(m.Context(), c, "measured", api.SessionAsk{Type: wire.SessionExec, Params: params})
	m.must(err)
	defer s.Leave()
	_, err = s.Begin()
	m.must(err)
	key := func() float64 { return m.typed(s) }
	plain := func() float64 { return m.asked(c) }
	key() // the first one opens connections
	p := inTurn(key, plain)
	t.bound("a key to a program on a node and back, median", " ms", median(p.ours), keyBudget,
		amount(median(p.theirs))+" ms a plain request of the operator", "the terminal itself: cat gives the byte back")
}

// typed is the median of some keys, in ms.
func (m *bench) typed(s *remote.Session) float64 {
	var all []float64
	for range benchKeys {
		all = append(all, millis(func() {
			m.must(s.Send(pipe.FrameInput, []byte("x")))
			kind, data, err := s.Next()
			if m.must(err); kind != pipe.FrameOutput || string(data) != "x" {
				m.Fatalf("%c %q", kind, data)
			}
		}))
	}
	return median(all)
}

func (m *bench) asked(c *client.Client) float64 {
	var all []float64
	for range benchKeys {
		all = append(all, millis(func() {
			_, err := client.Get[json.RawMessage](m.Context(), c, api.At(api.PathNode, "measured"), nil)
			m.must(err)
		}))
	}
	return median(all)
}

// copies measures muster node cp beside scp in both directions, by turns, from the start of the program to its end.
func (m *bench) copies(t *table, g *served) {
	file := filepath.Join(m.dir, "copied")
	m.must(os.WriteFile(file, make([]byte, benchFile), 0o600))
	here := filepath.Join(m.dir, "copy")
	scp, there, missing := m.scp()
	for _, way := range []struct{ figure, from, to string }{
		{"muster node cp, 256 MiB, from a node", "measured:", ""},
		{"muster node cp, 256 MiB, to a node", "", "measured:"},
	} {
		ours := func() float64 {
			defer os.Remove(here)
			return rate(func() { g.does("node", "cp", way.from+file, way.to+here) })
		}
		if missing != nil {
			t.notRun(way.figure+", beside scp", missing.Error())
			t.note(way.figure, amount(ours())+" MiB/s", "-", "")
			continue
		}
		theirs := func() float64 {
			defer os.Remove(here)
			return rate(func() {
				scp(strings.Replace(way.from, "measured:", there, 1)+file, strings.Replace(way.to, "measured:", there, 1)+here)
			})
		}
		t.compare(way.figure, " MiB/s", inTurn(ours, theirs), "scp", limit{least: copyLeast},
			"both programs start, and prove who they are, within the time; muster node cp also reads and checks the file's SHA-256 at both ends")
	}
}

func rate(copy func()) float64 {
	began := time.Now()
	copy()
	return benchFile / (1 << 20) / time.Since(began).Seconds()
}

// scp starts an sshd on loopback, for this user alone. It gives a call that copies, and what stands before a path there.
func (m *bench) scp() (copy func(from, to string), there string, missing error) {
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd, err = exec.LookPath("/usr/sbin/sshd")
	}
	if err != nil {
		return nil, "", fmt.Errorf("there is no sshd: apt-get install openssh-server openssh-client")
	}
	me, err := user.Current()
	m.must(err)
	privilegeFolder(m)
	dir := m.TempDir()
	for _, name := range []string{"host", "mine"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			return nil, "", fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	address := m.freeAddress()
	_, port, err := net.SplitHostPort(address)
	m.must(err)
	server := m.child(nil, nil, sshd, "-D", "-e", "-f", "/dev/null", "-p", port, "-h", filepath.Join(dir, "host"),
		"-o", "ListenAddress=127.0.0.1",
		"-o", "AuthorizedKeysFile="+filepath.Join(dir, "mine.pub"), "-o", "StrictModes=no", "-o", "PidFile=none", "-o", "UsePAM=no",
		"-o", "Subsystem=sftp internal-sftp")
	server.start()
	m.untilListens(server, address)
	args := []string{"-q", "-P", port, "-i", filepath.Join(dir, "mine"), "-F", "none", "-o", "StrictHostKeyChecking=no", "-o",
		"UserKnownHostsFile=/dev/null"}
	copy = func(from, to string) {
		if out, err := exec.Command("scp", append(slices.Clone(args), from, to)...).CombinedOutput(); err != nil {
			m.Fatalf("scp: %v\n%s\n%s", err, out, server.said())
		}
	}
	return copy, me.Username + "@127.0.0.1:", nil
}

func (m *bench) untilListens(c *child, address string) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), startLimit)
	defer cancel()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		if ctx.Err() != nil {
			m.Fatalf("nothing listens on %s\n%s", address, c.said())
		}
		time.Sleep(startPause)
	}
}

// privilegeFolder makes the folder that sshd wants where root starts it, for as long as the test goes on.
func privilegeFolder(t testing.TB) {
	t.Helper()
	const folder = "/run/sshd"
	if os.Getuid() != 0 {
		return
	}
	err := os.Mkdir(folder, 0o755)
	switch {
	case err == nil:
		t.Cleanup(func() { _ = os.Remove(folder) })
	case !errors.Is(err, fs.ErrExist):
		t.Fatal(err)
	}
}
