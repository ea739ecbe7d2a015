package update

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/disk"
	"muster/agent/disk/disktest"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// node is an agent that hears of releases at its gateway, in synthetic time.
type node struct {
	files
	t       *testing.T
	f       *fleet
	g       *gatewaytest.Gateway
	pipe    *gatewaytest.Pipe
	state   identity.State
	old     string
	release wire.Release
	layer   []byte
	offer   string
	until   time.Time // then the gateway wants nothing any more; zero: never
	cuts    []int     // after how many bytes each answer with the layer breaks off
	blob    func(gatewaytest.Request) *gatewaytest.Reply
	ranges  lines // of the layer that were asked for
	busy    bool
	tasks   []int // by number, the times at which a task is at work when the updater asks
	held    int
	refuse  bool          // heartbeats are not accepted
	deaf    func() bool   // nor while this is true; nil: never
	away    time.Time     // nor before this time
	gone    time.Time     // nor from this time on; zero: it stays
	silent  bool          // waits for tasks are not answered
	newer   time.Time     // at this time there is a newer trust set; zero: there is none
	pace    time.Duration // from one heartbeat to the next; 0: as usual
	free    int64
	steps   disk.Steps // of the agent that runs; nil: nobody is told
	notices lines      // what its last heartbeat said

	said      []string // what the heartbeats said: phase and code, without fetching and without repetitions
	last      wire.Update
	news      chan struct{}
	restarted bool
	waited    int
}

// lines is a list that several goroutines write and read: a request that stalls may still be there when the next one comes.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) set(all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = all
}

func (l *lines) add(one string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, one)
}

func (l *lines) get() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

func newNode(t *testing.T) *node {
	n := &node{files: newFiles(disktest.Folder(t)), t: t, f: newFleet(t), g: gatewaytest.New(t), free: 1 << 40, news: make(chan struct{}, 1)}
	n.g.Route = n.route
	n.pipe = gatewaytest.ServePipe(t, n.g, nil)
	n.state = n.g.Node(t)
	n.state.Gateway.Channel = "stable"
	n.state.Gateway.Trust = n.f.state().Gateway.Trust
	n.old = build(t, n.files, oldScript)
	for _, err := range []error{n.SetCurrent(n.old), n.SetGood(n.old)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	n.publish(newScript("muster-agent 2 new"), nil)
	return n
}

// publish makes a program the wanted release.
func (n *node) publish(program []byte, change func(*wire.ReleasePointer)) {
	n.layer = program
	n.release = n.f.release(program, change)
	n.release.URL = wire.ReleaseBlobPath(digestPrefix + hexOf(program))
	n.offer = n.release.Digest
}

func (n *node) route(q gatewaytest.Request) *gatewaytest.Reply {
	switch {
	case q.Path == wire.PathRelease:
		return n.g.JSON(200, n.release)
	case q.Path == wire.ReleaseBlobPath(digestPrefix+hexOf(n.layer)):
		n.ranges.add(q.Header.Get("Range"))
		if n.blob != nil {
			return n.blob(q)
		}
		return n.part(q)
	}
	return nil
}

// part is the layer, or the part of it that is asked for.
func (n *node) part(q gatewaytest.Request) *gatewaytest.Reply {
	reply := &gatewaytest.Reply{Status: 200, Body: n.layer, Header: map[string]string{}}
	from := 0
	if _, err := fmt.Sscanf(q.Header.Get("Range"), "bytes=%d-", &from); err == nil {
		reply.Status = 206
		reply.Body = n.layer[from:]
		reply.Whole = n.layer
		reply.Header["Content-Range"] = fmt.Sprintf("bytes %d-%d/%d", from, len(n.layer)-1, len(n.layer))
	}
	if len(n.cuts) > 0 {
		reply.Cut = n.cuts[0]
		n.cuts = n.cuts[1:]
	}
	return reply
}

// run is one process of the agent, of at most this length. It ends when it asks for a restart.
func (n *node) run(length time.Duration) error {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), length)
	defer cancel()
	client, err := transport.New(transport.Config{Gateway: "http://" + gatewaytest.Host, Dial: n.pipe.Dial})
	if err != nil {
		n.t.Fatal(err)
	}
	defer client.Close()
	id, err := n.state.Transport()
	if err != nil {
		n.t.Fatal(err)
	}
	client.Use(id)
	build := n.Current()
	u := New(Config{
		Client: client, State: n.state, Folder: n.Base, Digest: digestPrefix + build, Answered: func() bool { return !n.silent },
		Hold: func(context.Context) (func(), bool) {
			n.held++
			return func() {}, !n.busy && !slices.Contains(n.tasks, n.held)
		},
		Restart: func() { n.restarted = true; cancel() },
		News: func() {
			select {
			case n.news <- struct{}{}:
			default:
			}
		},
	})
	u.program = n.Version(build)
	u.clock = func() (string, int64) { return "one", time.Now().UnixMilli() }
	u.Steps = n.steps
	u.free = func() (int64, error) { return n.free, nil }
	u.testTime = 300 * time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- u.Run(ctx); cancel() }()
	n.beat(ctx, u)
	return <-ended
}

