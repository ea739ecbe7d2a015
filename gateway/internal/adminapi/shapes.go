package adminapi

import (
	"encoding/json"
	"slices"
	"time"

	"muster/gateway/internal/account"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/client"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/reading"
	"muster/store"
)

// each returns the shapes of rows. It is never nil, because a list in the API is never null.
func each[Row, Shape any](rows []Row, shape func(Row) Shape) []Shape {
	out := make([]Shape, 0, len(rows))
	for _, row := range rows {
		out = append(out, shape(row))
	}
	return out
}

func orNone(texts []string) []string {
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

// utc returns a time in UTC: the API shows no other zone.
func utc(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	u := at.UTC()
	return &u
}

// nodeShape is a node as the API shows it. A value that was never reported is null, and not 0 or empty.
func nodeShape(n fleet.Node) client.Node {
	out := client.Node{
		ID: n.ID, Name: n.Name, Tenant: n.Tenant, Labels: orEmpty(n.Labels), Provider: n.Provider, InstanceID: n.InstanceID,
		State: n.State, StateReasons: []string{}, StateDetails: map[string]string{}, StateSince: n.StateSince.UTC(),
		Status: n.Status, CreatedAt: n.CreatedAt.UTC(), LastSeen: utc(n.LastSeen), Banned: n.Banned,
		Recoveries: n.Recoveries, RecoveryUntil: utc(n.RecoveryUntil), Address: n.Address, SkewMillis: n.SkewMillis,
		Notices: orNone(n.Notices), Cost: reported(reading.Cost, n.Cost), Enrolment: n.EnrolmentID,
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
		out.Certificate = &client.Certificate{Fingerprint: cert.Fingerprint, NotAfter: cert.NotAfter.UTC(),
			Generation: cert.Generation, RenewalOverdue: cert.OverdueAt != nil}
	}
	readingShape(n, &out)
	return out
}

// readingShape adds what a node said of its hardware and its agent. It mends both again, because earlier gateways stored them as they
// came.
func readingShape(n fleet.Node, out *client.Node) {
	hardware, left := reading.Hardware.Mend(n.Hardware)
	out.Hardware = reported(reading.Hardware, hardware)
	if n.Hardware != "" && len(left) > 0 {
		out.Notices = append(slices.Clip(out.Notices), reading.LeftOut("hardware", left))
	}
	if text, _ := reading.Agent.Mend(n.Agent); text != "" && json.Unmarshal([]byte(text), &out.Agent) != nil {
		out.Agent = nil
	}
}

// reported returns what a node said of itself, or null if it said nothing.
func reported(shape *reading.Shape, text string) json.RawMessage {
	if text, _ = shape.Mend(text); text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

func detailShape(d fleet.Detail) client.NodeDetail {
	return client.NodeDetail{Node: nodeShape(d.Node), Certificates: each(d.Certificates, certificateShape), Runs: each(d.Runs, runShape)}
}

func certificateShape(c store.Certificate) client.NodeCertificate {
	return client.NodeCertificate{Fingerprint: c.Fingerprint, Generation: c.Generation, Status: c.Status, IssuedAt: c.IssuedAt.UTC(),
		NotAfter: c.NotAfter.UTC(), FirstUsedAt: utc(c.FirstUsedAt), EndedAt: utc(c.EndedAt), Recovery: c.Recovery}
}

func runShape(r store.Run) client.NodeRun {
	return client.NodeRun{RunID: r.ID, Fingerprint: r.Fingerprint, Address: r.Address, FirstHeard: r.First.UTC(), LastHeard: r.Last.UTC()}
}

// tokenShape is a token as the API shows it. If several things have ended it, its status is revoked first, then used.
func tokenShape(t store.Token, now time.Time) client.Token {
	out := client.Token{ID: t.ID, Tenant: t.Tenant, Status: client.StatusLive, Uses: t.Uses, Used: t.Used, Labels: orEmpty(t.Labels),
		BindInstance: t.BindInstance, NodeID: t.NodeID, Node: t.NodeName, CreatedAt: t.CreatedAt.UTC(), ExpiresAt: t.ExpiresAt.UTC(),
		RevokedAt: utc(t.RevokedAt), CreatedBy: t.CreatedBy}
	if t.GPUs > 0 {
		out.GPUs = &t.GPUs
	}
	switch {
	case t.RevokedAt != nil:
		out.Status = client.StatusRevoked
	case t.Used >= t.Uses:
		out.Status = client.StatusUsed
	case !now.Before(t.ExpiresAt):
		out.Status = client.StatusExpired
	}
	return out
}

func accountShape(a store.Account, now time.Time) client.Account {
	return client.Account{ID: a.ID, Name: a.Name, Scopes: orNone(a.Scopes), Tenant: a.Tenant, Status: account.Status(a, now),
		CreatedAt: a.CreatedAt.UTC(), ExpiresAt: utc(a.ExpiresAt), RevokedAt: utc(a.RevokedAt), LastUsedAt: utc(a.LastUsedAt),
		CreatedBy: a.CreatedBy}
}

func pskShape(k store.PSK) client.PSK { return client.PSK{ID: k.ID, CreatedAt: k.CreatedAt.UTC()} }

func eventShape(e store.Event) client.Event {
	return client.Event{ID: e.ID, At: e.At.UTC(), Kind: e.Kind, Actor: e.Actor, NodeID: e.NodeID, Node: e.NodeName, Tenant: e.Tenant,
		Address: e.Address, Outcome: e.Outcome, Detail: orEmpty(e.Detail), Security: e.Security}
}

func createdShape(n fleet.Node, m bootstrap.Minted) client.CreatedNode {
	return client.CreatedNode{Hint: notAScriptYet, Node: nodeShape(n), BootstrapToken: m.Token.Reveal(), BootstrapURL: m.URL,
		ExpiresAt: m.ExpiresAt.UTC(), FetchWindow: client.Duration(m.Window), Command: m.Command, UserData: m.UserData, Script: m.Script,
		ScriptSHA256: m.ScriptSum, Packages: each(m.Packages, packageShape)}
}

// scriptShape is the answer with a script. PackageRef and PackageDigest name the release that it installs,
// and repeat the first package where there is none.
func scriptShape(n fleet.Node, m bootstrap.Minted) client.BootstrapScript {
	out := client.BootstrapScript{Hint: notAScript, NodeID: n.ID, Node: n.Name, BootstrapToken: m.Token.Reveal(), BootstrapURL: m.URL,
		ExpiresAt: m.ExpiresAt.UTC(), FetchWindow: client.Duration(m.Window), Script: m.Script, ScriptSHA256: m.ScriptSum,
		FetchSHA256: m.FetchSum, Mode: m.Mode, Command: m.Command, UserData: m.UserData}
	out.Metadata.TrustBundleVersion = client.NewTrustVersion(m.TrustNumber)
	out.Metadata.Packages = each(m.Packages, packageShape)
	out.Metadata.PackageRef = m.Release.Reference
	out.Metadata.PackageDigest = m.Release.Digest
	if m.Release.Reference == "" && len(out.Metadata.Packages) > 0 {
		first := out.Metadata.Packages[0]
		out.Metadata.PackageRef = first.Ref
		out.Metadata.PackageDigest = first.Digest
	}
	return out
}

func packageShape(p bootstrap.Package) client.BootstrapPackage {
	return client.BootstrapPackage{Platform: p.OS + "/" + p.Arch, Ref: p.Ref, Digest: p.Digest}
}
