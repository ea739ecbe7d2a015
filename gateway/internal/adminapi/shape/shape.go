// Package shape turns rows of the parts into the shapes of the admin API.
package shape

import (
	"encoding/json"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/label"
	"muster/store"
)

// Each returns the shapes of rows. It is never nil, because a list in the API is never null.
func Each[Row, Shape any](rows []Row, shape func(Row) Shape) []Shape {
	out := make([]Shape, 0, len(rows))
	for _, row := range rows {
		out = append(out, shape(row))
	}
	return out
}

// OrNone is the texts, and never null.
func OrNone(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}

func orEmpty(texts map[string]string) map[string]string {
	if texts == nil {
		return map[string]string{}
	}
	return texts
}

// UTC returns a time in UTC: the API shows no other zone.
func UTC(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	u := at.UTC()
	return &u
}

// Node is a node as the API shows it. A value that was never reported is null, and not 0 or empty.
func Node(n fleet.Node) api.Node {
	out := api.Node{
		ID: n.ID, Name: n.Name, Tenant: n.Tenant, Labels: orEmpty(n.Labels), Provider: n.Provider, InstanceID: n.InstanceID,
		State: n.State, StateReasons: []string{}, StateDetails: map[string]string{}, StateSince: n.StateSince.UTC(),
		Status: n.Status, CreatedAt: n.CreatedAt.UTC(), LastSeen: UTC(n.LastSeen), Banned: n.Banned,
		EnrolledAt: UTC(n.EnrolledAt), RetiredAt: UTC(n.RetiredAt), PricePerHour: label.PriceOf(n.Labels),
		Recoveries: n.Recoveries, RecoveryUntil: UTC(n.RecoveryUntil), Address: n.Address, SkewMillis: n.SkewMillis,
		Notices: OrNone(n.Notices), Cost: reported(n.Cost), Hardware: reported(n.Hardware), Enrolment: n.EnrolmentID,
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

// reported returns what a node said of itself, or null if it said nothing.
func reported(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

// Detail is a node with its certificates and the runs of its agent.
func Detail(d fleet.Detail) api.NodeDetail {
	return api.NodeDetail{Node: Node(d.Node), Certificates: Each(d.Certificates, certificateOf), Runs: Each(d.Runs, runOf)}
}

func certificateOf(c store.Certificate) api.NodeCertificate {
	return api.NodeCertificate{Fingerprint: c.Fingerprint, Generation: c.Generation, Status: c.Status, IssuedAt: c.IssuedAt.UTC(),
		NotAfter: c.NotAfter.UTC(), FirstUsedAt: UTC(c.FirstUsedAt), EndedAt: UTC(c.EndedAt), Recovery: c.Recovery}
}

func runOf(r store.Run) api.NodeRun {
	return api.NodeRun{RunID: r.ID, Fingerprint: r.Fingerprint, Address: r.Address, FirstHeard: r.First.UTC(), LastHeard: r.Last.UTC()}
}

// Token is a token as the API shows it. If several things have ended it, its status is revoked first, then used.
func Token(t store.Token, now time.Time) api.Token {
	out := api.Token{ID: t.ID, Tenant: t.Tenant, Status: api.StatusLive, Uses: t.Uses, Used: t.Used, Labels: orEmpty(t.Labels),
		BindInstance: t.BindInstance, NodeID: t.NodeID, Node: t.NodeName, CreatedAt: t.CreatedAt.UTC(), ExpiresAt: t.ExpiresAt.UTC(),
		RevokedAt: UTC(t.RevokedAt), CreatedBy: t.CreatedBy}
	if t.GPUs > 0 {
		out.GPUs = &t.GPUs
	}
	switch {
	case t.RevokedAt != nil:
		out.Status = api.StatusRevoked
	case t.Used >= t.Uses:
		out.Status = api.StatusUsed
	case !now.Before(t.ExpiresAt):
		out.Status = api.StatusExpired
	}
	return out
}

// Account is an account without its token.
func Account(a store.Account, now time.Time) api.Account {
	return api.Account{ID: a.ID, Name: a.Name, Scopes: OrNone(a.Scopes), Tenant: a.Tenant, Status: account.Status(a, now),
		CreatedAt: a.CreatedAt.UTC(), ExpiresAt: UTC(a.ExpiresAt), RevokedAt: UTC(a.RevokedAt), LastUsedAt: UTC(a.LastUsedAt),
		CreatedBy: a.CreatedBy}
}

// PSK is a pre-shared key without the key.
func PSK(k store.PSK) api.PSK { return api.PSK{ID: k.ID, CreatedAt: k.CreatedAt.UTC()} }

// Event is a line of the audit trail.
func Event(e store.Event) api.Event {
	return api.Event{ID: e.ID, At: e.At.UTC(), Kind: e.Kind, Actor: e.Actor, NodeID: e.NodeID, Node: e.NodeName, Tenant: e.Tenant,
		Address: e.Address, Outcome: e.Outcome, Detail: orEmpty(e.Detail), Security: e.Security}
}
