package adminapi

import (
	"encoding/json"

	"muster/gateway/api"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/label"
	"muster/store"
)

// shownNode is a node as the API shows it. A value that was never reported is null, and not 0 or empty.
func shownNode(n fleet.Node) api.Node {
	out := api.Node{
		ID: n.ID, Name: n.Name, Tenant: n.Tenant, Labels: api.Texts(n.Labels), Provider: n.Provider, InstanceID: n.InstanceID,
		State: n.State, StateReasons: []string{}, StateDetails: map[string]string{}, StateSince: n.StateSince.UTC(),
		Status: n.Status, Unheard: n.Unheard, CreatedAt: n.CreatedAt.UTC(), LastSeen: api.UTC(n.LastSeen), Banned: n.Banned,
		EnrolledAt: api.UTC(n.EnrolledAt), RetiredAt: api.UTC(n.RetiredAt), PricePerHour: label.PriceOf(n.Labels),
		Recoveries: n.Recoveries, RecoveryUntil: api.UTC(n.RecoveryUntil), Address: n.Address, SkewMillis: n.SkewMillis,
		Notices: append([]string{}, n.Notices...), Cost: reported(n.Cost), Hardware: reported(n.Hardware),
		Enrolment: n.EnrolmentID,
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
	if cert := n.Certificate; cert.Fingerprint != "" {
		out.Certificate = &api.Certificate{Fingerprint: cert.Fingerprint, NotAfter: cert.NotAfter.UTC(),
			Generation: cert.Generation, RenewalOverdue: cert.OverdueAt != nil}
	}
	if n.Agent != "" && json.Unmarshal([]byte(n.Agent), &out.Agent) != nil {
		out.Agent = nil
	}
	return out
}

// reported is what a node said of itself, or null if it said nothing.
func reported(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

// shownDetail is a node with its certificates and the runs of its agent.
func shownDetail(d fleet.Detail) api.NodeDetail {
	return api.NodeDetail{Node: shownNode(d.Node), Certificates: api.Each(d.Certificates, certificateOf), Runs: api.Each(d.Runs, runOf)}
}

func certificateOf(c store.Certificate) api.NodeCertificate {
	return api.NodeCertificate{Fingerprint: c.Fingerprint, Generation: c.Generation, Status: c.Status, IssuedAt: c.IssuedAt.UTC(),
		NotAfter: c.NotAfter.UTC(), FirstUsedAt: api.UTC(c.FirstUsedAt), EndedAt: api.UTC(c.EndedAt), Recovery: c.Recovery}
}

func runOf(r store.Run) api.NodeRun {
	return api.NodeRun{RunID: r.ID, Fingerprint: r.Fingerprint, Address: r.Address, FirstHeard: r.First.UTC(), LastHeard: r.Last.UTC()}
}
