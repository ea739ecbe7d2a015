package logs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/logs"
)

func numbered(from, to int) []string {
	var all []string
	for n := from; n < to; n++ {
		all = append(all, fmt.Sprint("line ", n))
	}
	return all
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %d lines %.300q, want %d %.300q", what, len(got), got, len(want), want)
	}
}

// TestSessions: a reader has one session at a time for each source, which ends with the reader and with nobody else.
func TestSessions(t *testing.T) {
	inBubble(t, func(m *machine) {
		m.write(wire.LogAgent, lines(0, 10)...)
		both := follow()
		both.Sources = []string{wire.LogAgent, wire.LogKernel}
		one := m.read(follow(), "a")
		two := m.read(both, "b")
		m.write(wire.LogAgent, lines(10, 15)...)
		same(t, "one source", one.messages(), numbered(0, 15))
		same(t, "two sources", two.messages(), numbered(0, 15))
		if m.times() != 6 || m.open != 3 || m.most != 3 {
			t.Errorf("the node was asked %d times, and has %d sessions, %d at most", m.times(), m.open, m.most)
		}
		two.leaves()
		if m.open != 1 {
			t.Errorf("%d sessions are open", m.open)
		}
		m.write(wire.LogAgent, line(15))
		same(t, "who stays", one.messages(), numbered(15, 16))
		one.leaves()
		if m.open != 0 {
			t.Errorf("%d sessions are open that nobody reads", m.open)
		}
	})
}

// TestSlow: who takes nothing loses nothing. Its sessions wait at the node, and nobody else does.
func TestSlow(t *testing.T) {
	inBubble(t, func(m *machine) {
		m.write(wire.LogAgent, line(0))
		m.write("unit:x", line(0))
		both := follow()
		both.Sources = []string{wire.LogAgent, "unit:x"}
		both.Since = begin
		hold := make(chan struct{})
		slow := m.read(both, "slow")
		slow.stops(hold)
		quick := m.read(follow(), "quick")
		const many, size = 200, 60 << 10
		for n := 1; n <= many; n++ {
			l := line(n)
			l.Message += strings.Repeat(".", size)
			m.write(wire.LogAgent, l)
			m.write("unit:x", l)
			synctest.Wait()
		}
		time.Sleep(5 * time.Second) // so much takes more than a second
		if got := quick.lines(); len(got) != many+1 {
			t.Errorf("the quick one has %d lines", len(got))
		}
		waits := 0
		for s := range m.sessions {
			waits += len(s.more)
		}
		if waits < many {
			t.Errorf("%d lines wait at the node: the others are held by the gateway", waits)
		}
		close(hold)
		time.Sleep(5 * time.Second)
		next := map[string]int{}
		for _, l := range slow.lines() {
			if want := fmt.Sprint("line ", next[l.Source]); strings.TrimRight(l.Message, ".") != want || l.Dropped > 0 {
				t.Fatalf("%s: got %.20q, want %q", l.Source, l.Message, want)
			}
			next[l.Source]++
		}
		if next[wire.LogAgent] != many+1 || next["unit:x"] != many+1 {
			t.Errorf("the slow one has %v lines", next)
		}
		quick.leaves()
		slow.leaves()
	})
}

// TestBreaksOffEarly: where the node goes away while it sends what is there, who follows gets the rest when it is back.
func TestBreaksOffEarly(t *testing.T) {
	inBubble(t, func(m *machine) {
		m.write(wire.LogAgent, lines(0, 1000)...)
		hold := make(chan struct{})
		r := m.slow(follow(), "a", hold)
		synctest.Wait()
		m.goes(nil)
		close(hold)
		time.Sleep(3 * time.Second)
		same(t, "all", r.messages(), numbered(0, 1000))
		r.leaves()
	})
}

// TestEnds: a log that ends, and a node's last word, end the reader with a line. What can pass does not.
func TestEnds(t *testing.T) {
	refusal := []byte(`{"code":"task_forbidden","message":"no logs"}`)
	for _, c := range []struct {
		name string
		kind pipe.FrameKind
		data string
		want string // of the last line; empty: it goes on
	}{
		{"ended", pipe.FrameExit, `{"code":0}`, "agent: the log has ended"},
		{"forbidden", pipe.FrameRefused, string(refusal), "agent: the log ends here: the node refused: no logs"},
		{"failed", pipe.FrameExit, `{"code":1,"error":"out of descriptors"}`, ""},
		{"strange code", pipe.FrameRefused, `{"code":"unauthorized","message":"x"}`, ""},
		{"nonsense", pipe.FrameRefused, `]`, ""},
		{"nonsense at the end", pipe.FrameExit, `]`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(m *machine) {
				r := m.read(follow(), "a")
				m.raw(wire.LogAgent, c.kind, []byte(c.data))
				got := r.messages()
				err, over := r.end()
				if c.want == "" {
					if over {
						t.Errorf("it ended with %v", err)
					}
					r.leaves()
					return
				}
				if !over || err != nil || len(got) != 1 || got[0] != c.want {
					t.Errorf("over %v, %v, %q", over, err, got)
				}
			})
		})
	}
}

