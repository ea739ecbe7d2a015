package rqlitetest

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Program names the variable with the path of rqlited. No package of Debian has it, and the module proxy does not serve it.
const Program = "RQLITED"

// Nodes are a cluster of the real program.
type Nodes struct {
	HTTP []string // HOST:PORT of each

	t       testing.TB
	program string
	folder  string
	places  []Place
	raft    []string
	secure  Secure
	scheme  string
	client  *http.Client
	running []*exec.Cmd
}

// Place is where a node runs. The zero value is this machine, on free ports of loopback.
type Place struct {
	Host  string   // its address
	Enter []string // runs the command that follows it there
}

// Secure says how nodes speak TLS. The zero value means without TLS.
type Secure struct {
	Flags  []string    // of rqlited
	Client *tls.Config // that the nodes believe
}

// NewNodes starts n nodes until the end of the test, and waits for a leader. Without the program the test is skipped, in CI too: there is
// no way to install it there.
func NewNodes(t testing.TB, n int) *Nodes {
	t.Helper()
	return NewNodesAt(t, Secure{}, make([]Place, n)...)
}

// NewNodesAt does what NewNodes does, with a node in each of the places.
func NewNodesAt(t testing.TB, secure Secure, places ...Place) *Nodes {
	t.Helper()
	n := len(places)
	c := &Nodes{t: t, program: os.Getenv(Program), folder: t.TempDir(), places: places, secure: secure, scheme: "http://",
		client:  &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: secure.Client}},
		running: make([]*exec.Cmd, n)}
	t.Cleanup(c.client.CloseIdleConnections)
	if c.program == "" {
		t.Skip("not run: " + Program + " names no rqlited; make one from its source with go build ./cmd/rqlited")
	}
	if secure.Client != nil {
		c.scheme = "https://"
	}
	for _, p := range places {
		if p.Host == "" {
			c.HTTP = append(c.HTTP, free(t))
			c.raft = append(c.raft, free(t))
		} else {
			c.HTTP = append(c.HTTP, net.JoinHostPort(p.Host, "4001"))
			c.raft = append(c.raft, net.JoinHostPort(p.Host, "4002"))
		}
	}
	for i := range n {
		c.Start(i)
	}
	t.Cleanup(func() {
		for i := range n {
			c.Kill(i)
		}
	})
	c.Leader()
	return c
}

func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	defer l.Close()
	return l.Addr().String()
}

// Start starts a node that does not run.
func (c *Nodes) Start(i int) {
	c.t.Helper()
	log, err := os.OpenFile(filepath.Join(c.folder, fmt.Sprintf("log%d", i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fatal(c.t, err)
	words := append(slices.Clone(c.places[i].Enter), c.program, "-node-id", fmt.Sprint(i+1), "-http-addr", c.HTTP[i], "-raft-addr", c.raft[i],
		"-bootstrap-expect", fmt.Sprint(len(c.HTTP)), "-join", strings.Join(c.raft, ","))
	words = append(append(words, c.secure.Flags...), filepath.Join(c.folder, fmt.Sprint(i)))
	q := exec.Command(words[0], words[1:]...)
	q.Stdout, q.Stderr = log, log
	q.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	fatal(c.t, q.Start())
	c.running[i] = q
	log.Close()
}

// Kill ends a node at once.
func (c *Nodes) Kill(i int) {
	_ = c.running[i].Process.Kill()
	_ = c.running[i].Wait()
}

// Save kills all nodes, keeps what they have in a folder, and starts them again.
func (c *Nodes) Save() (kept string) {
	c.t.Helper()
	kept = c.t.TempDir()
	c.all(c.Kill)
	fatal(c.t, os.CopyFS(kept, os.DirFS(c.folder)))
	c.all(c.Start)
	c.Leader()
	return kept
}

// PutBack kills all nodes and starts them with what they had when it was saved.
func (c *Nodes) PutBack(kept string) {
	c.t.Helper()
	c.all(c.Kill)
	c.all(func(i int) { fatal(c.t, os.RemoveAll(filepath.Join(c.folder, fmt.Sprint(i)))) })
	c.all(func(i int) {
		name := fmt.Sprint(i)
		fatal(c.t, os.CopyFS(filepath.Join(c.folder, name), os.DirFS(filepath.Join(kept, name))))
	})
	c.all(c.Start)
	c.Leader()
}

func (c *Nodes) all(do func(i int)) {
	for i := range c.HTTP {
		do(i)
	}
}

// Leader waits for a leader, and returns its number.
func (c *Nodes) Leader() int {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		for i := range c.HTTP {
			r, err := c.client.Get(c.scheme + c.HTTP[i] + "/leader")
			if err != nil {
				continue
			}
			text, _ := io.ReadAll(r.Body)
			r.Body.Close()
			for j, address := range c.HTTP {
				if strings.Contains(string(text), c.scheme+address) && strings.Contains(string(text), `"leader":true`) {
					return j
				}
			}
		}
	}
	c.t.Fatal("no leader")
	return 0
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
