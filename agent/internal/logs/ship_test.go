package logs_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/logs"
	"muster/agent/wire"
)

var errAway = errors.New("nothing answers")

// source is a log that is written to while it is followed.
type source struct {
	mu      sync.Mutex
	lines   []wire.LogLine
	news    chan struct{}
	readers int
	missing bool
}

func (s *source) write(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		s.lines = append(s.lines, wire.LogLine{Time: time.Now(), Source: wire.LogAgent, Message: text})
	}
	close(s.news)
	s.news = make(chan struct{})
}

func (s *source) follow(ctx context.Context, from logs.Place, take func(wire.LogLine, string) error) error {
	at := 0
	s.mu.Lock()
	s.readers++
	if from.After != "" {
		_, _ = fmt.Sscan(from.After, &at)
	} else {
		for at < len(s.lines) && s.lines[at].Time.Before(from.Since) {
			at++
		}
	}
	missing := s.missing
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.readers--; s.mu.Unlock() }()
	if missing {
		return errors.New("there is no such log")
	}
	for {
		s.mu.Lock()
		lines := s.lines[at:]
		news := s.news
		s.mu.Unlock()
		for _, one := range lines {
			at++
			if err := take(one, fmt.Sprint(at)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-news:
		}
	}
}

// gateway takes batches as a real one does.
type gateway struct {
	mu     sync.Mutex
	away   bool
	lose   bool // the answer
	pause  int
	got    []wire.LogLine
	spools []string
	next   int64
	sizes  []int
	at     []time.Time
}

func (g *gateway) call(_ context.Context, path string, in, out any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away || path != wire.LogsPath("n-1") {
		return errAway
	}
	b := in.(wire.LogBatch)
	g.at = append(g.at, time.Now())
	g.sizes = append(g.sizes, len(b.Lines))
	if len(g.spools) == 0 || g.spools[len(g.spools)-1] != b.Spool {
		g.spools = append(g.spools, b.Spool)
		g.next = 0
	}
	behind := b.First + int64(len(b.Lines))
	if known := max(g.next-b.First, 0); known < int64(len(b.Lines)) {
		g.got = append(g.got, b.Lines[known:]...)
	}
	g.next = max(g.next, behind)
	if g.lose {
		g.lose = false
		return errAway
	}
	*out.(*wire.LogTaken) = wire.LogTaken{Next: behind, PauseSeconds: g.pause}
	return nil
}

// set changes how the gateway answers.
func (g *gateway) set(change func(*gateway)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
}

func (g *gateway) texts() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []string
	for _, l := range g.got {
		all = append(all, l.Message)
	}
	return all
}

type node struct {
	*logs.Shipper
	folder string
	log    *source
	gw     *gateway
	owner  atomic.Pointer[error] // why the owner of the node forbids to ship; nil: all may be shipped
	stop   func()
}

func newNode(t *testing.T) *node {
	n := &node{folder: t.TempDir(), log: &source{news: make(chan struct{})}, gw: &gateway{}}
	n.start(t)
	return n
}

func (n *node) start(t *testing.T) {
	n.Shipper = logs.NewShipper(logs.Shipping{Node: "n-1", Folder: n.folder, Call: n.gw.call, May: n.may,
		Follow: func(ctx context.Context, name string, from logs.Place, take func(wire.LogLine, string) error) error {
			if name != wire.LogAgent {
				return errors.New("no such source")
			}
			return n.log.follow(ctx, from, take)
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = n.Run(ctx) }()
	n.stop = func() { cancel(); <-ended }
	t.Cleanup(func() { n.stop() })
	synctest.Wait()
}

func (n *node) may() error {
	if why := n.owner.Load(); why != nil {
		return *why
	}
	return nil
}

func want() *wire.LogShipping {
	return &wire.LogShipping{Sources: []string{wire.LogAgent, "from-the-future"}}
}

func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// TestNothing: without a rule there is no reader, no file, and no request.
func TestNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.log.write("a line")
		n.Heard(nil)
		pass(time.Hour)
		entries, err := os.ReadDir(n.folder)
		if err != nil || len(entries) > 0 || n.log.readers > 0 || len(n.gw.at) > 0 {
			t.Errorf("%d files, %d readers, %d requests, %v", len(entries), n.log.readers, len(n.gw.at), err)
		}
		n.stop()
	})
}

