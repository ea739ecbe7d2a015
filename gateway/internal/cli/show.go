package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
)

// Words of node show for what is not there.
const (
	notKnown = "unknown" // there is one, and nobody knows it
	none     = "none"    // there is none
)

// show prints all that is known of a node, for a person, and names what is not; identity is what there is to say of its certificates.
func (v view) show(w io.Writer, screen int, identity [][]string) {
	fmt.Fprintln(w, orUnknown(v.Name))
	rows := [][]string{
		{"  id", word(orUnknown(v.ID))},
		{"  tenant", word(orUnknown(v.Tenant))},
		{"  state", v.stateLine()},
		{"  status", v.statusLine()},
		{"  provider", v.providerLine()},
		{"  labels", orNone(labelText(v.Labels))},
		{"  address", word(orUnknown(v.Address))},
		{"  agent", v.agentLine()},
		{"  certificate", v.certificateLine()},
		{"  clock", v.clockLine()},
		{"  created", stamp(&v.CreatedAt)},
	}
	if page := v.page(); page != "" {
		rows = append(rows, []string{"  help", "muster help " + page})
	}
	for _, reason := range v.StateReasons {
		if detail := v.StateDetails[reason]; detail != "" {
			rows = append(rows, []string{"  " + printable(reason), printable(detail)})
		}
	}
	rows = append(rows, identity...)
	rows = append(rows, v.hardwareRows()...)
	for _, notice := range v.Notices {
		rows = append(rows, []string{"  notice", printable(notice)})
	}
	details(w, screen, rows)
}

// details prints names with what there is to say of each, which goes on below where a line of the screen does not hold it.
func details(w io.Writer, screen int, rows [][]string) {
	names := 0
	for _, row := range rows {
		names = max(names, width(row[0]))
	}
	columns := 0
	if screen > 0 {
		columns = max(screen-names-gap, narrowest)
	}
	for _, row := range rows {
		name := row[0]
		for _, line := range wrapped(row[1], columns) {
			fmt.Fprintf(w, "%s%s%s\n", name, strings.Repeat(" ", names-width(name)+gap), line)
			name = ""
		}
	}
}

// word says in a word what a list shows as a dash.
func word(text string) string {
	if text == unknown {
		return notKnown
	}
	return text
}

func orNone(text string) string {
	if text == unknown {
		return none
	}
	return text
}

func (v view) providerLine() string {
	switch {
	case v.Provider == "" && v.InstanceID == "":
		return none
	case v.Provider == "":
		return notKnown + ", instance " + printable(v.InstanceID)
	}
	return strings.TrimSuffix(printable(v.Provider)+" "+printable(v.InstanceID), " ")
}

func (v view) stateLine() string {
	text := word(v.state(true))
	if v.Banned {
		text += ", banned"
	}
	if v.StateSince.IsZero() {
		return text
	}
	return text + ", since " + age(v.now.Sub(v.StateSince))
}

// page is the page of help for what keeps a node from work; empty where nothing does, or where a person wants it so.
func (v view) page() string {
	has := func(reasons ...string) bool {
		return slices.ContainsFunc(v.StateReasons, func(r string) bool { return slices.Contains(reasons, r) })
	}
	switch {
	case v.State == wire.StateRetired:
		return ""
	case has(wire.ReasonConflict, wire.ReasonExpired):
		return "identity-trouble"
	case v.Status == wire.StatusStale:
		return "stale-node"
	case has(wire.HealthProbeFailed, wire.HealthProbeHung, wire.HealthGPUMissing, wire.HealthGPUFault):
		return "no-telemetry"
	}
	return ""
}

func (v view) statusLine() string {
	if v.LastSeen == nil {
		return word(orUnknown(v.Status)) + ", not heard from"
	}
	return word(orUnknown(v.Status)) + ", seen " + v.since(v.LastSeen) + " ago"
}

func (v view) clockLine() string {
	if v.SkewMillis == nil {
		return notKnown
	}
	seconds := float64(*v.SkewMillis) / 1000
	switch {
	case math.Abs(seconds) < 0.05:
		return "as the gateway's"
	case seconds < 0:
		return fmt.Sprintf("%.1fs ahead of the gateway", -seconds)
	}
	return fmt.Sprintf("%.1fs behind the gateway", seconds)
}

func (v view) agentLine() string {
	if v.Agent == nil {
		return notKnown
	}
	return "version " + word(orUnknown(v.Agent.Version)) + ", " + word(orUnknown(v.Agent.OS)) + "/" + word(orUnknown(v.Agent.Arch))
}

func (v view) certificateLine() string {
	if v.Certificate == nil {
		return none
	}
	when := v.expiry()
	if !strings.HasPrefix(when, "expired") {
		when = "expires in " + when
	}
	if v.Certificate.RenewalOverdue {
		when += ", renewal overdue"
	}
	return fmt.Sprintf("generation %d, %s, %s", v.Certificate.Generation, when, word(orUnknown(v.Certificate.Fingerprint)))
}

func text(s *string) string {
	if s == nil || *s == "" {
		return notKnown
	}
	return printable(*s)
}

func number[N int | int64](n *N) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

func decimal(f *float64, unit string) string {
	if f == nil {
		return notKnown
	}
	return fmt.Sprintf("%.4g%s", *f, unit)
}

func stamp(at *time.Time) string {
	if at == nil {
		return unknown
	}
	return at.UTC().Format(time.RFC3339)
}
