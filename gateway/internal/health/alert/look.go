package alert

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// verdict is what one look says of one thing.
type verdict int

const (
	unknown verdict = iota // it cannot be told: nothing changes
	bad
	good
)

// look is what one look at one thing said.
type look struct {
	verdict verdict
	since   time.Time // of a bad one: when it began; zero: now
	text    string    // of a bad one: one sentence
	next    string    // of a bad one: what to do, where the cause's own words do not fit
}

// nodeCauses are the causes that are about one node.
func nodeCauses() []string {
	return []string{NodeStale, NodeUnavailable, GPUCountDropped, IdentityConflict, RenewalOverdue, FindingSevere, NodeWarning}
}

// lookAt judges one node for one cause. seen is when the open alert about its silence began; nil: there is none.
func lookAt(name string, n *api.NodeRow, now time.Time, seen *time.Time) look {
	switch name {
	case NodeStale:
		return stale(n, now, seen)
	case NodeUnavailable:
		return unavailable(n)
	case GPUCountDropped:
		return missing(n)
	case IdentityConflict:
		return conflict(n)
	case RenewalOverdue:
		return overdue(n)
	case FindingSevere:
		return severe(n)
	case NodeWarning:
		return warned(n)
	}
	return look{}
}

// stale says good of an open alert only when the node was heard: just after a start the gateway calls nobody stale.
func stale(n *api.NodeRow, now time.Time, seen *time.Time) look {
	if n.Status != wire.StatusStale || n.LastSeen == nil {
		if seen != nil && (n.LastSeen == nil || !n.LastSeen.After(*seen)) {
			return look{}
		}
		return look{verdict: good}
	}
	silent := now.Sub(*n.LastSeen)
	text := fmt.Sprintf("%s is not heard from since %s (%s)", n.Name, n.LastSeen.UTC().Format(time.RFC3339), span(silent))
	if n.PricePerHour != nil {
		text = fmt.Sprintf("%s is silent and still billing: not heard from since %s (%s), %.2f so far at %.4g an hour", n.Name,
			n.LastSeen.UTC().Format(time.RFC3339), span(silent), max(silent.Hours(), 0)**n.PricePerHour, *n.PricePerHour)
	}
	return look{verdict: bad, since: *n.LastSeen, text: text}
}

// unavailable leaves out what another cause tells, and what a person did. That the certificate of a silent node ends is told by its
// silence: else hundreds that went silent as one would be told one by one.
func unavailable(n *api.NodeRow) look {
	if n.State != wire.StateUnavailable {
		return look{verdict: good}
	}
	var reasons []string
	expired := false
	for _, reason := range n.StateReasons {
		if reason == wire.ReasonExpired && n.Status == wire.StatusStale {
			expired = true
			continue
		}
		if reason != wire.ReasonConflict && reason != wire.ReasonSuspended && reason != wire.HealthGPUCountDropped {
			reasons = append(reasons, reason)
		}
	}
	if len(reasons) == 0 && expired {
		return look{}
	}
	if len(reasons) == 0 {
		return look{verdict: good}
	}
	l := look{verdict: bad, since: n.StateSince, text: n.Name + " is unavailable: " + strings.Join(reasons, ", ")}
	if found := findings(n, api.SeveritySevere); found.verdict == bad {
		l.text += "; " + found.text
		l.next = found.next
	}
	return l
}

// missing believes the node's own word, which also counts where it has no reading at all.
func missing(n *api.NodeRow) look {
	says := slices.Contains(n.StateReasons, wire.HealthGPUCountDropped)
	switch {
	case n.Status != wire.StatusOnline:
		return look{}
	case says && (n.GPUsExpected == nil || n.GPUs == nil || !n.Fresh):
		return look{verdict: bad, text: n.Name + " misses GPUs"}
	case n.GPUsExpected == nil:
		return look{verdict: good}
	case !says && (!n.Fresh || n.GPUs == nil):
		return look{}
	case n.MissingGPUs() > 0:
	case says: // it is not well for long enough, has not heard yet how many are expected now, or knows of one that was exchanged
		return look{verdict: bad, text: fmt.Sprintf("%s misses GPUs, or did just now, and shows %d of %d", n.Name, len(n.GPUs), *n.GPUsExpected)}
	default:
		return look{verdict: good}
	}
	return look{verdict: bad, text: fmt.Sprintf("%s shows %d of %d GPUs", n.Name, len(n.GPUs), *n.GPUsExpected)}
}

func conflict(n *api.NodeRow) look {
	if !slices.Contains(n.StateReasons, wire.ReasonConflict) {
		return look{verdict: good}
	}
	return look{verdict: bad, since: n.StateSince, text: "two machines use the identity of " + n.Name}
}

// overdue says nothing of a node that is not heard from: its silence is told.
func overdue(n *api.NodeRow) look {
	switch {
	case !n.RenewalOverdue:
		return look{verdict: good}
	case n.Status != wire.StatusOnline:
		return look{}
	}
	text := n.Name + " has not renewed its certificate in time"
	if n.NotAfter != nil {
		text += "; it expires at " + n.NotAfter.UTC().Format(time.RFC3339)
	}
	return look{verdict: bad, text: text}
}

// severe tells what unavailable does not: findings on a node that is in another state.
func severe(n *api.NodeRow) look {
	switch {
	case n.Status == wire.StatusStale:
		return look{}
	case n.State == wire.StateUnavailable:
		return look{verdict: good}
	}
	return about(n, findings(n, api.SeveritySevere))
}

// warned tells what keeps no node from work. It says nothing of a node that is not heard from: its findings are old.
func warned(n *api.NodeRow) look {
	if n.Status == wire.StatusStale {
		return look{}
	}
	return about(n, findings(n, api.SeverityWarn))
}

func about(n *api.NodeRow, l look) look {
	if l.verdict == bad {
		l.text = n.Name + ": " + l.text
	}
	return l
}

// findings are those of one severity, and what to do about the first. What has a cause of its own is left out.
func findings(n *api.NodeRow, severity string) look {
	const most = 5
	var all []string
	l := look{verdict: good}
	for i := range n.Findings {
		f := &n.Findings[i]
		if f.Severity != severity || cause(f.Rule) != nil && severity != api.SeveritySevere || len(all) == most {
			continue
		}
		all = append(all, f.Text)
		if l.verdict == good {
			l = look{verdict: bad, since: f.Since, next: f.Next}
		}
	}
	l.text = strings.Join(all, "; ")
	return l
}

// span is a duration as people say it: its seconds do not matter once it has hours.
func span(d time.Duration) string {
	if d < time.Hour {
		return d.Round(time.Second).String()
	}
	text := d.Round(time.Minute).String()
	return strings.TrimSuffix(text, "0s")
}
