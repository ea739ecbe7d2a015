package logs

import (
	"slices"
	"time"

	"muster/agent/wire"
)

// lineCost is what a line takes in memory beside its text, about.
const lineCost = 256

func cost(l wire.LogLine) int {
	n := lineCost + len(l.Message)
	for name, value := range l.Fields {
		n += len(name) + len(value) + 32
	}
	return n
}

// ring keeps the last lines of a stream. Lines have numbers that go on by one.
type ring struct {
	most  int // bytes
	lines []wire.LogLine
	bytes int
	first int64     // the number of lines[0]
	lost  int64     // lines of the node in front of it
	gone  time.Time // the latest time that a line had which is not kept any more; zero: all are
}

// stands is how many lines of the node a line stands for.
func stands(l wire.LogLine) int64 {
	if l.Source == wire.LogGateway {
		return 0
	}
	return max(l.Dropped, 1)
}

// place is behind some lines of a stream: so many of its ring, which stand for so many of the node.
type place struct{ number, lines int64 }

// behind goes on over lines.
func (p place) behind(lines []wire.LogLine) place {
	p.number += int64(len(lines))
	for _, l := range lines {
		p.lines += stands(l)
	}
	return p
}

// begin is in front of what is kept.
func (r *ring) begin() place { return place{r.first, r.lost} }

// add adds lines. The newest stays, however large it is.
func (r *ring) add(lines []wire.LogLine) {
	for _, l := range lines {
		r.lines = append(r.lines, l)
		r.bytes += cost(l)
	}
	r.trim()
}

func (r *ring) trim() {
	for r.bytes > r.most && len(r.lines) > 1 {
		r.drop()
	}
}

// forget keeps so many lines at most.
func (r *ring) forget(most int) {
	for len(r.lines) > most {
		r.drop()
	}
}

// drop drops the oldest line.
func (r *ring) drop() {
	old := r.lines[0]
	r.bytes -= cost(old)
	if old.Time.After(r.gone) {
		r.gone = old.Time
	}
	r.lines[0] = wire.LogLine{} // its text goes too
	r.lines = r.lines[1:]
	r.first++
	r.lost += stands(old)
}

// text names what a line says: its level and all texts, and not its time.
func text(l wire.LogLine) string {
	all := l.Level + "\x00" + l.Message
	if len(l.Fields) > 0 {
		all += "\x00" + fieldsText(l.Fields)
	}
	return all
}

// known are lines that may come again: the times at which each text was written, the earliest first.
type known struct {
	at    map[string][]time.Time
	slack time.Duration // by which the node may tell another time for the same line
	owed  int64         // so many have not come again, and no new line has come either
}

// known gives the lines from a time on. A node that is asked again from there sends them again.
func (r *ring) known(since time.Time, slack time.Duration) known {
	k := known{at: map[string][]time.Time{}, slack: slack}
	for _, l := range r.lines {
		if l.Source != wire.LogGateway && l.Dropped == 0 && !l.Time.Before(since) {
			k.at[text(l)] = append(k.at[text(l)], l.Time)
			k.owed++
		}
	}
	return k
}

// fresh leaves out lines that are known, each as often as it is known. The oldest come first: so what is missing in front of all that is
// new is, first of all, what is known.
func (k *known) fresh(lines []wire.LogLine) []wire.LogLine {
	if len(k.at) == 0 {
		return lines
	}
	fresh := lines[:0]
	for _, l := range lines {
		switch {
		case l.Dropped > 0:
			less := min(l.Dropped, k.owed)
			k.owed -= less
			if l.Dropped -= less; l.Dropped == 0 {
				continue
			}
		case k.has(l):
			k.owed = max(k.owed-1, 0)
			continue
		default:
			k.owed = 0
		}
		fresh = append(fresh, l)
	}
	return fresh
}

// has tells whether a line is known, and takes it off.
func (k *known) has(l wire.LogLine) bool {
	said := text(l)
	times := k.at[said]
	i := slices.IndexFunc(times, func(at time.Time) bool { return l.Time.Sub(at).Abs() <= k.slack })
	if i < 0 {
		return false
	}
	if k.at[said] = slices.Delete(times, i, i+1); len(times) == 1 {
		delete(k.at, said)
	}
	return true
}

// last gives the node's time of its last line.
func (r *ring) last() (time.Time, bool) {
	for i := len(r.lines) - 1; i >= 0; i-- {
		if l := r.lines[i]; l.Source != wire.LogGateway && l.Dropped == 0 {
			return l.Time, true
		}
	}
	return time.Time{}, false
}
