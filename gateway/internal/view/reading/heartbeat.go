package reading

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"muster/agent/wire"
)

// Heartbeat is a heartbeat as the gateway works with it. Its Agent, Cost and Hardware replace those of the request: they are decoded,
// and hold nothing that does not fit. Nil: the node did not say it.
type Heartbeat struct {
	wire.HeartbeatRequest
	Agent    *wire.AgentInfo
	Cost     *wire.Cost
	Hardware *wire.Hardware

	TellsEnds bool   // the agent says when its release pointer ends, also if it knows none
	LeftOut   string // a notice that names what did not fit; empty: all did
}

// received is a heartbeat as it came. Agent and Cost are held to a size in bytes before they are decoded.
type received struct {
	wire.HeartbeatRequest
	Agent    json.RawMessage `json:"agent"`
	Cost     json.RawMessage `json:"cost"`
	Hardware *wire.Hardware  `json:"hardware"`
}

// ParseHeartbeat decodes a heartbeat. It refuses what no agent of this protocol sends. It never refuses a value of the machine itself: a
// value that does not fit is left out and named, and the node is still seen. Hardware is large. It is decoded with the rest if all of it
// fits.
func ParseHeartbeat(body []byte) (*Heartbeat, error) {
	if deepest, longest := extent(body); deepest > wire.MaxDepth+1 || longest > maxElements {
		return nil, tooLarge()
	}
	c := &clamp{}
	var came received
	if Decode(body, &came) == nil {
		came.Hardware = held(c, came.Hardware, "hardware")
	} else if err := takeApart(c, body, &came); err != nil {
		return nil, err
	}
	b := &Heartbeat{HeartbeatRequest: came.HeartbeatRequest, Hardware: came.Hardware}
	if err := check(b, came.Agent, came.Cost); err != nil {
		return nil, err
	}
	b.Agent = part[wire.AgentInfo](c, came.Agent, "agent")
	b.TellsEnds = bytes.Contains(came.Agent, []byte(`"release_ends"`)) // null differs from a member that is not there
	b.Cost = part[wire.Cost](c, came.Cost, "cost")
	b.LeftOut = strings.Join(c.notices, "; ")
	return b, nil
}

// takeApart decodes a heartbeat whose hardware does not fit as a whole.
func takeApart(c *clamp, body []byte, into *received) error {
	var came struct {
		received
		Hardware json.RawMessage `json:"hardware"`
	}
	if Decode(body, &came) != nil {
		return wire.Refuse(wire.CodeBadRequest, "the body is not a heartbeat in JSON", "agent and gateway must be of the same protocol")
	}
	if err := CheckObject(came.Hardware); err != nil {
		return err
	}
	*into = came.received
	into.Hardware = part[wire.Hardware](c, came.Hardware, "hardware")
	return nil
}

// check refuses values that are out of bounds.
func check(b *Heartbeat, agent, cost json.RawMessage) error {
	bad := func(what, hint string) error { return wire.Refuse(wire.CodeBadRequest, what, hint) }
	switch {
	case !runID(b.RunID):
		return bad("the run id is not 8 to 64 letters, digits and dashes", "it is random, new with every start of the agent")
	case !(b.IntervalSeconds > 0 && b.IntervalSeconds <= wire.MaxPace.Seconds()):
		return bad("the interval is not between 0 and an hour", "interval_seconds is the pace that the agent keeps")
	case b.SkewMillis > wire.MaxSkewMillis || b.SkewMillis < -wire.MaxSkewMillis:
		return bad("the skew is out of bounds", "skew_ms is the gateway's clock minus the node's")
	case len(agent) > wire.MaxSelf || len(cost) > wire.MaxSelf || CheckObject(agent) != nil || CheckObject(cost) != nil:
		return bad("agent and cost are not small objects", "each is an object of at most 1024 bytes and 16 levels")
	case len(b.Notices) > wire.MaxNotices || len(b.Health) > wire.MaxNotices || len(strings.Join(b.Notices, "")) > wire.MaxNoticeBytes:
		return bad("too many notices, or too many entries of health", "at most 16 of each, the notices together 8 KiB")
	case len(b.Unshipped) > wire.MaxUnshipped:
		return bad("too many sources that are not shipped", "at most 16")
	case b.Update != nil:
		return wire.CheckUpdate(b.Update)
	}
	return nil
}

func runID(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
	return len(s) >= wire.MinRunID && len(s) <= wire.MaxRunID && strings.Trim(s, letters) == ""
}

// Decode reads a body. JSON is UTF-8 (RFC 8259 section 8.1), but encoding/json accepts other bytes.
func Decode(body []byte, into any) error {
	if !utf8.Valid(body) {
		return errors.New("not UTF-8")
	}
	return json.Unmarshal(body, into)
}

// CheckObject accepts a member that is absent, null, or an object that is neither nested too deeply nor has too long a list.
func CheckObject(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if deepest, longest := extent(raw); raw[0] != '{' || deepest > wire.MaxDepth || longest > maxElements {
		return tooLarge()
	}
	return nil
}

func tooLarge() error {
	return wire.Refuse(wire.CodeBadRequest, "hardware is not an object of at most 1 MiB and 16 levels, with lists of at most 16384",
		"leave it out where there is no reading")
}

// maxElements is how many elements a list may have as it comes, more than any list that is kept. Each costs many times its bytes to decode.
const maxElements = 16 << 10

// extent returns how many levels JSON has, and how many elements its longest list or object has. Whether it is well-formed shows later.
func extent(raw []byte) (deepest, longest int) {
	level := 0
	text := false
	var elements [wire.MaxDepth + 3]int // on each level; what is deeper is refused
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == ',':
			at := min(level, len(elements)-1)
			elements[at]++
			longest = max(longest, elements[at]+1)
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
			elements[min(level, len(elements)-1)] = 0
		case c == '}' || c == ']':
			level = max(level-1, 0)
		}
	}
	return deepest, longest
}
