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

// look is what one look at one thing says.
type look struct {
	condition.Look
	since time.Time // of a bad one: when it began; zero: now
	next  string    // of a bad one: what to do, where the table's words do not fit
}

// isBad is the look at what is wrong since a time.
func isBad(text string, since time.Time) look {
	return look{Look: condition.Known(true, text), since: since}
}

// isGood is the look at what is well.
func isGood() look { return look{Look: condition.Known(false, "")} }

// lookAt judges one node for one condition. seen is when the open alert about its silence began; nil: there is none.
func (d *Service) lookAt(c *condition.Condition, n *api.NodeRow, now time.Time, seen *time.Time) look {
	switch c.Name {
	case condition.NodeStale:
		return stale(n, now, seen)
	case condition.NodeUnavailable:
		return d.unavailable(n)
	case condition.FindingSevere:
		if n.Status != wire.StatusStale && n.State == wire.StateUnavailable { // that is told then
			return isGood()
		}
		return d.findings(n, c.Severity)
	case condition.NodeWarning:
		return d.findings(n, c.Severity)
	}
	return found(c, n)
}

// stale says good of an open alert only when the node was heard, or has no agent any more: just after a start the gateway calls nobody
// stale.
func stale(n *api.NodeRow, now time.Time, seen *time.Time) look {
	if n.Status == wire.StatusPending && n.LastSeen != nil {
		return isGood()
	}
	if n.Status != wire.StatusStale || n.LastSeen == nil {
		if seen != nil && (n.LastSeen == nil || !n.LastSeen.After(*seen)) {
			return look{}
		}
		return isGood()
	}
	return isBad(n.Name+": "+condition.Silence(n, now), *n.LastSeen)
}

// unavailable leaves out what another alert tells, and what a person did. That the certificate of a silent node ends is told by its
// silence: else hundreds that went silent as one would be told one by one.
func (d *Service) unavailable(n *api.NodeRow) look {
	if n.State != wire.StateUnavailable {
		return isGood()
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
		return isGood()
	}
	l := isBad(n.Name+" is unavailable: "+strings.Join(reasons, ", "), n.StateSince)
	if severe := d.sumUp(n, api.SeveritySevere); severe.Verdict == condition.Bad {
		l.Text += "; " + severe.Text
		l.next = severe.next
	}
	return l
}

// found is the look at what a rule has found, or what is a reason of the node's state. It says nothing of a node that is not heard from:
// its silence is told.
func found(c *condition.Condition, n *api.NodeRow) look {
	l := isGood()
	if slices.Contains(n.StateReasons, c.Name) {
		l = isBad(n.Name+": "+c.Meaning, n.StateSince)
	}
	for i := range n.Findings {
		if f := &n.Findings[i]; f.Rule == c.Name {
			l = isBad(n.Name+": "+f.Text, f.Since)
		}
	}
	if l.Verdict == condition.Bad && n.Status == wire.StatusStale && c.IsFound() {
		return look{}
	}
	return l
}

// findings tells of those of one severity that have no alert of their own. It says nothing of a node that is not heard from: they are old.
func (d *Service) findings(n *api.NodeRow, severity string) look {
	if n.Status == wire.StatusStale {
		return look{}
	}
	l := d.sumUp(n, severity)
	if l.Verdict == condition.Bad {
		l.Text = n.Name + ": " + l.Text
	}
	return l
}

// sumUp says what the first findings of one severity are, what to do about the first, and since when that is so.
func (d *Service) sumUp(n *api.NodeRow, severity string) look {
	const most = 5
	l := isGood()
	var all []string
	more := 0
	for i := range n.Findings {
		f := &n.Findings[i]
		if f.Severity != severity || d.table[f.Rule] != nil {
			continue
		}
		if len(all) == most {
			more++
			continue
		}
		if len(all) == 0 {
			l = isBad("", f.Since)
			l.next = f.Next
		}
		all = append(all, f.Text)
	}
	if l.Text = strings.Join(all, "; "); more > 0 {
		l.Text += fmt.Sprintf("; and %d more", more)
	}
	return l
}
