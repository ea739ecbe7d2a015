package nodeapi

import (
	"bytes"
	"encoding/json"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/reading"
)

// reportOf keeps those parts of a heartbeat that have the right shape, and names the parts that it leaves out. A node with one bad value
// is still seen: the heartbeat is not refused.
func reportOf(b *reading.Heartbeat) fleet.Report {
	var left []string
	r := fleet.Report{
		Agent: held(reading.Agent, b.Agent, b.AgentFits, "agent", &left),
		Cost:  held(reading.Cost, b.Cost, b.CostFits, "cost", &left),
	}
	if hollow(b.Hardware) {
		b.Hardware = nil
	} else {
		r.Hardware = held(reading.Hardware, b.Hardware, b.HardwareFits, "hardware", &left)
		if !b.HardwareFits {
			b.Seen = reading.Summarise(r.Hardware)
		}
		r.Probe = b.Seen.State
		r.GPUs = b.Seen.GPUs
		r.Expected = b.Seen.Expected
		r.Ills = b.Seen.Ills
	}
	r.LeftOut = strings.Join(left, "; ")
	return r
}

// held gives the part of a member that has the right shape, and adds the names of the rest to left.
func held(shape *reading.Shape, raw json.RawMessage, fits bool, name string, left *[]string) string {
	if fits || len(raw) == 0 || string(raw) == "null" {
		return string(raw)
	}
	text, without := shape.Mend(string(raw))
	if len(without) > 0 {
		*left = append(*left, reading.LeftOut(name, without))
	}
	return text
}

// hollow tells whether a reading carries nothing. Such a reading must not replace an earlier one that carries something.
func hollow(raw json.RawMessage) bool {
	text := bytes.TrimSpace(raw)
	inner, object := bytes.CutPrefix(text, []byte("{"))
	return len(text) == 0 || string(text) == "null" || object && string(bytes.TrimSpace(inner)) == "}"
}

// heldHardware does for a register request what reportOf does for a heartbeat. It counts the GPUs.
func heldHardware(q *wire.RegisterRequest) (notices []string, gpus int) {
	var left []string
	if hollow(q.Hardware) {
		q.Hardware = nil
		return nil, 0
	}
	q.Hardware = json.RawMessage(held(reading.Hardware, q.Hardware, false, "hardware", &left))
	return left, reading.Summarise(string(q.Hardware)).GPUs
}
