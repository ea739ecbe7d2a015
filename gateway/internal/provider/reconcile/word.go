package reconcile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	rentals "muster/store/provider"
)

// add adds a finding about a machine. perHour is what is paid for nothing; nil: that is not known.
func (f *finder) add(m *Machine, kind string, perHour *cloud.Money, text, next string) {
	found := providers.Finding{Kind: kind, Severity: f.severity[kind], Provider: m.Account, Tenant: m.Tenant(), Instance: m.ID, Next: next}
	subject := m.Account + "/" + m.ID
	if m.Node != nil {
		found.Node, found.NodeID = m.Node.Name, m.Node.ID
		subject = m.Node.Name + " (" + subject + ")"
	}
	found.Text = subject + ": " + text
	if perHour != nil {
		day := (*perHour * 24).Dollars()
		found.PerDay = &day
	}
	f.all = append(f.all, found)
}

// command acts on a machine at its company.
func (f *finder) command(m *Machine, act string) string {
	return "muster provider " + act + " " + m.Account + "/" + m.ID
}

func (f *finder) destroy(m *Machine) string { return f.command(m, providers.ActDestroy) }

// start starts a machine. One that was made for a rental is not started without a lease.
func (f *finder) start(m *Machine) string {
	start := f.command(m, providers.ActStart)
	if m.Lease == nil && strings.HasPrefix(m.Seen.Name, rentals.NamePrefix) {
		return "muster lease set " + m.Account + "/" + m.ID + " 8h && " + start
	}
	return start
}

func (f *finder) onboard(m *Machine) string {
	return "muster provider onboard " + m.Account + "/" + m.ID
}

// why is what the company says of the state of a machine.
func (f *finder) why(m *Machine) string {
	if m.Seen.Why == "" {
		return ""
	}
	return ", and the company says: " + strings.TrimRight(m.Seen.Why, ". ")
}

// paid says a price in a sentence.
func (f *finder) paid(perHour *cloud.Money) string {
	if perHour == nil {
		return ", at a price that is not known"
	}
	return " at " + dollars(*perHour) + " an hour"
}

// since says for how long a node is silent, or that it is not.
func (f *finder) since(n *api.NodeRow) string {
	switch {
	case n.State == wire.StateRetired:
		return "given back since " + stamp(n.StateSince)
	case n.Status == wire.StatusOnline:
		return "still heard"
	case n.LastSeen == nil:
		return "not heard from yet, since " + stamp(n.CreatedAt)
	}
	return "not heard from since " + stamp(*n.LastSeen)
}

// isSilent is true for a node that should have been heard by now.
func (f *finder) isSilent(n *api.NodeRow) bool {
	switch {
	case n.Status == wire.StatusOnline:
		return false
	case n.LastSeen == nil:
		return f.passed(n.CreatedAt, joins)
	}
	return true
}

// began is since when a machine is there.
func (f *finder) began(m *Machine) time.Time {
	if at := m.Seen.StartedAt; at != nil && at.Before(f.now) {
		return *at
	}
	return m.Seen.FirstAt
}

func (f *finder) passed(since time.Time, d time.Duration) bool { return f.now.Sub(since) >= d }

// isEnding is true for a machine that is being given back: only if that fails it is told.
func isEnding(l *rentals.Lease) bool {
	return l != nil && (l.State == providers.LeaseDraining || l.State == providers.LeaseEnding)
}

// price is what a machine is charged now; nil: that is not known.
func price(m *Machine) *cloud.Money {
	if m.Seen == nil {
		return nil
	}
	return m.Seen.Price
}

// differs is true if two prices are not the same within half a percent: companies round.
func differs(charged cloud.Money, label float64) bool {
	off := math.Abs(charged.Dollars() - label)
	return off > 0.001 && off > charged.Dollars()/200
}

func money(perHour float64) cloud.Money {
	return cloud.Money(math.Round(perHour * float64(cloud.Dollar)))
}

// Label returns a price in the form that the label of a node has.
func Label(m cloud.Money) string { return strconv.FormatFloat(m.Dollars(), 'f', -1, 64) }

func dollars(m cloud.Money) string { return fmt.Sprintf("$%.4g", m.Dollars()) }

func minutes(d time.Duration) string { return fmt.Sprintf("%.0f minutes", d.Minutes()) }

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