// TestShip: what is written from when the gateway asks is sent, in order, many lines in one batch.
func TestShip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.log.write("before")
		pass(time.Minute)
		n.Heard(want())
		n.Heard(want()) // the same again changes nothing
		pass(time.Second)
		n.log.write("one", "two")
		n.log.write("three")
		pass(2 * time.Second)
		if got := n.gw.texts(); !slices.Equal(got, []string{"one", "two", "three"}) || len(n.gw.sizes) != 1 {
			t.Errorf("%q in %v", got, n.gw.sizes)
		}
		n.Heard(nil)
		pass(time.Second)
		if n.log.readers != 0 {
			t.Error("the source is still followed")
		}
		n.log.write("while nobody asks")
		pass(time.Minute)
		n.Heard(want()) // such as a gateway that has started meanwhile
		pass(5 * time.Second)
		if got := n.gw.texts(); len(got) != 4 || len(n.gw.spools) != 1 {
			t.Errorf("%q, spools %q", got, n.gw.spools)
		}
		n.Heard(nil)
		pass(time.Hour)
		if entries, _ := os.ReadDir(n.folder); len(entries) > 0 {
			t.Errorf("%v stays", entries)
		}
		n.stop()
	})
}

// TestAway: lines wait in the spool for a gateway that is away, over restarts of the agent; what is written meanwhile comes too.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.Heard(want())
		pass(time.Second)
		n.gw.set(func(g *gateway) { g.away = true })
		var all []string
		for round := range 3 {
			for i := range 50 {
				all = append(all, fmt.Sprint("line ", round, " ", i))
				n.log.write(all[len(all)-1])
			}
			pass(10 * time.Second)
			n.stop()
			all = append(all, fmt.Sprint("while the agent is not there ", round))
			n.log.write(all[len(all)-1])
			time.Sleep(time.Second)
			n.start(t) // it hears nothing from the gateway
		}
		pass(time.Minute)
		n.gw.set(func(g *gateway) { g.away = false })
		pass(10 * time.Minute)
		if got := n.gw.texts(); !slices.Equal(got, all) {
			t.Errorf("%d lines of %d: %q", len(got), len(all), got)
		}
		n.stop()
	})
}

// TestLostAnswer: a batch whose answer was lost comes again with the same numbers.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.Heard(want())
		pass(time.Second)
		n.gw.set(func(g *gateway) { g.lose = true })
		n.log.write("one", "two")
		pass(time.Minute)
		n.log.write("three")
		pass(time.Minute)
		if got := n.gw.texts(); !slices.Equal(got, []string{"one", "two", "three"}) || len(n.gw.sizes) != 3 {
			t.Errorf("%q in %v", got, n.gw.sizes)
		}
		n.stop()
	})
}

// TestPace: the node keeps to the rate over ten seconds, and to the pause that it is asked for.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.Heard(&wire.LogShipping{Sources: []string{wire.LogAgent}, BytesPerSecond: 10_000})
		pass(time.Second)
		began := time.Now()
		for range 100 {
			n.log.write(strings.Repeat("x", 20_000)) // 2 MB: 200 s, less the first 10 s
		}
		for len(n.gw.texts()) < 100 && time.Since(began) < time.Hour {
			pass(time.Second)
		}
		if took := time.Since(began); took < 150*time.Second || took > 260*time.Second {
			t.Errorf("2 MB at 10 kB/s took %s", took)
		}
		n.gw.set(func(g *gateway) { g.pause = 30 })
		pass(time.Minute)
		n.log.write("one")
		pass(5 * time.Second)
		n.log.write("two")
		pass(time.Minute)
		at := n.gw.at
		if gap := at[len(at)-1].Sub(at[len(at)-2]); gap < 30*time.Second || gap > 33*time.Second {
			t.Errorf("a pause of %s", gap)
		}
		n.stop()
	})
}

