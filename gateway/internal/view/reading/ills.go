package reading

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"muster/agent/wire"
)

const mostIll = 8 // GPUs that one event names

// Ills returns the health lists of a reading that are not empty, by GPU, and which GPUs the reading shows. The name of a GPU is its
// UUID, or its index if the row has no UUID.
func Ills(h *wire.Hardware) (found map[string]string, shown map[string]bool) {
	found = map[string]string{}
	shown = map[string]bool{}
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
	return wire.Cut(s, wire.MaxHealthDetail)
}

// Difference returns the event's detail: the GPUs whose health changed. It names mostIll of them and counts the rest.
func Difference(before, now map[string]string) map[string]string {
	detail := map[string]string{}
	more := 0
	all := map[string]string{}
	maps.Copy(all, before)
	maps.Copy(all, now)
	for _, gpu := range slices.Sorted(maps.Keys(all)) {
		switch {
		case before[gpu] == now[gpu]:
		case len(detail) == mostIll:
			more++
		case now[gpu] == "":
			detail[gpu] = "well again, was: " + before[gpu]
		default:
			detail[gpu] = now[gpu]
		}
	}
	if more > 0 {
		detail["more"] = plural(more)
	}
	return detail
}

func plural(n int) string {
	if n == 1 {
		return "1 other GPU"
	}
	return strconv.Itoa(n) + " other GPUs"
}
