package logs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/logs"
)

// TestAway: a node that goes away is followed again when it is back. No line comes twice and none is missing, also if lines have the
// same time, or the same text.
func TestAway(t *testing.T) {
	inBubble(t, func(m *machine) {
		twin := line(2)
		twin.Message = "twin"
		m.write(wire.LogAgent, line(0), line(1), line(2), twin, twin)
		r := m.read(follow(), "a")
		same(t, "before", r.messages(), []string{"line 0", "line 1", "line 2", "twin", "twin"})
		m.goes(wire.Refuse(wire.CodeUnavailable, "the node is stale", "x"))
		time.Sleep(time.Minute)
		got := r.lines()
		if len(got) != 1 || got[0].Source != wire.LogGateway || !strings.Contains(got[0].Message, "not heard") {
			t.Errorf("while it is away: %+v", got)
		}
		m.write(wire.LogAgent, twin, line(3))
		m.comes()
		time.Sleep(time.Minute)
		same(t, "after", r.messages(), []string{"agent: the node is heard again", "twin", "line 3"})
		m.goes(nil)
		time.Sleep(3 * time.Second)
		m.write(wire.LogAgent, line(4))
		same(t, "after a break that nobody noticed", r.messages(), []string{"line 4"})
		r.leaves()
	})
}

// TestMissingOnce: a line that a reader has is not counted as missing, where the node has dropped it and more while it was away.
func TestMissingOnce(t *testing.T) {
	inBubble(t, func(m *machine) {
		twin := line(1)
		twin.Message = "twin"
		m.write(wire.LogAgent, line(0), line(1), twin)
		r := m.read(follow(), "a")
		r.messages()
		for i, test := range []struct{ dropped, told int64 }{{5, 3}, {3, 2}, {1, 0}} { // two lines have the last time, and then one
			m.goes(nil)
			m.mu.Lock()
			m.log[wire.LogAgent] = []wire.LogLine{{Time: line(99).Time, Source: wire.LogAgent, Dropped: test.dropped}, line(51 + i)}
			m.mu.Unlock()
			time.Sleep(time.Minute)
			told := int64(0)
			got := r.lines()
			for _, l := range got {
				told += l.Dropped
			}
			if last := got[len(got)-1].Message; told != test.told || last != fmt.Sprint("line ", 51+i) {
				t.Errorf("%d are dropped: told of %d, then %s", test.dropped, told, last)
			}
		}
		r.leaves()
	})
}

// TestClockJumps: lines come in the order in which the node sends them, whatever their times say, also over a break.
func TestClockJumps(t *testing.T) {
	inBubble(t, func(m *machine) {
		past := line(-1_000_000)
		past.Message = "past"
		m.write(wire.LogAgent, line(0), line(1))
		r := m.read(follow(), "a")
		m.write(wire.LogAgent, past, line(2))
		same(t, "a jump back and forth", r.messages(), []string{"line 0", "line 1", "past", "line 2"})
		m.write(wire.LogAgent, past)
		r.messages()
		m.goes(nil)
		time.Sleep(3 * time.Second)
		m.write(wire.LogAgent, line(3))
		got := r.lines()
		if last := got[len(got)-1]; len(got) != 1 || last.Message != "line 3" || last.Received.Before(begin.AddDate(-30, 0, 0)) {
			t.Errorf("after a break: %+v", got)
		}
		for _, l := range got {
			if l.Received == nil || time.Until(*l.Received).Abs() > time.Minute {
				t.Errorf("%q was received at %v", l.Message, l.Received)
			}
		}
		r.leaves()
	})
}

// TestKernel: a node tells a bit different times for the same line of the kernel each time. No line comes twice for that.
func TestKernel(t *testing.T) {
	inBubble(t, func(m *machine) {
		m.drift = 9 * time.Millisecond
		m.write(wire.LogKernel, lines(0, 5)...)
		r := m.read(logs.Query{Sources: []string{wire.LogKernel}, Follow: true}, "a")
		same(t, "at first", r.messages(), numbered(0, 5))
		for n := 5; n < 8; n++ {
			m.write(wire.LogKernel, line(n))
			m.goes(nil)
			time.Sleep(3 * time.Second)
		}
		same(t, "after breaks", r.messages(), numbered(5, 8))
		r.leaves()
	})
}
