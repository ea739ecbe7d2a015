package gpu

import (
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
)

const (
	linklessPace = time.Hour // between two looks where no GPU has a link: most machines
	maxLinks     = 64        // of one GPU
)

// wantsLinks reports whether it is time to look at the links.
func (s rare) wantsLinks() bool {
	return s.linksAt.IsZero() || len(s.links) > 0 || s.at.Sub(s.linksAt) >= linklessPace
}

// ParseNVLinks reads the answer to nvlink --status: the links of each GPU, by its UUID. A GPU of which it lists none is left out.
//
//	GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)
//	         Link 0: 26.562 GB/s
//	         Link 1: <inactive>
func ParseNVLinks(text []byte) map[string]*wire.NVLinks {
	all := map[string]*wire.NVLinks{}
	uuid := ""
	for n, line := range lines(text) {
		if n > maxRows*(maxLinks+1) {
			return all
		}
		if strings.HasPrefix(line, "GPU ") {
			_, rest, _ := strings.Cut(line, "(UUID: ")
			uuid, _, _ = strings.Cut(rest, ")")
			uuid = wire.Plain(uuid, maxLine)
			continue
		}
		if state, ok := linkState(line); ok && uuid != "" && len(all) < maxRows {
			addLink(all, uuid, state)
		}
	}
	return all
}

// linkState reads what a line such as "Link 3: 26.562 GB/s" says of a link. Lines about a link's abilities have a comma behind its number.
func linkState(line string) (state string, ok bool) {
	rest, ok := strings.CutPrefix(line, "Link ")
	if !ok {
		return "", false
	}
	number, state, ok := strings.Cut(rest, ":")
	_, err := strconv.ParseUint(number, 10, 8)
	return strings.TrimSpace(state), ok && err == nil
}

// addLink counts one link. One that is neither up nor down makes the number of those that are down unknown.
func addLink(all map[string]*wire.NVLinks, uuid, state string) {
	links := all[uuid]
	if links == nil {
		links = &wire.NVLinks{Total: new(int), Down: new(int)}
		all[uuid] = links
	}
	if *links.Total >= maxLinks {
		return
	}
	*links.Total++
	switch {
	case strings.HasSuffix(state, " GB/s"):
	case state != "<inactive>":
		links.Down = nil
	case links.Down != nil:
		*links.Down++
	}
}
