package node

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/health/condition"
)

// Words of node show for what is not there.
const (
	notKnown = "unknown" // there is one, but it is not known
	none     = "none"    // there is none
)

// show prints all that is known of a node, for a person, and says what is unknown; more has the rows about its findings and certificates.
func (v view) show(w io.Writer, columns int, more [][]string) {
	fmt.Fprintln(w, screen.OrUnknown(v.Name))
	rows := [][]string{
		{"  id", cmp.Or(v.ID, notKnown)},
		{"  tenant", cmp.Or(v.Tenant, notKnown)},
		{"  state", v.stateLine()},
		{"  status", v.statusLine()},
		{"  provider", v.providerLine()},
		{"  labels", orNone(screen.Labels(v.Labels))},
		{"  address", cmp.Or(v.Address, notKnown)},
		{"  agent", v.agentLine()},
	}
	rows = append(rows, v.updateRows()...)
	rows = append(rows, [][]string{
		{"  certificate", v.certificateLine()},
		{"  clock", v.clockLine()},
		{"  created", screen.Stamp(&v.CreatedAt)},
	}...)
	if page := v.page(); page != "" {
		rows = append(rows, []string{"  help", "muster help " + page})
	}
	for _, reason := range v.StateReasons {
		if detail := v.StateDetails[reason]; detail != "" {
			rows = append(rows, []string{"  " + reason, detail})
		}
	}
	rows = append(rows, more...)
	rows = append(rows, v.hardwareRows()...)
	rows = append(rows, v.runRows()...)
	for _, notice := range v.Notices {
		rows = append(rows, []string{"  notice", notice})
	}
	screen.Pairs(w, columns, rows)
}

// runRows are the programs that tasks have started and that run.
func (v view) runRows() (rows [][]string) {
	for _, r := range v.running() {
		text := screen.Printable(r.Name) + ", " + screen.OrUnknown(r.Program) + " as " + screen.OrUnknown(r.User)
		switch {
		case len(r.GPUs) > 0 && r.GPUs[0] == wire.AllGPUs:
			text += ", all GPUs"
		case len(r.GPUs) > 0:
			text += ", " + screen.Plural(len(r.GPUs), "GPU")
		}
		rows = append(rows, []string{"  runs", text + ", for " + v.since(v.byGateway(r.StartedAt))})
	}
	return rows
}

func (v view) running() (all []wire.Run) {
	if v.hardware == nil {
		return nil
	}
	for _, r := range v.hardware.Runs {
		if r.State == wire.RunRunning {
			all = append(all, r)
		}
	}
	return all
}

// runs names the programs that run, for a list.
func (v view) runs() string {
	var names []string
	for _, r := range v.running() {
		names = append(names, screen.Printable(r.Name))
	}
	return screen.OrUnknown(strings.Join(names, ","))
}

// word says in a word what a list shows as a dash.
func word(text string) string {
	if text == screen.Unknown {
		return notKnown
	}
	return text
}

func orNone(text string) string {
	if text == screen.Unknown {
		return none
	}
	return text
}

func (v view) providerLine() string {
	switch {
	case v.Provider == "" && v.InstanceID == "":
		return none
	case v.Provider == "":
		return notKnown + ", instance " + screen.Printable(v.InstanceID)
	}
	return strings.TrimSuffix(screen.Printable(v.Provider)+" "+screen.Printable(v.InstanceID), " ")
}

func (v view) stateLine() string {
	text := word(v.state(true))
	if v.Banned {
		text += ", banned"
	}
	if v.StateSince.IsZero() {
		return text
	}
	return text + ", since " + screen.Age(v.now.Sub(v.StateSince))
}

// page is the page of help about what keeps the node from work, or from being heard at all; empty: nothing does, or a person wanted it so.
func (v view) page() string {
	if v.State == wire.StateRetired {
		return ""
	}
	first := []string{condition.IdentityConflict, condition.CertificateExpired, condition.NodeStale}
	for _, name := range slices.Concat(first, v.StateReasons) {
		holds := slices.Contains(v.StateReasons, name) || name == condition.NodeStale && v.Status == wire.StatusStale
		if c := condition.Named(name); holds && c != nil && name != condition.Suspended {
			return c.Topic
		}
	}
	if v.LastSeen == nil {
		return "not-joining"
	}
	return ""
}

func (v view) statusLine() string {
	if v.LastSeen == nil {
		return cmp.Or(v.Status, notKnown) + ", not heard from"
	}
	if v.State == wire.StateRetired { // whatever it was a moment before
		return "gone, last seen " + v.since(v.LastSeen) + " ago"
	}
	text := cmp.Or(v.StatusText(), notKnown) + ", seen " + v.since(v.LastSeen) + " ago"
	if v.Unheard {
		text += ", before the gateway's start; not heard since"
	}
	return text
}

// clockLine turns the sign round: the skew is the gateway's clock minus the node's, and a person asks about the node's.
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
	return "version " + cmp.Or(v.Agent.Version, notKnown) + ", " + cmp.Or(v.Agent.OS, notKnown) + "/" + cmp.Or(v.Agent.Arch, notKnown)
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
	return fmt.Sprintf("generation %d, %s, %s", v.Certificate.Generation, when, cmp.Or(v.Certificate.Fingerprint, notKnown))
}

func text(s *string) string {
	if s == nil || *s == "" {
		return notKnown
	}
	return *s
}

func decimal(f *float64, unit string) string {
	if f == nil {
		return notKnown
	}
	return fmt.Sprintf("%.4g%s", *f, unit)
}
