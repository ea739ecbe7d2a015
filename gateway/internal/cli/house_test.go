package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/adminapi"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/client"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/history/cost"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/placement"
	"muster/gateway/internal/placement/inventory"
	"muster/gateway/internal/placement/usage"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/view"
	"muster/store"
	"muster/store/costs"
	slots "muster/store/placement"
)

// house is a gateway's insides with the admin API on a unix socket.
type house struct {
	t     testing.TB
	store *store.Store
	api   adminapi.API
	dir   string
	now   time.Time

	local       cli.Local
	notices     []string // of the heartbeats that follow
	screen      int      // columns of the terminal; 0: none
	env         map[string]string
	stdin       string
	interactive bool
	pause       func(context.Context) error // instead of waiting
	still       bool                        // waiting does not move the clock
	machine     cli.Machine                 // zero: this machine itself
	after       func(time.Duration, func()) func()
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t, now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), env: map[string]string{},
		notices: []string{"no init system: the agent is not restarted"}}
	clock := func() time.Time { return h.now }
	var err error
	h.store = kit.Store(t, clock)
	nodes, err := fleet.Open(t.Context(), fleet.Config{Store: h.store, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	info := &reply.Info{Now: clock, Logger: quiet}
	tokens := bootstrap.New(bootstrap.Config{Store: h.store, Now: clock})
	gate := account.NewGate(account.Config{Store: h.store, Info: info, Audit: audit.New(audit.Config{Store: h.store, Now: clock}),
		PSKs: tokens, Socket: true, Now: clock, Logger: quiet})
	h.api = adminapi.API{Gate: gate, Fleet: nodes, Bootstrap: tokens, Store: h.store, Logins: login.New(h.store, clock, quiet),
		Overview: view.Open(view.Config{Store: h.store, Ref: nodes.Ref}), Info: info, Now: clock, Logger: quiet,
		Command: func(token, at string) string {
			return "MUSTER_TOKEN=" + token + ` sh -c 's=$(curl -fsSL https://gw/install.sh) && eval "$s"'`
		}}
	if h.api.Tail, err = audit.OpenTail(t.Context(), audit.TailConfig{Store: h.store}); err != nil {
		t.Fatal(err)
	}
	h.api.Costs = cost.New(cost.Config{Records: costs.New(h.store.Records()), Ready: h.api.Overview.Ready, Nodes: h.rows, Now: clock})
	h.api.Overview.ShowCosts(h.api.Costs.Today)
	h.api.Placement, err = placement.Open(t.Context(), placement.Config{Config: inventory.Config{Store: h.store,
		Records: slots.New(h.store.Records()),
		Ready:   h.api.Overview.Ready, Node: func(id string) (*api.NodeRow, bool) { return &api.NodeRow{ID: id, Name: id}, true }, Nodes: h.rows,
		Placed: h.api.Overview.Placed, Now: clock, Taken: func(*api.NodeRow) []string { return nil }}})
	if err != nil {
		t.Fatal(err)
	}
	h.api.Usage, err = usage.Open(t.Context(), usage.Config{Records: slots.New(h.store.Records()), Holds: h.api.Placement.Holds,
		Node: h.api.Overview.Row, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	h.dir = h.listen()
	return h
}

func (h *house) rows() []*api.NodeRow {
	rows, _ := h.api.Overview.Rows(view.Query{})
	return rows
}

// restart has the gateway away for a while, and then starts it anew.
func (h *house) restart(away time.Duration) {
	h.t.Helper()
	err := h.store.SetMeta(h.t.Context(), store.MetaAliveAt, strconv.FormatInt(h.now.UnixMilli(), 10))
	if err != nil {
		h.t.Fatal(err)
	}
	h.now = h.now.Add(away)
	h.api.Fleet, err = fleet.Open(h.t.Context(), fleet.Config{Store: h.store, Now: func() time.Time { return h.now }})
	if err != nil {
		h.t.Fatal(err)
	}
	h.api.Overview = view.Open(view.Config{Store: h.store, Ref: h.api.Fleet.Ref})
	h.dir = h.listen()
}

func (h *house) listen() string { return listen(h.t, h.api.Routes()) }

// listen serves a handler on a socket and gives its directory.
func listen(t testing.TB, handler http.Handler) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // a test's own directory can be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, client.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-done
		os.RemoveAll(dir)
	})
	return dir
}

