package alert

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
)

// What one look at one thing says.
type look = condition.Look

const bad = condition.Bad

// lookAt judges one node for one condition. seen is when the open alert about its silence began; nil: there is none.
func (d *Service) lookAt(c *condition.Condition, n *api.NodeRow, now time.Time, seen *time.Time) look {
	switch c.Name {
	case condition.NodeStale:
		return stale(n, now, seen)
	case condition.NodeUnavailable:
		return d.unavailable(n)
	case condition.FindingSevere:
		if n.Status != wire.StatusStale && n.State == wire.StateUnavailable { // that is told then
			return look{Verdict: condition.Good}
		}
		return d.findings(n, c.Severity)
	case condition.NodeWarning:
		return d.findings(n, c.Severity)
	}
	return found(c, n)
}

// stale says good of an open alert only when the node was heard: just after a start the gateway calls nobody stale.
func stale(n *api.NodeRow, now time.Time, seen *time.Time) look {
	if n.Status != wire.StatusStale || n.LastSeen == nil {
		if seen != nil && (n.LastSeen == nil || !n.LastSeen.After(*seen)) {
			return look{}
		}
		return look{Verdict: condition.Good}
	}
	silent := now.Sub(*n.LastSeen)
	text := fmt.Sprintf("%s is not heard from since %s (%s)", n.Name, n.LastSeen.UTC().Format(time.RFC3339), span(silent))
	if n.PricePerHour != nil {
		text = fmt.Sprintf("%s is silent and still billing: not heard from since %s (%s), %.2f so far at %.4g an hour", n.Name,
			n.LastSeen.UTC().Format(time.RFC3339), span(silent), max(silent.Hours(), 0)**n.PricePerHour, *n.PricePerHour)
	}
	return look{Verdict: bad, Since: *n.LastSeen, Text: text}
}

// unavailable leaves out what another alert tells, and what a person did. That the certificate of a silent node ends is told by its
// silence: else hundreds that went silent as one would be told one by one.
func (d *Service) unavailable(n *api.NodeRow) look {
	if n.State != wire.StateUnavailable {
		return look{Verdict: condition.Good}
	}
	var reasons []string
	expired := false
	for _, reason := range n.StateReasons {
		if reason == condition.CertificateExpired && n.Status == wire.StatusStale {
			expired = true
		} else if reason != condition.Suspended && d.table[reason] == nil {
			reasons = append(reasons, reason)
		}
	}
	switch {
	case len(reasons) == 0 && expired:
		return look{}
	case len(reasons) == 0:
		return look{Verdict: condition.Good}
	}
	l := look{Verdict: bad, Since: n.StateSince, Text: n.Name + " is unavailable: " + strings.Join(reasons, ", ")}
	if text, next, _ := d.sumUp(n, api.SeveritySevere); text != "" {
		l.Text += "; " + text
		l.Next = next
	}
	return l
}

// found is the look at what a rule has found, or what is a reason of the node's state. It says nothing of a node that is not heard from:
// its silence is told.
func found(c *condition.Condition, n *api.NodeRow) look {
	l := look{Verdict: condition.Good}
	if slices.Contains(n.StateReasons, c.Name) {
		l = look{Verdict: bad, Since: n.StateSince, Text: n.Name + ": " + c.Meaning}
	}
	for i := range n.Findings {
		if f := &n.Findings[i]; f.Rule == c.Name {
			l = look{Verdict: bad, Since: f.Since, Text: n.Name + ": " + f.Text}
		}
	}
	if l.Verdict == bad && n.Status == wire.StatusStale && c.IsFound() {
		return look{}
	}
	return l
}

// findings tells of those of one severity that have no alert of their own. It says nothing of a node that is not heard from: they are old.
func (d *Service) findings(n *api.NodeRow, severity string) look {
	if n.Status == wire.StatusStale {
		return look{}
	}
	text, next, since := d.sumUp(n, severity)
	if text == "" {
		return look{Verdict: condition.Good}
	}
	return look{Verdict: bad, Since: since, Text: n.Name + ": " + text, Next: next}
}

// sumUp says what the first findings of one severity are, what to do about the first, and since when that is so.
func (d *Service) sumUp(n *api.NodeRow, severity string) (text, next string, since time.Time) {
	const most = 5
	var all []string
	for i := range n.Findings {
		f := &n.Findings[i]
		if f.Severity != severity || d.table[f.Rule] != nil || len(all) == most {
			continue
		}
		if len(all) == 0 {
			next = f.Next
			since = f.Since
		}
		all = append(all, f.Text)
	}
	return strings.Join(all, "; "), next, since
}

// span is a duration as people say it: its seconds do not matter once it has hours.
func span(d time.Duration) string {
	if d < time.Hour {
		return d.Round(time.Second).String()
	}
	text := d.Round(time.Minute).String()
	return strings.TrimSuffix(text, "0s")
}
