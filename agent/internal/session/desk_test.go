package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/internal/account"
	"muster/agent/internal/identity"
	"muster/agent/internal/session"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/pipe"
	"muster/agent/wire"
)

// desk is the gateway's side of sessions, and a node with its host.
type desk struct {
	t     *testing.T
	g     *gatewaytest.Gateway
	state identity.State
	cfg   session.Config
	host  *session.Host
	stop  func() // ends the host
	home  string

	mu  sync.Mutex
	all map[string]*rooms
}

// rooms are both directions of a session's channel Main.
type rooms struct{ up, down *pipe.Room } // up: from the node

// newDesk is a gateway on the loopback interface.
func newDesk(t *testing.T) *desk {
	t.Helper()
	d := prepare(t)
	d.begin(transport.Config{Gateway: gatewaytest.Listen(t, d.g, nil)})
	return d
}

func prepare(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, g: gatewaytest.New(t), all: map[string]*rooms{}, home: t.TempDir()}
	d.g.Route = d.route
	d.state = d.g.Node(t)
	root := t.TempDir()
	passwd := fmt.Sprintf("ada:x:%d:%d::%s:/bin/sh\nother:x:%d:%d::/:/bin/sh\nguest:x:54321:54322::/:/bin/sh\n", os.Getuid(), os.Getgid(), d.home, os.Getuid()+1, os.Getgid())
	for name, text := range map[string]string{"passwd": passwd, "group": "people:x:4711:ada,guest\n"} {
		if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.cfg = session.Config{
		Accounts: &account.Accounts{Root: root, UID: os.Getuid()}, Logger: slog.New(slog.DiscardHandler),
		Policies: []string{filepath.Join(root, "policy.json")},
	}
	return d
}

func (d *desk) begin(c transport.Config) {
	d.t.Helper()
	client, err := transport.New(c)
	if err != nil {
		d.t.Fatal(err)
	}
	id, err := d.state.Transport()
	if err != nil {
		d.t.Fatal(err)
	}
	client.Use(id)
	d.cfg.Client = client
	d.host = session.New(d.cfg)
	ctx, cancel := context.WithCancel(d.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = d.host.Run(ctx) }()
	d.stop = func() { cancel(); <-ended; client.Close() }
	d.t.Cleanup(d.stop)
}

