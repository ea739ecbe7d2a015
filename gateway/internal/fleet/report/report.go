// Package report tells which part of a heartbeat is stored, besides the fact that the node lives: its report. A report is stored when it
// has changed, or now and then. Figures that differ in each heartbeat are no change.
package report

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/view"
	"muster/gateway/internal/view/reading"
	"muster/store"
)

// Digest stands for a report without those figures. The zero value means that there is no report.
type Digest [sha256.Size]byte

// Of returns the digest of a heartbeat's report. last is the node's last reading; nil: there is none.
func Of(s *view.Sample, last *wire.Hardware) Digest {
	part := struct {
		Interval time.Duration
		Skew     int64 // in minutes
		Address  string
		Agent    *wire.AgentInfo
		Starts   *wire.Starts
		Notices  []string
		Hardware *wire.Hardware
	}{s.Interval, s.SkewMillis / time.Minute.Milliseconds(), s.Address, s.Agent, nil, s.Notices, reading.Steady(last)}
	if s.Cost != nil {
		part.Starts = s.Cost.Starts
	}
	return sha256.Sum256([]byte(Text(&part)))
}

// Pending is a heartbeat that is to be stored, and what is to be stored with it.
type Pending struct {
	view.Sample
	Raise   int // the number to which it raises the record of the node's GPUs; 0: the record stays
	Runs    []store.Run
	Again   bool           // it was stored and handed on: only its report waits
	Reading *wire.Hardware // the node's last one in memory; nil: there is none
	Digest  Digest         // of the report that the database has; of its own, after Row
	Whole   bool           // the report is to be stored: it was stored long ago, or, after Row, it has changed
}

// Row returns the row to store.
func (p *Pending) Row() store.Beat {
	b := store.Beat{NodeID: p.NodeID, At: p.At, RunID: p.RunID, Counter: p.Counter, SkewMillis: p.SkewMillis,
		Enrolment: p.Enrolment, RaiseGPUs: p.Raise, Runs: p.Runs}
	stored := p.Digest
	p.Digest = Of(&p.Sample, p.Reading)
	p.Whole = p.Whole || p.Digest != stored
	if b.Alive = !p.Whole; b.Alive {
		return b
	}
	b.Interval = p.Interval
	b.Address = p.Address
	b.Agent = Text(p.Agent)
	b.Cost = Text(p.Cost)
	b.Notices = p.Notices
	b.Hardware = Text(p.Reading)
	return b
}

// Show replaces what the database says of a node by its last heartbeat. last is the reading in memory; nil: there is none.
func Show(n *store.Node, s *view.Sample, last *wire.Hardware) {
	n.LastSeen = &s.At
	n.Interval = s.Interval
	n.RunID = s.RunID
	n.Counter = s.Counter
	n.SkewMillis = &s.SkewMillis
	n.Address = s.Address
	n.Agent = Text(s.Agent)
	n.Notices = s.Notices
	Past(n)
	n.Cost = Text(s.Cost)
	if last != nil {
		n.Hardware = Text(last)
	}
}

// Past removes from a node's row the values that its last heartbeat did not have, and that do not say how old they are.
func Past(n *store.Node) {
	if n.ReportedAt == nil {
		return
	}
	var c wire.Cost
	if json.Unmarshal([]byte(n.Cost), &c) == nil {
		n.Cost = Text(&wire.Cost{Starts: c.Starts})
	}
	var h wire.Hardware
	if json.Unmarshal([]byte(n.Hardware), &h) == nil {
		n.Hardware = Text(reading.Past(&h))
	}
}

// Text returns a part of a heartbeat as text for the database; empty: the heartbeat did not have it.
func Text[T any](part *T) string {
	if part == nil {
		return ""
	}
	var text strings.Builder
	if json.NewEncoder(&text).Encode(part) != nil { // nothing that was decoded from JSON
		return ""
	}
	return strings.TrimSuffix(text.String(), "\n")
}
