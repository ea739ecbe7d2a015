//go:build real

package lab

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"muster/agent/wire"
)

// Port is the gateway's TLS port in every lab.
const Port = "7443"

// URL is the gateway's address for boxes.
const URL = "https://" + GatewayName + ":" + Port

// Gateway is a running bin/muster with its data.
type Gateway struct {
	Binary string // may be changed between Stop and Open
	Data   string

	lab     *Lab
	args    []string
	process *Process
	box     *Box // nil: on this machine
}

// Node is what the gateway says about one node.
type Node struct {
	ID, Name, State, Status string
	LastSeen                *time.Time `json:"last_seen"`
	Agent                   struct{ Version, Digest string }
	Hardware                *struct{ GPUs []struct{ Name string } }
}

// Seen is when the node was last heard, the zero time for never.
func (n Node) Seen() time.Time {
	if n.LastSeen == nil {
		return time.Time{}
	}
	return *n.LastSeen
}

// Token is a new enrollment token, and the command that the gateway prints for it.
type Token struct{ ID, Token, Command string }

// Tree is the repository that the binaries under test are built from.
func Tree() string {
	dir, _ := os.Getwd()
	for dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// Binary is the gateway that `make build` made.
func Binary() string { return filepath.Join(Tree(), "bin", "muster") }

// Gateway starts bin/muster in the lab, with more flags of serve.
func (l *Lab) Gateway(args ...string) *Gateway {
	l.T.Helper()
	g := &Gateway{Binary: Binary(), Data: filepath.Join(l.Dir, "data"), lab: l}
	if _, err := os.Stat(g.Binary); err != nil {
		l.T.Fatalf("%v: run make build", err)
	}
	g.args = append([]string{"--listen", "127.0.0.1:" + Port, "--public-url", URL, "--heartbeat-interval", "5s"}, args...)
	g.Open()
	return g
}

// Open starts the gateway.
func (g *Gateway) Open() {
	g.lab.T.Helper()
	g.process = g.lab.Start("gateway", g.lab.Command(append([]string{g.Binary, "serve", "--data", g.Data}, g.args...)...))
	g.process.Await(" serves ")
}

// Mount shows the gateway's data at the usual place on a box. The operator of that box then commands this gateway.
func (g *Gateway) Mount(b *Box) {
	g.lab.T.Helper()
	const usual = "/var/lib/muster"
	b.Write(usual+"/.here", "", 0o600)
	g.lab.Run("mount", "--bind", g.Data, filepath.Join(b.dir, usual))
	b.Install(g.Binary, "/usr/local/bin/muster")
}

// Stop ends the gateway as systemd would.
func (g *Gateway) Stop() {
	g.lab.T.Helper()
	g.process.Stop()
}

// Try runs an operator's command.
func (g *Gateway) Try(args ...string) (string, error) {
	out, err := g.Command(args...).CombinedOutput()
	return string(out), err
}

// Gateway is the gateway that a test has installed on the box, in the usual places. Open and Stop do not work on it.
func (b *Box) Gateway() *Gateway { return &Gateway{lab: b.lab, box: b} }

// Command is an operator's command.
func (g *Gateway) Command(args ...string) *exec.Cmd {
	if g.box != nil {
		return g.box.Command("root", "exec muster '"+strings.Join(args, "' '")+"'")
	}
	return g.lab.Command(append([]string{g.Binary, "--data", g.Data}, args...)...)
}

// Muster runs an operator's command and gives its standard output. A failure of the command ends the test.
func (g *Gateway) Muster(args ...string) string {
	g.lab.T.Helper()
	var stderr strings.Builder
	c := g.Command(args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		g.lab.T.Fatalf("muster %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// Token mints a token, with more flags of token create.
func (g *Gateway) Token(args ...string) (t Token) {
	g.lab.T.Helper()
	g.decode(&t, append([]string{"token", "create", "--tenant", "platform", "-o", "json"}, args...)...)
	if t.Token == "" || t.Command == "" {
		g.lab.T.Fatal("token create gave no token or no command")
	}
	return t
}

// Nodes are all nodes, also those that were retired.
func (g *Gateway) Nodes() []Node {
	g.lab.T.Helper()
	var page struct{ Nodes []Node }
	g.decode(&page, "node", "ls", "--all", "-o", "json")
	return page.Nodes
}

// Node is the gateway's only node. If there is none, or more than one, the test ends.
func (g *Gateway) Node() Node {
	g.lab.T.Helper()
	nodes := g.Nodes()
	if len(nodes) != 1 {
		g.lab.T.Fatalf("the gateway has %d nodes, not 1: %+v", len(nodes), nodes)
	}
	return nodes[0]
}

// Heard tells whether the gateway has one node, which is online and active and was heard after that time.
func (g *Gateway) Heard(after time.Time) bool {
	g.lab.T.Helper()
	nodes := g.Nodes()
	return len(nodes) == 1 && nodes[0].Status == wire.StatusOnline && nodes[0].State == wire.StateActive && nodes[0].Seen().After(after)
}

func (g *Gateway) decode(into any, args ...string) {
	g.lab.T.Helper()
	text := g.Muster(args...)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		g.lab.T.Fatalf("muster %s: %v in %s", strings.Join(args, " "), err, text)
	}
}
