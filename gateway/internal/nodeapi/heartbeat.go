package nodeapi

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"muster/agent/wire"
)

// heartbeat is wire.HeartbeatRequest with what nobody has asked to read left as it came.
type heartbeat struct {
	wire.HeartbeatRequest
	Agent json.RawMessage `json:"agent"`
	Cost  json.RawMessage `json:"cost"`

	scanned bool // Hardware was cut out, and is well-formed and not too deep
}

// readHeartbeat decodes a heartbeat without its reading, which is most of it: that is checked in one pass and kept as it
// came. Where the cut and encoding/json could understand two things (a key twice, in another case, or escaped) the whole
// body is decoded.
func readHeartbeat(body []byte) (b heartbeat, err error) {
	rest, hardware, ok := cutMember(body, "hardware")
	if ok {
		if err := decode(rest, &b); err != nil {
			return b, err
		}
		if b.Hardware == nil && utf8.Valid(hardware) {
			b.Hardware, b.scanned = hardware, true
			return b, nil
		}
		b = heartbeat{}
	}
	return b, decode(body, &b)
}

func checkHeartbeat(b *heartbeat) error {
	bad := func(what, hint string) error { return refuse(wire.CodeBadRequest, what, hint) }
	switch {
	case !runID(b.RunID):
		return bad("the run id is not 8 to 64 letters, digits and dashes", "it is random, new with every start of the agent")
	case !(b.IntervalSeconds > 0 && b.IntervalSeconds <= maxPace):
		return bad("the interval is not between 0 and an hour", "interval_seconds is the pace that the agent keeps")
	case b.SkewMillis > maxSkew || b.SkewMillis < -maxSkew:
		return bad("the skew is out of bounds", "skew_ms is the gateway's clock minus the node's")
	case len(b.Agent) > maxAgent || len(b.Cost) > maxAgent || !object(b.Agent) || !object(b.Cost):
		return bad("agent and cost are not small objects", "see wire.HeartbeatRequest")
	case len(b.Notices) > maxNotices || len(b.Health) > maxNotices || len(strings.Join(b.Notices, "")) > 8192:
		return bad("too many notices", "at most 16, 8 KiB together")
	}
	if b.scanned && len(b.Hardware) <= maxHardware && b.Hardware[0] == '{' {
		return nil
	}
	return checkHardware(b.Hardware)
}

func runID(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return len(s) >= 8 && len(s) <= 64
}
