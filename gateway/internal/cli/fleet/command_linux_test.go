package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/pty"
	"muster/gateway/internal/client"
)

// gateway answers GET fleet with nodes, and GET stream with what a test says.
type gateway struct {
	*testing.T
	dir    string
	server *http.Server
	stream chan string

	mu    sync.Mutex
	nodes []api.NodeRow
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // a test's own directory can be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	g := &gateway{T: t, dir: dir, stream: make(chan string), nodes: someFleet()}
	g.open()
	return g
}

func (g *gateway) open() {
	g.Helper()
	listener, err := net.Listen("unix", filepath.Join(g.dir, client.SocketName))
	if err != nil {
		g.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(g.answer)}
	g.server = server
	go func() { _ = server.Serve(listener) }()
	g.Cleanup(func() { server.Close() })
}

func (g *gateway) answer(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case strings.Contains(q.Get("selector"), "!!"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		_, _ = w.Write([]byte(`{"error":{"code":"bad_selector","message":"a term is wrong","hint":"write tier=x"}}`))
	case strings.HasSuffix(r.URL.Path, "/stream"):
		w.Header().Set("Content-Type", api.StreamType)
		for flush := http.NewResponseController(w); flush.Flush() == nil; {
			select {
			case text := <-g.stream:
				_, _ = w.Write([]byte(text))
			case <-r.Context().Done():
				return
			}
		}
	default:
		g.mu.Lock()
		defer g.mu.Unlock()
		view := api.FleetView{At: noon(), Nodes: []api.NodeRow{}}
		for _, n := range g.nodes {
			if name, by := strings.CutPrefix(q.Get("selector"), "name="); q.Get("limit") != "0" && (!by || n.Name == name) {
				view.Nodes = append(view.Nodes, n)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(view)
	}
}

// top runs the command without a terminal.
func (g *gateway) top(args ...string) (code int, stdout, stderr string) {
	g.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(g.Context(), cli.Env{Args: append([]string{"--data", g.dir, "top"}, args...), Getenv: env, Now: noon,
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}, TopCommands())
	return code, out.String(), errs.String()
}

func env(name string) string {
	return map[string]string{"TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": "/nowhere"}[name]
}

// TestOnce: a pipe gets one picture of all nodes without codes, or the API's object.
func TestOnce(t *testing.T) {
	g := newGateway(t)
	code, out, errs := g.top()
	if code != 0 || strings.ContainsRune(out, 0x1b) || strings.Count(out, "\n") < 7 || !strings.Contains(out, "6 nodes") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
	if _, same, _ := g.top("--once"); same != out {
		t.Errorf("--once prints\n%s", same)
	}
	code, out, errs = g.top("gpu-ill", "--once")
	if code != 0 || !strings.Contains(out, "fallen_off_bus") || strings.Contains(out, "desk") {
		t.Errorf("one node: exit %d: %s\n%s", code, errs, out)
	}
	var view api.FleetView
	_, out, _ = g.top("-o", "json", "--sort=-name")
	if err := json.Unmarshal([]byte(out), &view); err != nil || len(view.Nodes) != 6 || view.Nodes[0].Name != "yet-to-come" ||
		view.Totals.Nodes != 6 {
		t.Errorf("%v: %s", err, out)
	}
	_, out, _ = g.top("-o", "json", "desk")
	if err := json.Unmarshal([]byte(out), &view); err != nil || len(view.Nodes) != 1 || view.Totals.Nodes != 1 {
		t.Errorf("%v: %s", err, out)
	}
	_, out, _ = g.top("--idle")
	if !strings.Contains(out, "resting") || strings.Contains(out, "desk") {
		t.Errorf("the idle: %s", out)
	}
}

// TestRefusals: each wrong use is named before anything is drawn.
func TestRefusals(t *testing.T) {
	g := newGateway(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--sort", "colour"}, 2, "--sort"}, {[]string{"--interval", "1ms"}, 2, "from 200ms"},
		{[]string{"--interval", "x"}, 2, "--interval"},
		{[]string{"-o", "wide"}, 2, "--output"}, {[]string{"--once=7"}, 2, "--once"}, {[]string{"nobody"}, 1, `no node "nobody"`},
		{[]string{"-l", "!!"}, 1, "a term is wrong"},
	} {
		code, out, errs := g.top(c.args...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d: %s%s", c.args, code, out, errs)
		}
	}
	g.server.Close()
	if code, _, errs := g.top(); code != 1 || !strings.Contains(errs, "no gateway answers") {
		t.Errorf("without a gateway: exit %d: %s", code, errs)
	}
}

// person is somebody who looks at a terminal on which the command runs.
type person struct {
	*testing.T
	*pty.Pair
	done chan int
	errs bytes.Buffer
	stop context.CancelFunc
}

func (g *gateway) onTerminal(args ...string) *person {
	g.Helper()
	pair, err := pty.Open(100, 20)
	if err != nil {
		g.Fatal(err)
	}
	p := &person{T: g.T, Pair: pair, done: make(chan int, 1)}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(g.Context())
	args = append([]string{"--data", g.dir, "top", "--interval", "200ms"}, args...)
	go func() {
		p.done <- cli.Run(ctx, cli.Env{Args: args, Getenv: env, Now: noon, Stdin: pair.Program, Stdout: pair.Program, Stderr: &p.errs,
			Pause: func(ctx context.Context, _ time.Duration) error {
				select {
				case <-time.After(10 * time.Millisecond):
				case <-ctx.Done():
				}
				return ctx.Err()
			}}, TopCommands())
	}()
	g.Cleanup(func() {
		p.stop()
		pair.Close()
	})
	return p
}

// see waits until a text was drawn.
func (p *person) see(text string) {
	p.Helper()
	deadline := time.After(time.Minute)
	for {
		said, news := p.Said()
		if strings.Contains(said, text) {
			return
		}
		select {
		case <-news:
		case code := <-p.done:
			p.Fatalf("exit code %d before %q: %s%q", code, text, p.errs.String(), said)
		case <-deadline:
			p.Fatalf("%q was not drawn: %q", text, said)
		}
	}
}

// press types keys. What was drawn before counts no more.
func (p *person) press(keys string) {
	p.Helper()
	p.Forget()
	if err := p.Press(keys); err != nil {
		p.Fatal(err)
	}
}

func (p *person) ends(code int) {
	p.Helper()
	if got := <-p.done; got != code {
		p.Errorf("exit code %d, want %d: %s", got, code, p.errs.String())
	}
	if now, err := p.Settings(); err != nil || now.Lflag&1 == 0 || now.Lflag&2 == 0 || now.Lflag&8 == 0 { // ISIG, ICANON, ECHO
		p.Errorf("the terminal is left as %+v, %v", now, err)
	}
}

// TestLive: a person filters, sorts, looks at one node and quits, and sees what changes and that the gateway is lost.
func TestLive(t *testing.T) {
	g := newGateway(t)
	p := g.onTerminal()
	p.see("6 nodes: 4 online")
	g.stream <- "event: node\ndata: {\"nodes\":[{\"id\":\"9\",\"name\":\"newcomer\",\"state\":\"ready\"}],\"gone\":[\"3\"]}\n\n"
	p.see("newcomer")
	p.press("s")
	p.see("sort tenant")
	p.press("/x!!\r")
	p.see("a term is wrong")
	p.press("/\x15name=gpu-ill\r")
	p.see("filter name=gpu-ill")
	p.see("1 node: 1 online")
	p.press("\r")
	p.see("fallen_off_bus")
	g.server.Close()
	p.see("does not answer")
	if err := os.Remove(filepath.Join(g.dir, client.SocketName)); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	p.Forget()
	g.open()
	p.see("Esc back")
	p.press("q")
	p.ends(0)
}

// TestLiveOfOne begins with one node, and ends with its context.
func TestLiveOfOne(t *testing.T) {
	g := newGateway(t)
	p := g.onTerminal("gpu-ill")
	p.see("fallen_off_bus")
	p.press("\x1b")
	p.see("desk")
	p.stop()
	p.ends(1)
}
