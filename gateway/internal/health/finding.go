package health

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/store"
)

// Finding is one thing that is wrong with a node.
type Finding struct {
	Rule  *Rule
	GPU   string // UUID; "": it is about the node
	Since time.Time
	Text  string
	Old   bool // the node is not heard from: it may be different by now
}

// Shown is the finding as the API shows it.
func (f Finding) Shown() api.Finding {
	return api.Finding{Rule: f.Rule.Name, Severity: f.Rule.Severity, GPU: f.GPU, Since: f.Since.UTC(), Text: f.Text, Next: f.Rule.Next,
		Topic: f.Rule.Topic, Old: f.Old}
}

// NodeFinding is a finding with its node.
type NodeFinding struct {
	NodeID, Name, Tenant string
	Finding
}

// Findings are what is open of a node, the severe first, then the oldest.
func (d *Service) Findings(nodeID string) []Finding {
	n, known := d.node(nodeID)
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Finding
	w := d.nodes[nodeID]
	if w == nil || known && n.State == wire.StateRetired {
		return nil
	}
	for k, t := range w.tracks {
		r, err := d.rule(k.rule)
		if !t.open || err != nil {
			continue
		}
		f := Finding{Rule: r, GPU: k.gpu, Since: t.since, Text: t.text, Old: known && n.Status == wire.StatusStale}
		if r.Name == Silent {
			f.Old = false
			f.Text = d.stillSilent(n, t.text)
		}
		all = append(all, f)
	}
	slices.SortFunc(all, compare)
	return all
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
		r, err := d.rule(k.rule)
		if err == nil && t.open && r.Severity == wire.SeveritySevere && !t.since.Before(since) && k.rule > name {
			name = k.rule
		}
	}
	return name
}

func compare(a, b Finding) int {
	return cmp.Or(cmp.Compare(rank(b), rank(a)), a.Since.Compare(b.Since), strings.Compare(a.Rule.Name, b.Rule.Name),
		strings.Compare(a.GPU, b.GPU))
}

func rank(f Finding) int {
	switch f.Rule.Severity {
	case wire.SeveritySevere:
		return 2
	case wire.SeverityWarn:
		return 1
	}
	return 0
}

// Query picks findings. A zero field does not restrict the result.
type Query struct {
	Tenant string
	Terms  []store.Term
	Severe bool
}

func (q Query) picks(n *api.NodeRow) bool {
	return (q.Tenant == "" || n.Tenant == q.Tenant) && label.Matches(q.Terms, n)
}

// conflict stands in a list for a node that two machines claim to be. No rule looks at it, and that must not read as if it were well.
func conflict(n *api.NodeRow) NodeFinding {
	return NodeFinding{NodeID: n.ID, Name: n.Name, Tenant: n.Tenant, Finding: Finding{
		Rule: &Rule{Name: wire.ReasonConflict, Severity: wire.SeveritySevere, Topic: "identity-trouble",
			Next: "Find out which machine is the right one, and stop the other: muster node show lists both."},
		Since: n.StateSince, Text: "two machines use its identity, so nothing else is looked for", Old: n.Status == wire.StatusStale}}
}

// List are the findings of the nodes that a query picks: the severe first, then by node.
func (d *Service) List(q Query) []NodeFinding {
	var all []NodeFinding
	for _, n := range d.Nodes() {
		if n.State != wire.StateRetired && slices.Contains(n.StateReasons, wire.ReasonConflict) && q.picks(n) {
			all = append(all, conflict(n))
		}
	}
	for _, id := range d.unwell() {
		n, known := d.Node(id)
		if !known || !q.picks(n) {
			continue
		}
		for _, f := range d.Findings(id) {
			if !q.Severe || f.Rule.Severity == wire.SeveritySevere {
				all = append(all, NodeFinding{NodeID: n.ID, Name: n.Name, Tenant: n.Tenant, Finding: f})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b NodeFinding) int {
		return cmp.Or(cmp.Compare(rank(b.Finding), rank(a.Finding)), strings.Compare(a.Name, b.Name), compare(a.Finding, b.Finding))
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

// of names the GPU that a look was at.
func (l look) of(g *wire.GPU) look {
	if l.verdict == bad {
		l.text = "GPU " + strconv.Itoa(g.Index) + ": " + l.text
	}
	return l
}