// muster runs a command line on the house. The directory is left out of the commands that hints name.
func (h *house) muster(args ...string) (code int, stdout, stderr string) {
	h.t.Helper()
	code, stdout, stderr = h.run(h.t.Context(), append([]string{"--data", h.dir}, args...)...)
	same := strings.NewReplacer("muster --data "+h.dir+" ", "muster ")
	return code, same.Replace(stdout), same.Replace(stderr)
}

func (h *house) run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	h.t.Helper()
	if _, _, _, err := h.store.Nodes(ctx, store.NodeQuery{Limit: 1}); err == nil { // a test may have closed it
		h.api.Overview.Load(h.t.Context()) // a gateway does that by itself
	}
	var out, errs bytes.Buffer
	code = cli.Run(ctx, cli.Env{Args: args, Getenv: func(name string) string { return h.env[name] }, Stdin: strings.NewReader(h.stdin),
		Stdout: &out, Stderr: &errs, Version: "1.2.3", Screen: func() int { return h.screen }, Local: h.local, Machine: h.machine,
		After: h.after, Interactive: func() bool { return h.interactive }, Now: func() time.Time { return h.now },
		Pause: func(ctx context.Context, d time.Duration) error {
			if !h.still {
				h.now = h.now.Add(d)
			}
			if h.pause == nil {
				return ctx.Err()
			}
			return h.pause(ctx)
		}}, commands.All())
	return code, out.String(), errs.String()
}

// done runs a command that must succeed.
func (h *house) done(args ...string) string {
	h.t.Helper()
	code, stdout, stderr := h.muster(args...)
	if code != 0 {
		h.t.Fatalf("muster %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// node makes a node; seen is how long ago its heartbeat came, negative for never.
func (h *house) node(n store.Node, seen time.Duration, hardware string) {
	h.t.Helper()
	ctx := h.t.Context()
	n.ID = "id-" + n.Name
	n.CreatedAt = h.now.Add(-time.Hour)
	n.StateSince = h.now.Add(-time.Hour)
	err := h.store.CreateNode(ctx, n, map[string]string{"tier": "sovereign"},
		store.Event{At: h.now, Kind: "node.created", Actor: "operator:socket", NodeID: n.ID, NodeName: n.Name, Tenant: n.Tenant,
			Address: "socket", Outcome: "ok"})
	if err == nil && seen >= 0 {
		err = h.store.MoveNode(ctx, store.Move{NodeID: n.ID, From: "ready", To: "active", At: n.StateSince})
	}
	if err == nil && seen >= 0 {
		err = h.beat(n.Name, seen, hardware)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) beat(name string, ago time.Duration, hardware string) error {
	skew := int64(-1500)
	return h.store.SaveBeats(h.t.Context(),
		[]store.Beat{{NodeID: "id-" + name, At: h.now.Add(-ago), RunID: "r", Counter: 1, Interval: 30 * time.Second,
			SkewMillis: skew, Address: "192.0.2.7", Agent: `{"version":"1.2.3","os":"linux","arch":"amd64"}`, Hardware: hardware,
			Notices: h.notices}}, h.now)
}

func gpus(n int, name, rest string) string {
	quoted, err := json.Marshal(name)
	if err != nil {
		panic(err)
	}
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"index":%d,"uuid":"GPU-%d","name":%s,"bus_id":"00000000:0%d:00.0",%s}`, i, i, quoted, i, rest)
	}
	return `"gpus":[` + strings.Join(rows, ",") + `]`
}
