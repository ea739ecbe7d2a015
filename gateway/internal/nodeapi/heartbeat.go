package nodeapi

import (
	"encoding/json"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/reading"
)

// checkHeartbeat refuses what no agent of this protocol sends. Values of the machine itself are never refused: see reportOf.
func checkHeartbeat(b *reading.Heartbeat) error {
	bad := func(what, hint string) error { return wire.Refuse(wire.CodeBadRequest, what, hint) }
	switch {
	case !runID(b.RunID):
		return bad("the run id is not 8 to 64 letters, digits and dashes", "it is random, new with every start of the agent")
	case !(b.IntervalSeconds > 0 && b.IntervalSeconds <= wire.MaxPace.Seconds()):
		return bad("the interval is not between 0 and an hour", "interval_seconds is the pace that the agent keeps")
	case b.SkewMillis > wire.MaxSkewMillis || b.SkewMillis < -wire.MaxSkewMillis:
		return bad("the skew is out of bounds", "skew_ms is the gateway's clock minus the node's")
	case len(b.Agent) > wire.MaxSelf || len(b.Cost) > wire.MaxSelf || !shallow(b, b.Agent) || !shallow(b, b.Cost):
		return bad("agent and cost are not small objects", "each is an object of at most 1024 bytes and 16 levels")
	case len(b.Notices) > wire.MaxNotices || len(b.Health) > wire.MaxNotices || len(strings.Join(b.Notices, "")) > wire.MaxNoticeBytes:
		return bad("too many notices, or too many entries of health", "at most 16 of each, the notices together 8 KiB")
	case len(b.Unshipped) > wire.MaxUnshipped:
		return bad("too many sources that are not shipped", "at most 16")
	case b.Update != nil && wire.CheckUpdate(b.Update) != nil:
		return wire.CheckUpdate(b.Update)
	}
	if b.Scanned && len(b.Hardware) <= maxHardware && shallow(b, b.Hardware) {
		return nil
	}
	return checkHardware(b.Hardware)
}

// shallow tells whether a member is an object that is not too deep. The scanner has checked the depth of what it read.
func shallow(b *reading.Heartbeat, raw json.RawMessage) bool {
	return b.Scanned && len(raw) > 0 && raw[0] == '{' || object(raw)
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
