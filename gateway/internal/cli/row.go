package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/adminapi"
)

// view is a node with its hardware read, as of now.
type view struct {
	adminapi.Node
	hardware *wire.Hardware // nil: never reported
	now      time.Time
}

func readNode(raw json.RawMessage, now time.Time) (view, error) {
	v := view{now: now}
	if err := json.Unmarshal(raw, &v.Node); err != nil {
		return v, fmt.Errorf("a node in the gateway's answer is not as this version expects: %w", err)
	}
	_ = json.Unmarshal(v.Hardware, &v.hardware) // a reading that this version does not understand is an unknown one
	return v, nil
}

func nodeHeader(wide bool) []string {
	header := []string{"NAME", "TENANT", "PROVIDER", "GPU", "MEMORY", "UTIL", "STATE", "STATUS", "SEEN"}
	if wide {
		header = append(header, "ID", "VERSION", "ADDRESS", "LABELS", "CERT", "PROBE", "SKEW", "INSTANCE")
	}
	return header
}

func (v view) row(wide bool) []string {
	row := []string{orUnknown(v.Name), orUnknown(v.Tenant), orUnknown(v.Provider), v.gpus(), v.memory(), v.utilization(),
		v.state(wide), v.status(), v.since(v.LastSeen)}
	if wide {
		row = append(row, orUnknown(v.ID), v.version(), orUnknown(v.Address), labelText(v.Labels), v.expiry(), v.probe(),
			v.skew(), orUnknown(v.InstanceID))
	}
	return row
}

// status is nothing to ask of a node that was given back.
func (v view) status() string {
	if v.State == "retired" {
		return unknown
	}
	return orUnknown(v.Status)
}

// gpus is like "8x H100 80GB HBM3", with what is wrong with the probe behind it.
func (v view) gpus() string {
	if v.hardware == nil {
		return unknown
	}
	text := v.models()
	if e := v.hardware.GPUsExpected; e != nil && *e != len(v.hardware.GPUs) && text != unknown {
		text += fmt.Sprintf(" (%d expected)", *e)
	}
	if p := v.hardware.Probe; p.State == wire.ProbeSlow || p.State == wire.ProbeHung || p.State == wire.ProbeFailed {
		text += " (probe " + v.probe() + ")"
	}
	return text
}

// models counts the GPUs by model, in the order in which they stand.
func (v view) models() string {
	var names []string
	count := map[string]int{}
	for _, g := range v.hardware.GPUs {
		name := model(g.Name)
		if count[name] == 0 {
			names = append(names, name)
		}
		count[name]++
	}
	if len(names) == 0 && (v.hardware.Probe.State == wire.ProbeAbsent || v.hardware.Probe.State == wire.ProbeOK) {
		return "none"
	}
	if len(names) == 0 {
		return unknown
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%dx %s", count[name], name)
	}
	return strings.Join(names, " + ")
}

// model drops the maker where the rest still says what it is: "H100 80GB HBM3" does, "GB10" alone does not.
func model(name string) string {
	if rest, ok := strings.CutPrefix(name, "NVIDIA "); ok && strings.Contains(strings.TrimSpace(rest), " ") {
		name = rest
	}
	return orUnknown(name)
}

// memory is used/total over all GPUs; one figure that is not known leaves the sum unknown.
func (v view) memory() string {
	if v.hardware == nil {
		return unknown
	}
	used, total, unified := sum{known: true}, sum{known: true}, 0
	for _, g := range v.hardware.GPUs {
		if g.MemorySource == wire.MemoryUnified {
			unified++
			continue
		}
		used.add(g.MemoryUsedMiB)
		total.add(g.MemoryTotalMiB)
	}
	switch {
	case unified > 0 && unified == len(v.hardware.GPUs):
		return wire.MemoryUnified
	case len(v.hardware.GPUs) == 0, !used.known && !total.known:
		return unknown
	}
	return used.String() + "/" + total.String() + " MiB"
}

type sum struct {
	n     int64
	known bool
}

func (s *sum) add(n *int64) {
	if s.known = s.known && n != nil; s.known {
		s.n += *n
	}
}

func (s sum) String() string {
	if !s.known {
		return unknown
	}
	return fmt.Sprint(s.n)
}

// utilization is the mean over the GPUs that know theirs.
func (v view) utilization() string {
	total, known := 0.0, 0
	if v.hardware != nil {
		for _, g := range v.hardware.GPUs {
			if g.UtilizationPercent != nil {
				total += *g.UtilizationPercent
				known++
			}
		}
	}
	if known == 0 {
		return unknown
	}
	return fmt.Sprintf("%.0f%%", total/float64(known))
}

// state has its reasons where they are asked for, and always what is on its way to become one.
func (v view) state(reasons bool) string {
	var notes []string
	if reasons {
		notes = append(notes, v.StateReasons...)
	}
	if c := v.Certificate; c != nil && c.RenewalOverdue && !slices.Contains(v.StateReasons, "certificate_expired") {
		notes = append(notes, "renewal overdue")
	}
	if len(notes) == 0 {
		return orUnknown(v.State)
	}
	return orUnknown(v.State) + " (" + printable(strings.Join(notes, ", ")) + ")"
}

func (v view) since(at *time.Time) string {
	if at == nil {
		return unknown
	}
	return age(v.now.Sub(*at))
}

func (v view) version() string {
	if v.Agent == nil {
		return unknown
	}
	return orUnknown(v.Agent.Version)
}

func (v view) expiry() string {
	if v.Certificate == nil {
		return unknown
	}
	if left := v.Certificate.NotAfter.Sub(v.now); left > 0 {
		return age(left)
	}
	return "expired " + age(v.now.Sub(v.Certificate.NotAfter)) + " ago"
}

// probe is the probe's state, and since when where it is not as it should be.
func (v view) probe() string {
	if v.hardware == nil {
		return unknown
	}
	p := v.hardware.Probe
	if p.Since == nil || p.State == wire.ProbeOK || p.State == wire.ProbeAbsent {
		return orUnknown(p.State)
	}
	return orUnknown(p.State) + " " + v.since(p.Since)
}

func (v view) skew() string {
	if v.SkewMillis == nil {
		return unknown
	}
	return fmt.Sprintf("%+.1fs", float64(*v.SkewMillis)/1000)
}

func labelText(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for key, value := range labels {
		pairs = append(pairs, printable(key+"="+value))
	}
	sort.Strings(pairs)
	return orUnknown(strings.Join(pairs, ","))
}