// TestLarge: lines whose JSON is long are cut until they fit; no batch is too large.
func TestLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.Heard(want())
		pass(time.Second)
		n.log.write(strings.Repeat("\x01", 100<<10))
		pass(time.Minute)
		if len(n.gw.got) != 1 || n.gw.got[0].Cut == 0 || n.gw.got[0].Cut+len(n.gw.got[0].Message) != 100<<10 {
			t.Fatalf("%d lines", len(n.gw.got))
		}
		n.stop()
	})
}

// TestDamagedSpool: what a damaged spool has lost is told as a line.
func TestDamagedSpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.Heard(want())
		pass(time.Second)
		n.gw.set(func(g *gateway) { g.away = true })
		n.log.write("one", "two", "three")
		pass(time.Minute)
		n.stop()
		files, _ := filepath.Glob(filepath.Join(n.folder, "shipping", "spool", "*.spool"))
		content, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)-3] ^= 1
		if err := os.WriteFile(files[0], content, 0o600); err != nil {
			t.Fatal(err)
		}
		n.start(t)
		n.gw.set(func(g *gateway) { g.away = false })
		n.log.write("four")
		pass(time.Minute)
		got := n.gw.got
		if len(got) != 4 || got[2].Dropped != 1 || !strings.Contains(got[2].Message, "damaged") || got[3].Message != "four" {
			t.Errorf("%q", n.gw.texts())
		}
		n.stop()
	})
}

// TestMissingSource: a source that is not there is tried again, ever more slowly, and does not keep others from being shipped.
func TestMissingSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.log.mu.Lock()
		n.log.missing = true
		n.log.mu.Unlock()
		n.Heard(&wire.LogShipping{Sources: []string{wire.LogAgent, wire.LogKernel}})
		pass(time.Minute)
		unshipped := map[string]string{wire.LogAgent: "there is no such log", wire.LogKernel: "no such source"}
		if got := n.Unshipped(); !maps.Equal(got, unshipped) {
			t.Errorf("%q", got)
		}
		n.log.mu.Lock()
		n.log.missing = false
		n.log.mu.Unlock()
		n.log.write("it is there now")
		pass(10 * time.Minute)
		delete(unshipped, wire.LogAgent)
		if got := n.gw.texts(); len(got) != 1 || !maps.Equal(n.Unshipped(), unshipped) {
			t.Errorf("%q, %q", got, n.Unshipped())
		}
		n.Heard(nil)
		pass(time.Second)
		if got := n.Unshipped(); got != nil {
			t.Errorf("nothing is wanted: %q", got)
		}
		n.stop()
	})
}

// TestOwner: what the owner of the node forbids is not shipped, from soon after it is forbidden until soon after it is allowed again,
// however long that took. The node says so meanwhile.
func TestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.Heard(&wire.LogShipping{Sources: []string{wire.LogAgent}})
		pass(time.Second)
		why := errors.New("the policy of this node forbids session.logs")
		n.owner.Store(&why)
		pass(time.Minute)
		if n.log.readers != 0 || n.Unshipped()[wire.LogAgent] != why.Error() {
			t.Errorf("%d readers, %q", n.log.readers, n.Unshipped())
		}
		pass(time.Hour)
		n.log.write("meanwhile")
		n.stop()
		n.start(t)
		pass(59 * time.Minute) // a look every five minutes would come at the hour
		if got := n.gw.texts(); len(got) != 0 || n.Unshipped()[wire.LogAgent] != why.Error() {
			t.Errorf("%q, %q", got, n.Unshipped())
		}
		n.owner.Store(nil)
		pass(10 * time.Second)
		if n.log.readers != 1 {
			t.Error("the log is not followed again")
		}
		pass(10 * time.Second)
		if got := n.gw.texts(); len(got) != 1 || n.Unshipped() != nil {
			t.Errorf("%q, %q", got, n.Unshipped())
		}
		n.stop()
	})
}

// TestDamagedState: a state that cannot be read is no state: new lines are shipped.
func TestDamagedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.stop()
		if err := os.MkdirAll(filepath.Join(n.folder, "shipping"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(n.folder, "shipping", "state.json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		n.start(t)
		n.Heard(want())
		pass(time.Second)
		n.log.write("one")
		pass(5 * time.Second)
		if got := n.gw.texts(); len(got) != 1 {
			t.Errorf("%q", got)
		}
		n.stop()
	})
}
