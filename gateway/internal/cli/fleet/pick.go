package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

type listFlags struct {
	Idle, Free bool
	Model      string
	FreeMemory string
	Limit      int
}

// Orders of gpu ls besides the usual one.
const (
	sortPrice  = "price"
	sortMemory = "memory"
	sortUtil   = "util"
	sortName   = "name"
)

// wish is what GPUs are asked for.
type wish struct {
	listFlags
	nodes   []string // names or ids; empty: all
	freeMiB int64    // 0: any
	sort    string   // "": the usual order
}

func wishOf(s *cli.Session, o listFlags) (w wish, err error) {
	w.listFlags = o
	if w.freeMiB, err = freeMemory(s, o.FreeMemory); err != nil {
		return w, err
	}
	w.sort, err = s.Flags.OneOf("sort", "", sortPrice, sortMemory, sortUtil, sortName)
	return w, err
}

// leftOut counts what might be as wished: nobody knows it, or not yet.
type leftOut struct{ unknown, unread, quiet int }

func (l leftOut) String() string {
	var parts []string
	if l.unknown > 0 {
		parts = append(parts, screen.Plural(l.unknown, "GPU")+" whose use is unknown")
	}
	if l.unread > 0 {
		parts = append(parts, screen.Plural(l.unread, "node")+" without a reading")
	}
	if l.quiet > 0 {
		parts = append(parts, screen.Plural(l.quiet, "GPU")+" quiet for less than 10 minutes")
	}
	if parts == nil {
		return ""
	}
	return "left out: " + strings.Join(parts, ", ")
}

// pick gives the GPUs that are as wished, in their order.
func (w wish) pick(all []api.NodeRow) (found []row, left leftOut) {
	asksRoom := w.Free || w.freeMiB > 0
	for i := range all {
		if n := &all[i]; asksRoom && n.GPUs == nil && takesWork(n) && w.of(n.Name, n.ID) {
			left.unread++
		}
	}
	for _, r := range rows(all) {
		switch fits, known := w.fits(&r); {
		case fits:
			found = append(found, r)
		case asksRoom && r.asked && !known:
			left.unknown++
		case w.soon(&r):
			left.quiet++
		}
	}
	slices.SortStableFunc(found, w.compare)
	return found, left
}

func takesWork(n *api.NodeRow) bool {
	return n.State == wire.StateActive && n.Status == wire.StatusOnline
}

// fits tells whether a GPU is as wished; known is false if nothing that is known speaks against it.
func (w wish) fits(r *row) (fits, known bool) {
	fits = true
	ask := func(isKnown, holds bool) {
		fits = fits && isKnown && holds
		known = known || isKnown && !holds
	}
	if !w.of(r.Node, r.NodeID) {
		return false, true
	}
	if w.Model != "" {
		ask(true, w.named(r.Name))
	}
	if w.Idle {
		ask(true, r.IdleSince != nil)
	}
	if w.Free {
		ask(r.Use != "" && r.Ready == r.asked, r.Free)
	}
	if w.freeMiB > 0 {
		ask(r.MemoryFreeMiB != nil && r.Ready == r.asked, r.Ready && knownMiB(r.MemoryFreeMiB) >= w.freeMiB)
	}
	return fits, known
}

// named tells whether a GPU's name is as wished.
func (w wish) named(name string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(w.Model))
}

// of is true for each node that was named, and for all nodes if none was.
func (w wish) of(name, id string) bool {
	return len(w.nodes) == 0 || slices.Contains(w.nodes, name) || slices.Contains(w.nodes, id)
}

// strange is the first name that no node has; empty: all names are known.
func (w wish) strange(all []api.NodeRow) string {
	for _, name := range w.nodes {
		if !slices.ContainsFunc(all, func(n api.NodeRow) bool { return n.Name == name || n.ID == name }) {
			return name
		}
	}
	return ""
}

// soon tells whether a GPU is as wished once it has been idle for long enough.
func (w wish) soon(r *row) bool {
	if !w.Free && !w.Idle || r.Use != api.UseQuiet || w.Free && !r.Ready {
		return false
	}
	w.Free = false
	w.Idle = false
	fits, _ := w.fits(r)
	return fits
}

// compare orders rows. Equals stand by the name of their nodes.
func (w wish) compare(a, b row) int {
	byName := cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index))
	switch w.sort {
	case sortPrice:
		return cmp.Or(cmp.Compare(orMost(a.PricePerHour), orMost(b.PricePerHour)), byName)
	case sortMemory:
		return cmp.Or(cmp.Compare(knownMiB(b.MemoryFreeMiB), knownMiB(a.MemoryFreeMiB)), byName)
	case sortUtil:
		return cmp.Or(cmp.Compare(orMost(a.UtilizationPercent), orMost(b.UtilizationPercent)), byName)
	case sortName:
		return byName
	}
	return cmp.Or(
		first(a.Ready, b.Ready), first(a.IdleSince != nil, b.IdleSince != nil), cmp.Compare(knownMiB(b.MemoryFreeMiB), knownMiB(a.MemoryFreeMiB)),
		cmp.Compare(orMost(a.UtilizationPercent), orMost(b.UtilizationPercent)), byName)
}

// first puts what is true first.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// knownMiB is a figure, or less than any if it is not known.
func knownMiB(mib *int64) int64 {
	if mib == nil {
		return -1
	}
	return *mib
}

// orMost is a figure, or more than any if it is not known.
func orMost(figure *float64) float64 {
	if figure == nil {
		return math.Inf(1)
	}
	return *figure
}

// freeMemory is what --free-memory asks for, in MiB; 0: nothing.
func freeMemory(s *cli.Session, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	mib, err := parseMemory(text)
	if err != nil {
		return 0, cli.Usagef("a size such as 40GiB or 500MiB", "%s has the value %q, which is no size", s.Flags.Source("free-memory"), text)
	}
	return mib, nil
}

// parseMemory reads 40GiB, 0.5TiB or 500MiB into MiB, rounded up. The i may be left out, as nvidia-smi's own figures are in MiB.
func parseMemory(text string) (int64, error) {
	const most = 1 << 40
	number := strings.TrimRight(text, "BbIiKkMmGgTt ")
	scale := 0.0
	switch unit := strings.ToLower(strings.TrimSpace(text[len(number):])); unit {
	case "m", "mb", "mib":
		scale = 1
	case "g", "gb", "gib":
		scale = 1 << 10
	case "t", "tb", "tib":
		scale = 1 << 20
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || scale == 0 || !(n > 0 && n*scale < most) {
		return 0, fmt.Errorf("%q is no size", text)
	}
	return int64(math.Ceil(n * scale)), nil
}
