package adminapi

import (
	"time"

	"muster/gateway/internal/client"
	"muster/gateway/internal/fleet"
	"muster/store"
)

func (s *server) allowRecovery(c *call) (any, error) {
	var q client.RecoveryRequest
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	n, err := s.Fleet.AllowRecovery(c.r.Context(), c.caller.tenant, c.r.PathValue("node"),
		fleet.Recovery{Fingerprint: q.Fingerprint, For: time.Duration(q.For)}, c.caller.actor)
	return nodeShape(n), err
}

func detailShape(d fleet.Detail) client.NodeDetail {
	out := client.NodeDetail{Node: nodeShape(d.Node), Certificates: make([]client.NodeCertificate, 0, len(d.Certificates)), Runs: make([]client.NodeRun, 0, len(d.Runs))}
	for _, c := range d.Certificates {
		out.Certificates = append(out.Certificates, certificateShape(c))
	}
	for _, r := range d.Runs {
		out.Runs = append(out.Runs, client.NodeRun{RunID: r.ID, Fingerprint: r.Fingerprint, Address: r.Address, FirstHeard: r.First.UTC(), LastHeard: r.Last.UTC()})
	}
	return out
}

func certificateShape(c store.Certificate) client.NodeCertificate {
	return client.NodeCertificate{Fingerprint: c.Fingerprint, Generation: c.Generation, Status: c.Status, IssuedAt: c.IssuedAt.UTC(),
		NotAfter: c.NotAfter.UTC(), FirstUsedAt: utc(c.FirstUsedAt), EndedAt: utc(c.EndedAt), Recovery: c.Recovery}
}