// TestRefused: what the gateway or the node says against the first session comes back as it is.
func TestRefused(t *testing.T) {
	for _, q := range []logs.Query{agent(), follow()} {
		inBubble(t, func(m *machine) {
			m.goes(wire.Refuse(wire.CodeRetired, "it was given back", "x"))
			r := m.read(q, "a")
			err, over := r.end()
			var said *wire.ErrorDetail
			if !over || !errors.As(err, &said) || said.Code != wire.CodeRetired {
				t.Errorf("follow %v: over %v, %v", q.Follow, over, err)
			}
		})
	}
}

// TestChecks: what cannot be read is refused before a node is asked.
func TestChecks(t *testing.T) {
	inBubble(t, func(m *machine) {
		for _, sources := range [][]string{nil, {"colour"}, {"unit:-x"}, {wire.LogGateway}, {"agent", "agent"},
			{"unit:1", "unit:2", "unit:3", "unit:4", "unit:5", "unit:6", "unit:7", "unit:8", "unit:9"}} {
			err, over := m.read(logs.Query{Sources: sources}, "a").end()
			var said *wire.ErrorDetail
			if !over || !errors.As(err, &said) || said.Code != wire.CodeBadRequest {
				t.Errorf("%q: over %v, %v", sources, over, err)
			}
		}
		if m.times() != 0 {
			t.Error("the node was asked")
		}
	})
	for _, text := range []string{"(", "a{1001}", strings.Repeat("a", logs.MaxGrep+1), `\1`} {
		if _, err := logs.CompileGrep(text); err == nil {
			t.Errorf("%.20q was taken", text)
		}
	}
	if none, err := logs.CompileGrep(""); none != nil || err != nil {
		t.Error(none, err)
	}
}

// TestGrep: in the message and in the fields. What says that lines are missing is never left out.
func TestGrep(t *testing.T) {
	inBubble(t, func(m *machine) {
		field := line(1)
		field.Fields = map[string]string{"task": "xyz"}
		gap := line(2)
		gap.Dropped = 7
		m.write(wire.LogAgent, line(0), field, gap, line(30))
		grep, err := logs.CompileGrep(`task=x|3.`)
		must(t, err)
		q := agent()
		q.Grep = grep
		r := m.read(q, "a")
		same(t, "once", r.messages(), []string{"line 1", "line 2", "line 30"})
		r.ends()
		q.Follow = true
		r = m.read(q, "a")
		m.write(wire.LogAgent, line(31), line(4))
		same(t, "following", r.messages(), []string{"line 1", "line 2", "line 30", "line 31"})
		r.leaves()
	})
}

// TestSources: several sources are merged by time where the log is not followed, and each line says where it comes from.
func TestSources(t *testing.T) {
	inBubble(t, func(m *machine) {
		const unit = "unit:nginx.service"
		m.write(wire.LogAgent, line(0), line(3), line(2), line(6)) // its clock jumped
		m.write(unit, line(1), line(4), line(5))
		q := logs.Query{Sources: []string{wire.LogAgent, unit}, Since: begin}
		r := m.read(q, "a")
		got := r.lines()
		var text []string
		for _, l := range got {
			text = append(text, l.Source+" "+l.Message)
		}
		same(t, "once", text, []string{"agent line 0", unit + " line 1", "agent line 3", "agent line 2", unit + " line 4", unit + " line 5",
			"agent line 6"})
		r.ends()
		q.Limit = 2
		r = m.read(q, "a")
		same(t, "the last 2", r.messages(), []string{"line 5", "line 6"})
		r.ends()
		q.Follow = true
		q.Limit = 3
		r = m.read(q, "a")
		same(t, "what was there", r.messages(), []string{"line 4", "line 5", "line 6"})
		m.write(unit, line(9))
		synctest.Wait()
		m.write(wire.LogAgent, line(8))
		same(t, "as they come", r.messages(), []string{"line 9", "line 8"})
		m.raw(unit, pipe.FrameExit, []byte(`{}`))
		same(t, "one ends", r.messages(), []string{unit + ": the log has ended"})
		m.write(wire.LogAgent, line(10))
		same(t, "the other goes on", r.messages(), []string{"line 10"})
		r.leaves()
	})
}

