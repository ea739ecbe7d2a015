package logs

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"muster/agent/wire"
)

const (
	tailLines   = 4096
	kernelSlack = time.Second // a kernel counts from its start: what time that is, a node says a bit differently each time
)

// tail remembers the last lines of a source, so that a node is asked from the last one on, and its lines do not come twice.
type tail struct {
	since time.Time     // from when on the first session is
	slack time.Duration // by which the node may tell another time for the same line
	seed  maphash.Seed
	marks []mark // of at least tailLines, if there are so many

	again map[uint64][]time.Time // when lines were written that may come again, the earliest first, by what they say
	owed  int64                  // so many have not come again, and no new line has come either
}

// mark is what is remembered of a line: its time, and what it says.
type mark struct {
	at   time.Time
	says uint64
}

func newTail(q Query, source string, now time.Time) tail {
	t := tail{since: q.Since, seed: maphash.MakeSeed()}
	switch {
	case source == wire.LogKernel:
		t.slack = kernelSlack
	case source != wire.LogAgent && q.Since.IsZero():
		t.since = now.Add(-usualBack)
	}
	return t
}

// from is the time from which on the node is asked.
func (t *tail) from() time.Time {
	if len(t.marks) == 0 {
		return t.since
	}
	return t.marks[len(t.marks)-1].at.Add(-t.slack)
}

// expect is called when a node is asked again.
func (t *tail) expect() {
	from := t.from()
	t.owed = 0
	t.again = map[uint64][]time.Time{}
	for _, m := range t.marks {
		if !m.at.Before(from.Add(-t.slack)) {
			t.again[m.says] = append(t.again[m.says], m.at)
		}
		if !m.at.Before(from) {
			t.owed++
		}
	}
}

// fresh leaves out lines that are known, each as often as it is known, and remembers the others. The oldest come first: so what is missing
// in front of all that is new is, first of all, what is known.
func (t *tail) fresh(lines []wire.LogLine) []wire.LogLine {
	fresh := lines[:0]
	for _, l := range lines {
		m := mark{l.Time, maphash.String(t.seed, fmt.Sprint(l.Level, "\x00", l.Message, "\x00", l.Fields))} // a map is printed in order
		switch {
		case l.Dropped > 0:
			known := min(l.Dropped, t.owed)
			t.owed -= known
			if l.Dropped -= known; l.Dropped == 0 {
				continue
			}
		case t.comesAgain(m):
			t.owed = max(t.owed-1, 0)
			continue
		default:
			t.owed = 0
			if len(t.marks) == 2*tailLines {
				t.marks = slices.Delete(t.marks, 0, tailLines)
			}
			t.marks = append(t.marks, m)
		}
		fresh = append(fresh, l)
	}
	return fresh
}

// comesAgain tells whether a line is known, and takes it off.
func (t *tail) comesAgain(m mark) bool {
	times := t.again[m.says]
	i := slices.IndexFunc(times, func(at time.Time) bool { return m.at.Sub(at).Abs() <= t.slack })
	if i < 0 {
		return false
	}
	t.again[m.says] = slices.Delete(times, i, i+1)
	return true
}
