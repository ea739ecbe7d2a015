package alert

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
	"muster/store"
	records "muster/store/alerts"
)

// longestGap is how far two rounds may be apart, and still count as a row.
const longestGap = 5 * time.Minute

// track follows one thing that is or was wrong.
type track struct {
	condition.Track
	next   string // of the last bad look
	alert  *alert // nil: none is open
	group  *alert // about many nodes, this one too; nil: none
	seen   int    // the last round that looked at it
	node   *api.NodeRow
	tenant string
}

// Round looks at everything once.
func (d *Service) Round() {
	if !d.Ready() {
		return
	}
	now := d.Now()
	nodes := d.Nodes()
	facts := d.Facts()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.round++
	counts := map[string]int{}
	followed := map[string]bool{} // few are: most nodes are well
	for k := range d.tracks {
		followed[k.subject] = true
	}
	for _, n := range nodes {
		if n.LastSeen != nil {
			counts[n.Tenant]++
		}
		d.lookAtNode(n, followed[n.ID], now)
	}
	for _, f := range facts {
		if f.Unknown {
			d.unknown(f.Condition, now)
		} else {
			d.wrong(f, now)
		}
	}
	d.lookAtMisuses(now)
	d.settle(now, counts)
}

// wrong takes a bad look at something that is no node.
func (d *Service) wrong(f Fact, now time.Time) {
	l := isBad(f.Text, f.Since)
	l.next = f.Next
	d.see(key{f.Condition, f.Subject}, nil, f.Tenant, l, now)
}

// unknown takes a look at all that a condition was told of, and sees nothing.
func (d *Service) unknown(cause string, now time.Time) {
	for k, t := range d.tracks {
		if k.cause == cause {
			d.see(k, t.node, t.tenant, look{}, now)
		}
	}
}

func (d *Service) lookAtNode(n *api.NodeRow, followed bool, now time.Time) {
	for _, c := range d.ofNodes {
		k := key{c.Name, n.ID}
		var t *track
		var seen *time.Time
		if followed {
			t = d.tracks[k]
		}
		if t != nil && t.Open {
			seen = &t.Since
		}
		if l := d.lookAt(c, n, now, seen); t != nil || l.Verdict == condition.Bad {
			d.see(k, n, n.Tenant, l, now)
		}
	}
}

// see takes one look at one thing.
func (d *Service) see(k key, n *api.NodeRow, tenant string, l look, now time.Time) {
	t := d.tracks[k]
	if t == nil {
		t = &track{}
		d.tracks[k] = t
	}
	t.seen = d.round
	t.node = n
	t.tenant = tenant
	c := d.table[k.cause]
	wasOpen := t.Open
	t.See(l.Look, now, longestGap, c.Told, c.Over)
	if l.Verdict != condition.Bad {
		return
	}
	t.next = l.next
	if !wasOpen && !l.since.IsZero() {
		t.Since = l.since
	}
	if t.alert != nil {
		t.alert.Text = l.Text
		t.alert.next = l.next
		t.alert.named(n)
	}
}

// named gives an alert the name that its node has now.
func (a *alert) named(n *api.NodeRow) {
	if n != nil && a.NodeName != n.Name {
		a.NodeName = n.Name
		a.dirty = true
	}
}

// settle fires what lasted, and resolves what is gone. What no look was at is gone: a node was retired, a rollout goes on.
func (d *Service) settle(now time.Time, counts map[string]int) {
	due := map[string][]key{} // stale nodes by tenant
	for _, k := range slices.SortedFunc(maps.Keys(d.tracks), compareKeys) {
		t := d.tracks[k]
		switch {
		case t.seen != d.round, t.Idle():
			d.leave(k, t, now)
			delete(d.tracks, k)
		case !t.Open, t.alert != nil, t.group != nil:
		case k.cause == condition.NodeStale && !d.silenced(d.draft(k, t, now), now):
			due[t.tenant] = append(due[t.tenant], k)
		default:
			d.fire(k, t, now)
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(due)) {
		d.fireStale(tenant, due[tenant], counts[tenant], now)
	}
	d.settleGroups(now)
	d.gather(now, counts)
	d.plan(now)
}

func compareKeys(a, b key) int {
	return cmp.Or(strings.Compare(a.cause, b.cause), strings.Compare(a.subject, b.subject))
}

// leave ends a track's part in its alert.
func (d *Service) leave(k key, t *track, now time.Time) {
	if t.alert != nil {
		d.resolve(t.alert, now)
	}
	if t.group != nil {
		t.group.drop(k.subject)
	}
}

// draft is the alert of a track, as it would fire now.
func (d *Service) draft(k key, t *track, now time.Time) *alert {
	a := &alert{next: t.next, dirty: true, Alert: records.Alert{Cause: k.cause, Subject: k.subject, Tenant: t.tenant,
		Severity: d.table[k.cause].Severity, Text: t.Text, Since: t.Since, FiredAt: now}}
	if t.node != nil {
		a.NodeID = t.node.ID
		a.NodeName = t.node.Name
	}
	return a
}

func (d *Service) fire(k key, t *track, now time.Time) {
	t.alert = d.draft(k, t, now)
	d.open(t.alert)
}

// open keeps a new alert.
func (d *Service) open(a *alert) {
	a.ID = newID("al-")
	d.alerts[a.ID] = a
	d.happened("alert.fired", a, a.FiredAt)
}

// resolve closes an alert. Who was told of it, or may have been, is to be told that it is over.
func (d *Service) resolve(a *alert, now time.Time) {
	a.ResolvedAt = &now
	a.dirty = true
	d.happened("alert.resolved", a, now)
	hushed := d.silenced(a, now)
	for p, v := range d.deliveries {
		switch {
		case p.alert != a.ID, v.Told == "" && v.GaveUp:
		case v.Told == "" && v.Tries == 0 && !v.busy && hushed: // it was silenced before anybody heard of it
			v.Told = Resolved
			v.Want = Resolved
			v.dirty = true
		default:
			v.wants(Resolved, now)
		}
	}
}

// happened keeps an event for the next write.
func (d *Service) happened(kind string, a *alert, at time.Time) {
	d.events = append(d.events, store.Event{At: at, Kind: kind, Actor: "gateway", NodeID: a.NodeID, NodeName: a.NodeName, Tenant: a.Tenant,
		Outcome: store.OutcomeOK, Detail: map[string]string{"alert": a.ID, "cause": a.Cause, "severity": a.Severity, "text": a.Text}})
}

// newID makes the name of an alert or a silence.
func newID(prefix string) string {
	var random [8]byte
	rand.Read(random[:])
	return prefix + hex.EncodeToString(random[:])
}
