package fleet

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"muster/agent/wire"
	"muster/store"
)

const (
	illPause = time.Minute // between two events about the rows of one node, after the first few
	mostIll  = 8           // GPUs that one event names
)

// ill records changes in the health of a node's GPU rows. These are mild things, which are no reason to keep work away.
func (f *Fleet) ill(ctx context.Context, id *Identity, p Proof, h *wire.Hardware) {
	before, now, due := f.newIlls(id.NodeID, h)
	if !due {
		return
	}
	e := f.event("node.gpu_health", id.about(), itself(id.NodeID, p.Address))
	e.Detail = difference(before, now)
	if err := f.store.AddEvents(context.WithoutCancel(ctx), e); err != nil {
		f.log.Error("an event was not recorded", "kind", e.Kind, "error", err)
	}
}

// newIlls keeps what the rows say now, and returns what they said before. A GPU without a row keeps its earlier health. Where
// changes come too fast, due is false and nothing is kept, so that a later heartbeat is compared again.
func (f *Fleet) newIlls(nodeID string, h *wire.Hardware) (before, now map[string]string, due bool) {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.live(nodeID)
	before = l.ills
	if h == nil || len(before) == 0 && !slices.ContainsFunc(h.GPUs, func(g wire.GPU) bool { return len(g.Health) > 0 }) {
		return nil, nil, false
	}
	now, shown := illsOf(h)
	for gpu, ill := range before {
		if !shown[gpu] && len(now) < wire.MaxGPUs {
			now[gpu] = ill
		}
	}
	if maps.Equal(before, now) || !l.illEvents.Take(f.now(), illPause) {
		return nil, nil, false
	}
	l.ills = now
	return before, now, true
}

// illsOf returns the health lists of a reading that are not empty, by GPU, and which GPUs the reading shows. The name of a GPU is its
// UUID, or its index if the row has no UUID.
func illsOf(h *wire.Hardware) (found map[string]string, shown map[string]bool) {
	found = map[string]string{}
	shown = map[string]bool{}
	for _, g := range h.GPUs {
		uuid := plain(g.UUID)
		place := "gpu " + strconv.Itoa(g.Index)
		shown[uuid] = true
		shown[place] = true
		if len(g.Health) > 0 {
			found[cmp.Or(uuid, place)] = plain(strings.Join(g.Health, ", "))
		}
	}
	return found, shown
}

// plain makes a text of an agent safe for a log line and a screen: valid UTF-8 without control characters, and not too long.
func plain(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return r == ' ' || unicode.IsControl(r) }), " ")
	if len(s) > wire.MaxHealthDetail {
		s = strings.ToValidUTF8(s[:wire.MaxHealthDetail-3], "") + "..."
	}
	return s
}

// difference is the event's detail: the GPUs whose health changed. It names mostIll of them and counts the rest.
func difference(before, now map[string]string) map[string]string {
	detail := map[string]string{}
	more := 0
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
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

// gpuRows are the GPUs of a reading by which a node can be found. Rows without a usable UUID are left out.
func gpuRows(h *wire.Hardware) []store.GPU {
	var rows []store.GPU
	for _, g := range h.GPUs {
		if g.UUID != "" && len(g.UUID) <= 80 {
			rows = append(rows, store.GPU{UUID: g.UUID, Name: g.Name, BusID: g.BusID, Index: g.Index})
		}
	}
	return rows
}
