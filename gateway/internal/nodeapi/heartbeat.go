package nodeapi

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"muster/agent/wire"
	"muster/gateway/internal/reading"
)

// heartbeat is wire.HeartbeatRequest with what nobody has asked to read left as it came.
type heartbeat struct {
	wire.HeartbeatRequest
	Agent json.RawMessage `json:"agent"`
	Cost  json.RawMessage `json:"cost"`

	scanned bool // Hardware, Agent and Cost are well-formed and not too deep

	agentFits, costFits, hardwareFits bool            // they have their shapes
	seen                              reading.Summary // of Hardware, where that fits
}

// readHeartbeat decodes a heartbeat. The usual ones are read in one pass, in which what is kept as it came is checked; where
// that pass and encoding/json could understand two things (a key twice, in another case, or escaped) the latter has the word.
func readHeartbeat(body []byte) (b heartbeat, err error) {
	if b, ok := scanHeartbeat(body); ok {
		return b, nil
	}
	return b, decode(body, &b)
}

// scanHeartbeat reads what this agent's heartbeats are made of, each member at most once.
func scanHeartbeat(body []byte) (b heartbeat, ok bool) {
	s := reading.Scan(body)
	s.Shapes = shapes
	var seen [11]bool
	for s.Next() {
		at, ok := b.member(s)
		if !ok || seen[at] {
			return heartbeat{}, false
		}
		seen[at] = true
	}
	b.scanned = true
	return b, s.Whole() && utf8.Valid(body)
}

// shapes are those of the members that are kept as they came.
func shapes(name []byte) *reading.Shape {
	switch string(name) {
	case "agent":
		return reading.Agent
	case "cost":
		return reading.Cost
	case "hardware":
		return reading.Hardware
	}
	return nil
}

// member takes one member over and gives its place among them.
func (b *heartbeat) member(s *reading.Scanner) (at int, ok bool) {
	value, name := s.Value, string(s.Name)
	if string(value) == "null" { // means another thing for each
		return 7, name == "health" // not looked yet: every run begins with it
	}
	switch name {
	case "run_id":
		b.RunID, ok = s.Plain()
		return 0, ok
	case "counter":
		n, err := strconv.ParseUint(string(value), 10, 64)
		b.Counter = n
		return 1, err == nil
	case "interval_seconds":
		f, err := strconv.ParseFloat(string(value), 64)
		b.IntervalSeconds = f
		return 2, err == nil
	case "skew_ms":
		n, err := strconv.ParseInt(string(value), 10, 64)
		b.SkewMillis = n
		return 3, err == nil
	case "agent":
		b.Agent, b.agentFits = value, s.Fits
		return 4, true
	case "cost":
		b.Cost, b.costFits = value, s.Fits
		return 5, true
	case "notices":
		return 6, list(value, &b.Notices)
	case "health":
		return 7, list(value, &b.Health)
	case "hardware":
		b.Hardware, b.hardwareFits, b.seen = value, s.Fits, s.Seen
		return 8, true
	case "gpus_seen":
		n, err := strconv.ParseInt(string(value), 10, strconv.IntSize)
		seen := int(n)
		b.GPUsSeen = &seen
		return 9, err == nil
	case "health_detail":
		return 10, json.Unmarshal(value, &b.HealthDetail) == nil
	}
	return 0, false
}

// list reads an array of strings, which is mostly empty.
func list(value []byte, into *[]string) bool {
	if string(value) == "[]" {
		*into = []string{}
		return true
	}
	return json.Unmarshal(value, into) == nil
}

func checkHeartbeat(b *heartbeat) error {
	bad := func(what, hint string) error { return wire.Refuse(wire.CodeBadRequest, what, hint) }
	switch {
	case !runID(b.RunID):
		return bad("the run id is not 8 to 64 letters, digits and dashes", "it is random, new with every start of the agent")
	case !(b.IntervalSeconds > 0 && b.IntervalSeconds <= wire.MaxPace.Seconds()):
		return bad("the interval is not between 0 and an hour", "interval_seconds is the pace that the agent keeps")
	case b.SkewMillis > wire.MaxSkewMillis || b.SkewMillis < -wire.MaxSkewMillis:
		return bad("the skew is out of bounds", "skew_ms is the gateway's clock minus the node's")
	case len(b.Agent) > wire.MaxSelf || len(b.Cost) > wire.MaxSelf || !b.object(b.Agent) || !b.object(b.Cost):
		return bad("agent and cost are not small objects", "see wire.HeartbeatRequest")
	case len(b.Notices) > wire.MaxNotices || len(b.Health) > wire.MaxNotices || len(strings.Join(b.Notices, "")) > wire.MaxNoticeBytes:
		return bad("too many notices", "at most 16, 8 KiB together")
	}
	if b.scanned && len(b.Hardware) <= maxHardware && b.object(b.Hardware) {
		return nil
	}
	return checkHardware(b.Hardware)
}

// object is the function of that name for a member; what was scanned is known not to be too deep.
func (b *heartbeat) object(raw json.RawMessage) bool {
	return b.scanned && len(raw) > 0 && raw[0] == '{' || object(raw)
}

func runID(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return len(s) >= wire.MinRunID && len(s) <= wire.MaxRunID
}
