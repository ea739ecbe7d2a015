package reading

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"

	"muster/agent/wire"
)

// GPUs gives the GPU rows of a reading; nil: it has none, or is no reading.
func GPUs(hardware string) []wire.GPU {
	var h struct {
		GPUs []wire.GPU `json:"gpus"`
	}
	if json.Unmarshal([]byte(hardware), &h) != nil || len(h.GPUs) > wire.MaxGPUs {
		return nil
	}
	return h.GPUs
}

// Health gives the health lists of a reading that are not empty, by GPU, and which GPUs the reading shows. A GPU is named by its UUID,
// or by its index where the row has none.
func Health(hardware string) (found map[string]string, shown map[string]bool) {
	var h struct {
		GPUs []struct { // every node's is read after a start of the gateway: no more than what is asked for
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

// Plain makes what an agent says fit for a log line and a screen.
func Plain(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return r == ' ' || unicode.IsControl(r) }), " ")
	if len(s) > wire.MaxHealthDetail {
		s = strings.ToValidUTF8(s[:wire.MaxHealthDetail-3], "") + "..."
	}
	return s
}
