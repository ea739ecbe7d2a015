package node

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// Marks before the GPUs of a node in a list.
const (
	markUnwell = "!"
	markOld    = "~"
)

func (v view) mark() string {
	mark := ""
	if v.unwell() {
		mark = markUnwell
	}
	if v.old() {
		mark += markOld
	}
	return mark
}

// unwell tells whether GPUs are ill or missing, or the probe fails.
func (v view) unwell() bool {
	if v.hardware == nil || v.State == wire.StateRetired {
		return false
	}
	switch v.hardware.Probe.State {
	case wire.ProbeHung, wire.ProbeFailed, wire.ProbeSlow:
		return true
	}
	ill := slices.ContainsFunc(v.hardware.GPUs, func(g wire.GPU) bool { return len(g.Health) > 0 })
	return ill || v.missing() > 0 || !v.counted()
}

// missing is how many GPUs the node has that do not answer, as far as that is known.
func (v view) missing() int {
	return api.Missing(len(v.hardware.GPUs), v.counted(), v.GPUsExpected)
}

// counted is false if nobody knows how many GPUs answer.
func (v view) counted() bool {
	return api.Counted(v.hardware.Probe.State, len(v.hardware.GPUs), v.GPUsExpected)
}

// old tells whether the rows are not of now.
func (v view) old() bool {
	return v.hardware != nil && len(v.hardware.GPUs) > 0 && api.Old(v.hardware.Probe, v.IntervalSeconds, v.SkewMillis, v.now)
}

// sampled is when the GPU rows were read, by the gateway's clock.
func (v view) sampled() *time.Time {
	if v.hardware == nil {
		return nil
	}
	return v.byGateway(v.hardware.Probe.SampledAt)
}

// byGateway is a time of the node's clock by the gateway's clock.
func (v view) byGateway(at *time.Time) *time.Time { return api.ReadAt(at, v.SkewMillis) }

func (v view) readAge() string {
	if v.hardware == nil || len(v.hardware.GPUs) == 0 {
		return screen.Unknown
	}
	return v.since(v.sampled())
}

// aged marks a value of an old reading.
func (v view) aged(text string) string {
	if text != screen.Unknown && v.old() {
		return markOld + text
	}
	return text
}

// ills is what is wrong with the node, in words: what it says itself, and the rules of health that found something.
func (v view) ills() string {
	var all []string
	for reason, detail := range v.StateDetails {
		all = append(all, screen.Printable(reason+": "+detail))
	}
	sort.Strings(all)
	if v.hardware != nil {
		if p := v.hardware.Probe; p.State == wire.ProbeOK && p.Error != "" {
			all = append(all, screen.Printable("warning: "+p.Error))
		}
		for _, g := range v.hardware.GPUs {
			if len(g.Health) > 0 {
				all = append(all, fmt.Sprintf("gpu %d: %s", g.Index, screen.Printable(strings.Join(g.Health, ", "))))
			}
		}
	}
	return screen.OrUnknown(strings.Join(all, "; "))
}

// addFindings adds what rules of health found to the details of the node's state. A rule stands there once, however many GPUs it is about.
func (v *view) addFindings(found []api.Finding) {
	times := map[string]int{}
	for _, f := range found {
		times[f.Rule]++
	}
	details := map[string]string{}
	for _, f := range found {
		switch n := times[f.Rule]; {
		case details[f.Rule] != "":
		case n > 1:
			details[f.Rule] = fmt.Sprintf("%s, and %d more", f.Text, n-1)
		default:
			details[f.Rule] = f.Text
		}
	}
	maps.Copy(details, v.StateDetails)
	v.StateDetails = details
}

// gpus is like "8x H100 80GB HBM3", or "7/8x" where one of eight does not answer, or "-/8x" if nobody knows how many do.
func (v view) gpus() string {
	if v.hardware == nil {
		return screen.Unknown
	}
	names, count := v.models()
	share := v.share()
	switch {
	case len(names) == 0 && share != "":
		return share
	case len(names) == 0 && v.counted():
		return "none"
	case len(names) == 0:
		return "probe " + screen.OrUnknown(v.hardware.Probe.State)
	case len(names) == 1 && share != "":
		return share + "x " + names[0]
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%dx %s", count[name], name)
	}
	text := strings.Join(names, " + ")
	if share != "" {
		text = share + ": " + text
	}
	return text
}

// share is how many GPUs answer of those that should; empty: all of them.
func (v view) share() string {
	expected := v.GPUsExpected
	switch {
	case expected != nil && !v.counted():
		return fmt.Sprintf("%s/%d", screen.Unknown, *expected)
	case v.missing() > 0:
		return fmt.Sprintf("%d/%d", len(v.hardware.GPUs), *expected)
	}
	return ""
}

// models are the names of the GPU models, in the order of the rows, and how many GPUs there are of each.
func (v view) models() (names []string, count map[string]int) {
	count = map[string]int{}
	for _, g := range v.hardware.GPUs {
		name := screen.Model(g.Name)
		if g.MIG != nil && *g.MIG {
			name += " MIG"
		}
		if count[name] == 0 {
			names = append(names, name)
		}
		count[name]++
	}
	return names, count
}

// memory is used/total over all GPUs that have memory of their own.
func (v view) memory() string {
	if v.hardware == nil {
		return screen.Unknown
	}
	own := slices.DeleteFunc(slices.Clone(v.hardware.GPUs), func(g wire.GPU) bool { return g.MemorySource == wire.MemoryUnified })
	used := sum(own, func(g wire.GPU) *int64 { return g.MemoryUsedMiB })
	total := sum(own, func(g wire.GPU) *int64 { return g.MemoryTotalMiB })
	switch {
	case len(own) == 0 && len(v.hardware.GPUs) > 0:
		return wire.MemoryUnified
	case len(own) == 0, used == nil && total == nil:
		return screen.Unknown
	case v.narrow && total != nil && *total >= 10<<10:
		return gibibytes(used) + "/" + gibibytes(total) + " GiB"
	}
	return screen.Number(used) + "/" + screen.Number(total) + " MiB"
}

// sum adds up a figure of all GPUs; nil: that of one is not known.
func sum(gpus []wire.GPU, figure func(wire.GPU) *int64) *int64 {
	all := new(int64)
	for _, g := range gpus {
		n := figure(g)
		if n == nil {
			return nil
		}
		*all += *n
	}
	return all
}

// gibibytes is rounded to whole ones.
func gibibytes(mib *int64) string {
	if mib == nil {
		return screen.Unknown
	}
	return fmt.Sprint((*mib + 512) >> 10)
}

// utilization is the mean over the GPUs whose utilization is known.
func (v view) utilization() string {
	total := 0.0
	known := 0
	if v.hardware != nil {
		for _, g := range v.hardware.GPUs {
			if g.UtilizationPercent != nil {
				total += *g.UtilizationPercent
				known++
			}
		}
	}
	if known == 0 {
		return screen.Unknown
	}
	return fmt.Sprintf("%.0f%%", total/float64(known))
}
