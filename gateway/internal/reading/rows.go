package reading

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"

	"muster/agent/wire"
)

// GPUs returns the GPU rows of a reading. It is nil where there are none, or where the text is no reading.
func GPUs(hardware string) []wire.GPU {
	var h struct {
		GPUs []wire.GPU `json:"gpus"`
	}
	if json.Unmarshal([]byte(hardware), &h) != nil || len(h.GPUs) > wire.MaxGPUs {
		return nil
	}
	return h.GPUs
}

// Health returns the health lists of a reading that are not empty, by GPU, and which GPUs the reading shows. The name of a GPU is its
// UUID, or its index if the row has no UUID.
func Health(hardware string) (found map[string]string, shown map[string]bool) {
	var h struct {
		GPUs []struct { // only what is needed: after a start, the gateway decodes the reading of every node
			Index  int      `json:"index"`
			UUID   string   `json:"uuid"`
			Health []string `json:"health"`
		} `json:"gpus"`
	}
	found = map[string]string{}
	shown = map[string]bool{}
	if json.Unmarshal([]byte(hardware), &h) != nil || len(h.GPUs) > wire.MaxGPUs {
		return found, shown
	}
	for _, g := range h.GPUs {
		uuid := Plain(g.UUID)
		place := "gpu " + strconv.Itoa(g.Index)
		shown[uuid] = true
		shown[place] = true
		if len(g.Health) > 0 {
			found[cmp.Or(uuid, place)] = Plain(strings.Join(g.Health, ", "))
		}
	}
	return found, shown
}

// Plain makes a text of an agent safe for a log line and a screen: valid UTF-8 without control characters, and not too long.
func Plain(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return r == ' ' || unicode.IsControl(r) }), " ")
	if len(s) > wire.MaxHealthDetail {
		s = strings.ToValidUTF8(s[:wire.MaxHealthDetail-3], "") + "..."
	}
	return s
}
