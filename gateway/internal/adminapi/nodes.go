package adminapi

import (
	"encoding/json"
	"slices"

	"muster/gateway/internal/client"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/reading"
)

const (
	usualPage   = 100
	largestPage = 1000
)

func (s *server) listNodes(c *call) (any, error) {
	p, err := c.query("selector", "status", "state", "all", "limit", "cursor")
	if err != nil {
		return nil, err
	}
	all, err := p.flag("all")
	if err != nil {
		return nil, err
	}
	limit, err := p.number("limit", 1, largestPage)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = usualPage
	}
	page, err := s.Fleet.Nodes(c.r.Context(), fleet.Query{
		Tenant: c.caller.tenant, Selector: p.text("selector"), Status: p.text("status"), State: p.text("state"),
		All: all, Limit: int(limit), Cursor: p.text("cursor"),
	})
	if err != nil {
		return nil, err
	}
	answer := client.NodePage{Nodes: make([]client.Node, 0, len(page.Nodes)), Next: page.Next, Total: page.Total}
	for _, n := range page.Nodes {
		answer.Nodes = append(answer.Nodes, nodeShape(n))
	}
	return answer, nil
}

func (s *server) showNode(c *call) (any, error) {
	if _, err := c.query(); err != nil {
		return nil, err
	}
	d, err := s.Fleet.Detail(c.r.Context(), c.caller.tenant, c.r.PathValue("node"))
	return detailShape(d), err
}

// apply serves the routes that move a node.
func (s *server) apply(event fleet.Event) func(*call) (any, error) {
	return func(c *call) (any, error) {
		if err := c.decode(&struct{}{}); err != nil {
			return nil, err
		}
		n, err := s.Fleet.Apply(c.r.Context(), c.caller.tenant, c.r.PathValue("node"), event, c.caller.actor)
		return nodeShape(n), err
	}
}

func (s *server) setLabels(c *call) (any, error) {
	var q client.LabelsRequest
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	if len(q.Set)+len(q.Remove) == 0 {
		return nil, badRequest("there is no label to set or remove", `send {"set":{"tier":"sovereign"}} or {"remove":["tier"]}`)
	}
	if err := noToken("", q.Set); err != nil {
		return nil, err
	}
	n, err := s.Fleet.SetLabels(c.r.Context(), c.caller.tenant, c.r.PathValue("node"), q.Set, q.Remove, c.caller.actor)
	return nodeShape(n), err
}

func nodeShape(n fleet.Node) client.Node {
	out := client.Node{
		ID: n.ID, Name: n.Name, Tenant: n.Tenant, Labels: n.Labels, Provider: n.Provider, InstanceID: n.InstanceID,
		State: n.State, StateReasons: make([]string, 0, len(n.Reasons)), StateDetails: map[string]string{}, StateSince: n.StateSince.UTC(), Status: n.Status,
		CreatedAt: n.CreatedAt.UTC(), Banned: n.Banned, Recoveries: n.Recoveries, RecoveryUntil: utc(n.RecoveryUntil), Address: n.Address, SkewMillis: n.SkewMillis, Notices: n.Notices,
		Cost: reported(reading.Cost, n.Cost),
	}
	hardware, left := reading.Hardware.Mend(n.Hardware) // what a gateway of before kept as it came
	out.Hardware = reported(reading.Hardware, hardware)
	if n.Hardware != "" && len(left) > 0 {
		out.Notices = append(slices.Clip(out.Notices), reading.LeftOut("hardware", left))
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if out.Notices == nil {
		out.Notices = []string{}
	}
	for _, reason := range n.Reasons {
		out.StateReasons = append(out.StateReasons, reason.Reason)
		if reason.Detail != "" {
			out.StateDetails[reason.Reason] = reason.Detail
		}
	}
	if n.GPUsExpected > 0 || n.GPUsSaid {
		out.GPUsExpected = &n.GPUsExpected
	}
	if seconds := n.Interval.Seconds(); seconds > 0 {
		out.IntervalSeconds = &seconds
	}
	if n.LastSeen != nil {
		seen := n.LastSeen.UTC()
		out.LastSeen = &seen
	}
	if text, _ := reading.Agent.Mend(n.Agent); text != "" && json.Unmarshal([]byte(text), &out.Agent) != nil {
		out.Agent = nil
	}
	if cert := n.Certificate; cert.Fingerprint != "" {
		out.Certificate = &client.Certificate{Fingerprint: cert.Fingerprint, NotAfter: cert.NotAfter.UTC(), Generation: cert.Generation,
			RenewalOverdue: cert.OverdueAt != nil}
	}
	return out
}

// reported gives what a node said of itself, and null where it did not.
func reported(shape *reading.Shape, text string) json.RawMessage {
	if text, _ = shape.Mend(text); text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}
