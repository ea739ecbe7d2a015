package logs

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"muster/agent/wire"
)

const (
	remembered = 8192             // lines of one node
	catchUp    = 10 * time.Second // by the gateway's clock: after that no line is one from before

	// kernelSlack is by how much a node may tell another time for the same line of the kernel, whose clock counts from its start.
	kernelSlack = time.Second
)

// memory keeps the marks of the last lines, to leave them out where they come again.
type memory struct {
	marks []mark // the oldest first
	last  map[string]time.Time

	known    map[[sha256.Size]byte][]time.Time // that may come again; nil: nothing does
	catching map[string]time.Time              // the last line of each source before the break
	owed     map[string]int64                  // so many lines of each source have not come again, and no new one has come either
	began    time.Time                         // the first line after the break, by the gateway's clock
}

// mark names a line: its source and all texts, and the node's time.
type mark struct {
	source string
	text   [sha256.Size]byte
	at     time.Time
}

func markOf(l wire.LogLine) mark {
	m := mark{source: l.Source, at: l.Time}
	l.Received = nil
	l.Time = time.Time{}
	if raw, err := json.Marshal(l); err == nil {
		m.text = sha256.Sum256(raw)
	}
	return m
}

func slackOf(source string) time.Duration {
	if source == wire.LogKernel {
		return kernelSlack
	}
	return 0
}

// since is from when on the lines are asked for again: the last line of the source that has been quiet for longest.
func (m *memory) since() time.Time {
	var least time.Time
	for source, at := range m.last {
		at = at.Add(-slackOf(source))
		if least.IsZero() || at.Before(least) {
			least = at
		}
	}
	return least
}

// again says that lines come again which are known.
func (m *memory) again() {
	m.known = map[[sha256.Size]byte][]time.Time{}
	m.owed = map[string]int64{}
	since := m.since()
	for _, one := range m.marks {
		m.known[one.text] = append(m.known[one.text], one.at)
		if !one.at.Before(since) {
			m.owed[one.source]++
		}
	}
	m.catching = map[string]time.Time{}
	for source, at := range m.last {
		m.catching[source] = at.Add(-slackOf(source))
	}
	m.began = time.Time{}
}

// fresh tells whether a line is new, and remembers it then. Of several sources, the one that wrote last has lines between the time that
// was asked for and its own last line: those are known, also if they are no longer remembered.
func (m *memory) fresh(l wire.LogLine, several bool) bool {
	one := markOf(l)
	if m.known != nil && m.isKnown(l, one, several) {
		m.owed[l.Source] = max(m.owed[l.Source]-1, 0)
		return false
	}
	delete(m.owed, l.Source)
	m.marks = append(m.marks, one)
	if len(m.marks) > 2*remembered {
		m.marks = append([]mark(nil), m.marks[remembered:]...)
	}
	if m.last == nil {
		m.last = map[string]time.Time{}
	}
	m.last[l.Source] = l.Time
	return true
}

// missing is how many of the lines that are missing nobody has seen. The oldest come first: so what is missing in front of all that is new
// is, first of all, what is known.
func (m *memory) missing(l wire.LogLine) int64 {
	known := min(l.Dropped, m.owed[l.Source])
	if known > 0 {
		m.owed[l.Source] -= known
	}
	return l.Dropped - known
}

func (m *memory) isKnown(l wire.LogLine, one mark, several bool) bool {
	received := l.Time
	if l.Received != nil {
		received = *l.Received
	}
	if m.began.IsZero() {
		m.began = received
	}
	if received.Sub(m.began) > catchUp {
		m.known = nil
		return false
	}
	times := m.known[one.text]
	i := slices.IndexFunc(times, func(at time.Time) bool { return one.at.Sub(at).Abs() <= slackOf(l.Source) })
	if i >= 0 {
		m.known[one.text] = slices.Delete(times, i, i+1)
		return true
	}
	return several && l.Time.Before(m.catching[l.Source])
}