// TestMany: a long log comes whole and in order, in portions. If only the last lines are asked for and they are too large, it is said.
func TestMany(t *testing.T) {
	inBubble(t, func(m *machine) {
		m.write(wire.LogAgent, lines(0, 5000)...)
		r := m.read(agent(), "a")
		same(t, "all", r.messages(), numbered(0, 5000))
		r.ends()
		var large []wire.LogLine
		for n := range 200 {
			l := line(n)
			l.Message += strings.Repeat(".", 50<<10)
			large = append(large, l)
		}
		m.write("unit:x", large...)
		time.Sleep(time.Second)
		q := logs.Query{Sources: []string{"unit:x"}, Since: begin, Limit: 1000}
		r = m.read(q, "a")
		time.Sleep(time.Minute) // ten MB take more than a second
		got := r.lines()
		if first := got[0]; first.Dropped != int64(200-len(got)+1) || len(got) > 100 {
			t.Errorf("%d lines, the first says that %d are missing", len(got), first.Dropped)
		}
		r.ends()
	})
}

// TestBroken: a log that breaks off while it is read says so in its last line.
func TestBroken(t *testing.T) {
	inBubble(t, func(m *machine) {
		m.write(wire.LogAgent, lines(0, 300)...)
		hold := make(chan struct{})
		r := m.slow(agent(), "a", hold)
		synctest.Wait()
		m.goes(nil)
		close(hold)
		same(t, "what had come", r.messages()[:300], numbered(0, 300))
		r.ends()
	})
}

// TestBounds: readers of one account, sessions in all and those of one node have bounds, and who leaves makes room.
func TestBounds(t *testing.T) {
	inBubble(t, func(m *machine) {
		var all []*reader
		refuses := func(nodeID, who, why string) {
			t.Helper()
			r := m.slowOf(nodeID, follow(), who, nil)
			err, over := r.end()
			var said *wire.ErrorDetail
			if !over || !errors.As(err, &said) || said.Code != wire.CodeTooManyRequests || !strings.Contains(said.Message, why) {
				t.Errorf("over %v, %v", over, err)
			}
		}
		for range 16 {
			all = append(all, m.read(follow(), "one"))
		}
		refuses("id-other", "one", "this account")
		all[0].leaves()
		all[0] = m.read(follow(), "one")
		wide := follow()
		wide.Sources = []string{"unit:1", "unit:2", "unit:3", "unit:4", "unit:5", "unit:6", "unit:7", "unit:8"}
		for n := range 6 {
			all = append(all, m.read(wide, fmt.Sprint("many-", n)))
		}
		refuses("id-n", "other", "of this node")
		for n := range 56 {
			all = append(all, m.slowOf(fmt.Sprint("id-", n/8), wide, fmt.Sprint("all-", n), nil))
		}
		synctest.Wait()
		refuses("id-other", "too many", "too many logs are read")
		for _, r := range all {
			r.leaves()
		}
	})
}

// TestAlive: a reader to whom nothing comes hears that it is not forgotten, also while the node takes its time.
func TestAlive(t *testing.T) {
	inBubble(t, func(m *machine) {
		r := m.read(follow(), "a")
		time.Sleep(46 * time.Second)
		synctest.Wait()
		if r.alive != 3 {
			t.Errorf("%d signs of life in 46 s", r.alive)
		}
		r.leaves()
	})
}

// TestStops: a gateway that stops ends all readers, and lets nobody in after that.
func TestStops(t *testing.T) {
	inBubble(t, func(m *machine) {
		r := m.read(follow(), "a")
		ctx, stop := context.WithCancel(m.t.Context())
		ended := make(chan error)
		go func() { ended <- m.hub.Run(ctx) }()
		stop()
		must(t, <-ended)
		if err, over := r.end(); !over || !errors.Is(err, logs.ErrStopped) {
			t.Errorf("over %v, %v", over, err)
		}
		if got := r.messages(); len(got) != 0 {
			t.Errorf("it says %q, as if the log had ended", got)
		}
		if err, over := m.read(agent(), "b").end(); !over || err == nil {
			t.Error("somebody came in late")
		}
	})
}
