package reading

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"muster/agent/wire"
)

// Heartbeat is a wire.HeartbeatRequest with the JSON of agent, cost and hardware as it came: most of it is replaced before anybody
// reads it, so decoding it would be wasted.
type Heartbeat struct {
	wire.HeartbeatRequest
	Agent json.RawMessage `json:"agent"`
	Cost  json.RawMessage `json:"cost"`

	// Scanned is true where one pass read all of it. Then agent, cost and hardware are well-formed, and not nested too deeply.
	Scanned bool `json:"-"`

	AgentFits    bool    `json:"-"` // agent has its shape; false also where the pass did not find out
	CostFits     bool    `json:"-"`
	HardwareFits bool    `json:"-"`
	Seen         Summary `json:"-"` // of the hardware, if that fits
}

// ParseHeartbeat reads a heartbeat. One pass reads those that muster agents send, and checks the parts that are kept as they came. If
// the pass could understand a text in another way than encoding/json (a key twice, in another case, or escaped), encoding/json decides.
func ParseHeartbeat(body []byte) (b Heartbeat, err error) {
	if b, ok := scanHeartbeat(body); ok {
		return b, nil
	}
	err = Decode(body, &b)
	return b, err
}

// Decode reads a body. JSON is UTF-8 (RFC 8259 section 8.1), but encoding/json accepts other bytes. Parts of the body become parts of
// answers as they came, and must not break these.
func Decode(body []byte, into any) error {
	if !utf8.Valid(body) {
		return errors.New("not UTF-8")
	}
	return json.Unmarshal(body, into)
}

// Nonce reads the nonce of a register request in one pass. ok is false where the body has a member that a wire.RegisterRequest does
// not have, or where encoding/json could find another nonce.
func Nonce(body []byte) (nonce string, ok bool) {
	s := Scan(body)
	for s.Next() {
		switch string(s.Name) {
		case "nonce":
			nonce, ok = s.Plain()
		case "protocol", "name", "time", "csr", "labels", "provider", "instance_id", "hardware", "agent":
		default:
			return "", false
		}
	}
	return nonce, ok && s.Whole()
}

// scanHeartbeat reads a heartbeat in one pass. ok is false where it has a member that is unknown, or a member twice.
func scanHeartbeat(body []byte) (b Heartbeat, ok bool) {
	s := Scan(body)
	s.Shapes = shapes
	var seen [13]bool
	for s.Next() {
		at, ok := b.member(s)
		if !ok || seen[at] {
			return Heartbeat{}, false
		}
		seen[at] = true
	}
	b.Scanned = true
	return b, s.Whole() && utf8.Valid(body)
}

// shapes gives the shape of a member that is kept as it came; nil for the others.
func shapes(name []byte) *Shape {
	switch string(name) {
	case "agent":
		return Agent
	case "cost":
		return Cost
	case "hardware":
		return Hardware
	}
	return nil
}

// member reads one member into b, and returns its number: scanHeartbeat finds a member that comes twice by it.
func (b *Heartbeat) member(s *Scanner) (at int, ok bool) {
	value := s.Value
	name := string(s.Name)
	if string(value) == "null" { // encoding/json decides what it means, except in health: every run begins with that
		return 7, name == "health"
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
		b.Agent = value
		b.AgentFits = s.Fits
		return 4, true
	case "cost":
		b.Cost = value
		b.CostFits = s.Fits
		return 5, true
	case "notices":
		return 6, texts(value, &b.Notices)
	case "health":
		return 7, texts(value, &b.Health)
	case "hardware":
		b.Hardware = value
		b.HardwareFits = s.Fits
		b.Seen = s.Seen
		return 8, true
	case "gpus_seen":
		n, err := strconv.ParseInt(string(value), 10, strconv.IntSize)
		seen := int(n)
		b.GPUsSeen = &seen
		return 9, err == nil
	case "health_detail":
		return 10, json.Unmarshal(value, &b.HealthDetail) == nil
	case "update":
		return 11, b.update(value)
	case "unshipped":
		return 12, json.Unmarshal(value, &b.Unshipped) == nil
	}
	return 0, false
}

// texts reads an array of strings. Most are empty, so that case does not use encoding/json.
func texts(value []byte, into *[]string) bool {
	if string(value) == "[]" {
		*into = []string{}
		return true
	}
	return json.Unmarshal(value, into) == nil
}
