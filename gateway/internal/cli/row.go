package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/client"
)

// view is a node with its hardware read, as of now.
type view struct {
	client.Node
	hardware *wire.Hardware // nil: never reported
	now      time.Time
	narrow   bool // sums of memory are shown in GiB
}

// roomy is how many columns of a screen show sums of memory in MiB, as they are everywhere else.
const roomy = 110

func readNode(raw json.RawMessage, now time.Time) (view, error) {
	v := view{now: now}
	if err := json.Unmarshal(raw, &v.Node); err != nil {
		return v, fmt.Errorf("a node in the gateway's answer is not as this version expects: %w", err)
	}
	_ = json.Unmarshal(v.Hardware, &v.hardware) // a reading that this version does not understand is an unknown one
	return v, nil
}

func nodeColumns() []column {
	return []column{{name: "NAME", least: 20, most: 40}, {name: "TENANT", rank: 7, least: 8, most: 24}, {name: "PROVIDER", rank: 8, least: 8, most: 24},
		{name: "GPU", least: 16, most: 40}, {name: "MEMORY", rank: 4, most: 24}, {name: "UTIL", rank: 3}, {name: "STATE", least: 11, most: 12},
		{name: "STATUS", rank: 2}, {name: "SEEN", rank: 5},
		{name: "HEALTH", most: 40, wide: true}, {name: "READ", wide: true}, {name: "ID", wide: true}, {name: "VERSION", most: 24, wide: true},
		{name: "ADDRESS", most: 40, wide: true}, {name: "LABELS", most: 40, wide: true}, {name: "CERT", wide: true}, {name: "PROBE", wide: true},
		{name: "SKEW", wide: true}, {name: "INSTANCE", most: 24, wide: true}}
}

func (v view) row(wide bool) []string {
	return []string{orUnknown(v.Name), orUnknown(v.Tenant), orUnknown(v.Provider), v.mark() + v.gpus(), v.aged(v.memory()), v.aged(v.utilization()),
		v.state(wide), v.status(), v.since(v.LastSeen), v.ills(), v.readAge(), orUnknown(v.ID), v.version(), orUnknown(v.Address), labelText(v.Labels),
		v.expiry(), v.probe(), v.skew(), orUnknown(v.InstanceID)}
}

// status is nothing to ask of a node that was given back.
func (v view) status() string {
	if v.State == wire.StateRetired {
		return unknown
	}
	return orUnknown(v.Status)
}

// model drops the maker where the rest still says what it is: "H100 80GB HBM3" does, "GB10" alone does not.
func model(name string) string {
	if rest, ok := strings.CutPrefix(name, "NVIDIA "); ok && strings.Contains(strings.TrimSpace(rest), " ") {
		name = rest
	}
	return orUnknown(name)
}

// state has its reasons where they are asked for, and always what is on its way to become one.
func (v view) state(reasons bool) string {
	var notes []string
	if reasons {
		notes = append(notes, v.StateReasons...)
	}
	if c := v.Certificate; c != nil && c.RenewalOverdue && !slices.Contains(v.StateReasons, wire.ReasonExpired) {
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
