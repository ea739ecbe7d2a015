package logs

import (
	"fmt"
	"testing"
	"time"

	"muster/agent/wire"
)

// TestGapBehindNews: what is missing behind a line that is new was never had, also if known lines did not come again.
func TestGapBehindNews(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	k := newTail(Query{}, wire.LogAgent, at)
	k.fresh([]wire.LogLine{{Time: at, Message: "one"}, {Time: at, Message: "two"}, {Time: at, Message: "three"}})
	k.expect()
	got := k.fresh([]wire.LogLine{{Time: at, Dropped: 2}, {Time: at, Message: "new"}, {Time: at, Dropped: 2}})
	if len(got) != 2 || got[0].Message != "new" || got[1].Dropped != 2 {
		t.Errorf("%+v", got)
	}
}

// TestTailBound: what a reader remembers is bounded, and its last lines are known however many there were.
func TestTailBound(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	k := newTail(Query{}, wire.LogAgent, at)
	numbered := func(from, to int) (lines []wire.LogLine) {
		for n := from; n < to; n++ {
			lines = append(lines, wire.LogLine{Time: at, Message: fmt.Sprint(n)})
		}
		return lines
	}
	const all = 5*tailLines + 7
	k.fresh(numbered(0, all))
	if n := len(k.marks); n < tailLines || n > 2*tailLines {
		t.Errorf("it remembers %d lines", n)
	}
	k.expect()
	if got := k.fresh(numbered(all-tailLines, all+2)); len(got) != 2 || got[0].Message != fmt.Sprint(all) {
		t.Errorf("%d lines are new", len(got))
	}
}

// TestKernelEdge: a node tells times of its kernel a bit differently each time. A line that this moves over the time from which on it is
// asked is known all the same.
func TestKernelEdge(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	k := newTail(Query{}, wire.LogKernel, at)
	k.fresh([]wire.LogLine{{Time: at.Add(-kernelSlack - time.Millisecond), Message: "early"}, {Time: at, Message: "last"}})
	k.expect()
	at = at.Add(5 * time.Millisecond)
	got := k.fresh([]wire.LogLine{{Time: at.Add(-kernelSlack - time.Millisecond), Message: "early"}, {Time: at, Message: "last"}})
	if len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