func (d *desk) policy(text string) {
	d.t.Helper()
	if err := os.WriteFile(d.cfg.Policies[0], []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) rooms(id string) *rooms {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all[id] == nil {
		d.all[id] = &rooms{pipe.NewRoom(wire.PipeRoom), pipe.NewRoom(wire.PipeRoom)}
	}
	return d.all[id]
}

func (d *desk) route(q gatewaytest.Request) *gatewaytest.Reply {
	rest, ours := strings.CutPrefix(q.Path, wire.PrefixSessions)
	id, channel, _ := strings.Cut(rest, "/channels/")
	if !ours || channel != "0" {
		return nil
	}
	query, err := pipe.ReadQuery(q.Query)
	if err != nil {
		d.t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wire.PieceWait)
	defer cancel()
	go func() { // a request that is gone waits no more
		select {
		case <-q.Gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	r := d.rooms(id)
	if q.Method == "GET" {
		p, err := r.down.Get(ctx, query.At, wire.MaxPiece)
		if err != nil {
			return refusal(err)
		}
		return &gatewaytest.Reply{Status: 200, Body: p.Body(), Header: map[string]string{"Content-Type": pipe.Kind}}
	}
	p, err := pipe.ReadPiece(q.Body)
	if err != nil {
		d.t.Error(err)
	}
	next, err := r.up.Put(ctx, query.At, p)
	if err != nil {
		return refusal(err)
	}
	return d.g.JSON(200, pipe.Taken{Next: next})
}

func refusal(err error) *gatewaytest.Reply {
	body, _ := json.Marshal(wire.Error{Error: *err.(*wire.ErrorDetail)})
	return &gatewaytest.Reply{Status: 410, Body: body}
}

// document is a good one.
func (d *desk) document(kind, params string) wire.TaskPayload {
	now := d.g.Now().UTC()
	return wire.TaskPayload{
		TaskID: wire.NewSessionID(), NodeID: d.state.NodeID, Enrolment: d.state.Enrolment, Type: kind, Params: json.RawMessage(params),
		IssuedAt: now, ExpiresAt: now.Add(wire.MaxSessionWait), Nonce: "n",
	}
}

// operator is who has opened a session.
type operator struct {
	t      *testing.T
	d      *desk
	id     string
	main   *pipe.End
	frames *pipe.Frames
	notice string
	errors bytes.Buffer // of FrameError
}

// carry is the operator's way.
type carry struct{ r *rooms }

func (c carry) Send(ctx context.Context, _ int, at int64, p pipe.Piece) (int64, error) {
	return c.r.down.Put(ctx, at, p)
}

func (c carry) Fetch(ctx context.Context, _ int, at int64, _ []byte) (pipe.Piece, error) {
	return c.r.up.Get(ctx, at, wire.MaxPiece)
}

// open opens a session, and gives the operator's end.
func (d *desk) open(kind, params string) *operator { return d.openAs(d.document(kind, params)) }

func (d *desk) openAs(p wire.TaskPayload) *operator {
	d.t.Helper()
	d.host.Open(d.state, p, nil)
	main := pipe.Open(d.t.Context(), carry{d.rooms(p.TaskID)}, pipe.Main)
	d.t.Cleanup(func() { main.Close() })
	return &operator{t: d.t, d: d, id: p.TaskID, main: main, frames: pipe.NewFrames(main)}
}

// idle waits until no session is open.
func (d *desk) idle() {
	for {
		if release, held := d.host.Hold(); held {
			release()
			return
		}
		<-time.After(time.Millisecond)
	}
}

// end ends the session as the gateway does.
func (o *operator) end() {
	r := o.d.rooms(o.id)
	over := wire.Refuse(wire.CodeSessionOver, "somebody ended it", "")
	r.up.Close(over)
	r.down.Close(over)
}

func (o *operator) send(kind pipe.FrameKind, text string) {
	o.t.Helper()
	if err := pipe.WriteFrame(o.main, kind, []byte(text)); err != nil {
		o.t.Fatal(err)
	}
}

// next is the next frame; notices and errors are kept aside.
func (o *operator) next() (pipe.FrameKind, []byte) {
	o.t.Helper()
	for {
		kind, data, err := o.frames.Next()
		switch {
		case err != nil:
			o.t.Fatalf("the session broke off: %v", err)
		case kind == pipe.FrameNotice:
			o.notice = string(data)
		case kind == pipe.FrameError:
			o.errors.Write(data)
		default:
			return kind, data
		}
	}
}

func (o *operator) ready() pipe.Ready {
	o.t.Helper()
	var r pipe.Ready
	kind, data := o.next()
	if kind != pipe.FrameReady || json.Unmarshal(data, &r) != nil {
		o.t.Fatalf("frame %c %s in place of ready", kind, data)
	}
	return r
}

// until reads output until it has this text.
func (o *operator) until(text string) string {
	o.t.Helper()
	var all bytes.Buffer
	for !strings.Contains(all.String(), text) {
		kind, data := o.next()
		if kind != pipe.FrameOutput {
			o.t.Fatalf("frame %c %s after %q: %q did not come", kind, data, all.String(), text)
		}
		all.Write(data)
	}
	return all.String()
}

// exit reads to the end.
func (o *operator) exit() (output string, exit pipe.Exit) {
	o.t.Helper()
	var all bytes.Buffer
	for {
		kind, data := o.next()
		switch kind {
		case pipe.FrameOutput:
			all.Write(data)
		case pipe.FrameExit:
			if err := json.Unmarshal(data, &exit); err != nil {
				o.t.Fatal(err)
			}
			return all.String(), exit
		default:
			o.t.Fatalf("frame %c %s", kind, data)
		}
	}
}

func (o *operator) refused() wire.SessionRefused {
	o.t.Helper()
	var r wire.SessionRefused
	kind, data := o.next()
	if kind != pipe.FrameRefused || json.Unmarshal(data, &r) != nil {
		o.t.Fatalf("frame %c %s in place of a refusal", kind, data)
	}
	return r
}

// gone waits until a process is there no more.
func gone(t *testing.T, pid string) {
	t.Helper()
	await(t, "process "+pid+" lives", func() bool { return dead(strings.TrimSpace(pid)) })
}

func dead(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(text), ") Z ")
}

// await waits until something is so. otherwise says what it is where it does not become so.
func await(t *testing.T, otherwise string, so func() bool) {
	t.Helper()
	for began := time.Now(); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal(otherwise)
		}
	}
}