// beat does what the heartbeats' loop does.
func (n *node) beat(ctx context.Context, u *Updater) {
	for ctx.Err() == nil {
		pace := cmp.Or(n.pace, 30*time.Second)
		if faster := u.Pace(); faster > 0 {
			pace = faster
		}
		if !n.until.IsZero() && time.Now().After(n.until) {
			n.offer = ""
		}
		said := u.Report()
		n.last = *said
		n.notices.set(u.Notices())
		n.note(said)
		if !n.refuse && (n.deaf == nil || !n.deaf()) && !time.Now().Before(n.away) && (n.gone.IsZero() || time.Now().Before(n.gone)) {
			u.Heard(n.state, said, wire.HeartbeatAnswer{Release: n.offer})
		}
		if !n.newer.IsZero() && !time.Now().Before(n.newer) { // the answer named a newer trust set: the loop follows it, and reports at once
			n.state.Gateway.Trust = n.f.state(n.f.other, n.f.key, n.f.unknown).Gateway.Trust
			n.newer = time.Time{}
			continue
		}
		bounded, cut := context.WithTimeout(ctx, pace)
		if err := u.Waiting(n.wait)(bounded, n.state, time.Now().Add(pace)); err != nil {
			n.t.Error(err)
		}
		cut()
	}
}

// note keeps what a heartbeat says, without fetching and without repetitions.
func (n *node) note(said *wire.Update) {
	word := strings.TrimSpace(said.Phase + " " + said.Code)
	if word == "" || word == wire.UpdateFetching || len(n.said) > 0 && n.said[len(n.said)-1] == word {
		return
	}
	n.said = append(n.said, word)
}

// wait is one for tasks, which news cuts.
func (n *node) wait(ctx context.Context, _ identity.State, _ time.Time) error {
	n.waited++
	select {
	case <-ctx.Done():
	case <-n.news:
		transport.Sleep(ctx, 10*time.Millisecond)
	}
	return nil
}

// fetched reports whether the wanted program is complete in its place.
func (n *node) fetched() bool {
	there, err := service.Digest(n.Version(hexOf(n.layer)))
	return err == nil && there == hexOf(n.layer)
}

// goes asserts what the heartbeats have said.
func (n *node) goes(when string, want ...string) {
	n.t.Helper()
	if !slices.Equal(n.said, want) {
		n.t.Errorf("%s: the heartbeats said %q, want %q", when, n.said, want)
	}
	n.said = nil
}

// settle is what comes before a start.
func (n *node) settle() Verdict {
	at := time.Now()
	return Settle(n.t.Context(), Settling{Base: n.Base, clock: func() (string, int64) { return "one", at.UnixMilli() },
		Call: func(context.Context) error { return nil }})
}
