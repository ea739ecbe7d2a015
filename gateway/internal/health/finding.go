package health

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/label"
)

// Findings returns the open findings of a node: the severe first, then the oldest.
func (d *Service) Findings(nodeID string) []api.Finding {
	n, _ := d.node(nodeID)
	all := d.findings(nodeID)
	for i := range all {
		all[i].Next = condition.About(n.Name, all[i].Next)
	}
	return all
}

// findings are those of a node without its name, which may change.
func (d *Service) findings(nodeID string) []api.Finding {
	n, known := d.node(nodeID)
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []api.Finding{}
	w := d.nodes[nodeID]
	if w == nil || known && n.State == wire.StateRetired {
		return all
	}
	for k, t := range w.tracks {
		if !t.Open {
			continue
		}
		r := d.rule(k.rule)
		f := r.finding(t.Since, t.Text)
		f.GPU = k.gpu
		f.Old = known && n.Status == wire.StatusStale
		if r.Name == condition.NodeStale {
			f.Old = false
			f.Text = d.stillSilent(n, t.Text)
		}
		all = append(all, f)
	}
	slices.SortFunc(all, compare)
	return all
}

// finding says what was found by a condition's rule.
func (r *rule) finding(since time.Time, text string) api.Finding {
	return api.Finding{Rule: r.Name, Severity: r.Severity, Since: since.UTC(), Text: text, Next: r.Next, Topic: r.Topic}
}

// SevereSince names a severe finding of a node that began at a time or later; "": there is none.
func (d *Service) SevereSince(nodeID string, since time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.nodes[nodeID]
	if w == nil {
		return ""
	}
	name := ""
	for k, t := range w.tracks {
		if t.Open && d.rule(k.rule).Severity == wire.SeveritySevere && !t.Since.Before(since) && k.rule > name {
			name = k.rule
		}
	}
	return name
}

func compare(a, b api.Finding) int {
	return cmp.Or(api.SeverityRank(b.Severity)-api.SeverityRank(a.Severity), a.Since.Compare(b.Since), strings.Compare(a.Rule, b.Rule),
		strings.Compare(a.GPU, b.GPU))
}

// Query picks findings. A zero field does not restrict the result.
type Query struct {
	Tenant string
	Terms  []label.Term
	Severe bool
}

func (q Query) picks(n *api.NodeRow) bool {
	return (q.Tenant == "" || n.Tenant == q.Tenant) && label.Matches(q.Terms, n)
}

// conflict stands in a list for a node that two machines claim to be. No rule looks at it, and that must not read as if it were well.
func conflict(n *api.NodeRow) api.Finding {
	r := rule{*condition.Named(condition.IdentityConflict)}
	f := r.finding(n.StateSince, "two machines use its identity, so nothing else is looked for")
	f.Old = n.Status == wire.StatusStale
	f.Next = condition.About(n.Name, f.Next)
	return f
}

// List returns the findings of the nodes that a query picks: the severe first, then by node.
func (d *Service) List(q Query) []api.NodeFinding {
	all := []api.NodeFinding{}
	add := func(n *api.NodeRow, f api.Finding) {
		if !q.Severe || f.Severity == wire.SeveritySevere {
			all = append(all, api.NodeFinding{Node: n.Name, NodeID: n.ID, Tenant: n.Tenant, Finding: f})
		}
	}
	for _, n := range d.Nodes() {
		if n.State != wire.StateRetired && slices.Contains(n.StateReasons, wire.ReasonConflict) && q.picks(n) {
			add(n, conflict(n))
		}
	}
	for _, id := range d.unwell() {
		n, known := d.Node(id)
		if !known || !q.picks(n) {
			continue
		}
		for _, f := range d.Findings(id) {
			add(n, f)
		}
	}
	slices.SortStableFunc(all, func(a, b api.NodeFinding) int {
		return cmp.Or(api.SeverityRank(b.Severity)-api.SeverityRank(a.Severity), strings.Compare(a.Node, b.Node), compare(a.Finding, b.Finding))
	})
	return all
}

// unwell are the nodes of which anything is followed.
func (d *Service) unwell() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for id, w := range d.nodes {
		if len(w.tracks) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}
