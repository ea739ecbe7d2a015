package fleet

import (
	"context"
	"crypto/x509"
	"errors"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/store"
)

// Adoptee is a certificate that is not on record. The caller has checked that it chains to the gateway's issuer, that it names
// NodeID, and that the sender holds its key.
type Adoptee struct {
	NodeID     string
	Leaf       *x509.Certificate
	Chain      string // PEM, leaf first
	Generation int    // that the node gives; nobody has checked it
	Address    string
}

// Adopt records a certificate that was issued after the backup from which this gateway's database was restored. It does so once
// for each node, within the time that the restore allows; the same certificate may be shown
// again. It returns the generation that the certificate has on record.
// Refusals carry the code unknown_certificate. Each refusal within that time is an event.
func (f *Fleet) Adopt(ctx context.Context, a Adoptee) (int, error) {
	restored, err := f.store.Restoration(ctx)
	if errors.Is(err, store.ErrNotFound) || err == nil && !f.now().Before(restored.AdoptUntil) {
		return 0, notAdopted("this gateway takes no certificates over")
	}
	if err != nil {
		return 0, err
	}
	generation, err := f.adopt(ctx, restored, a)
	if refused, is := errors.AsType[*wire.ErrorDetail](err); is {
		e := f.audited("adopt.refused", about{id: a.NodeID}, itself(a.NodeID, a.Address), map[string]string{"reason": refused.Message})
		e.Outcome = refused.Code
		if err := f.store.AddEvents(context.WithoutCancel(ctx), e); err != nil {
			return 0, err
		}
	}
	return generation, err
}

func (f *Fleet) adopt(ctx context.Context, restored store.Restoration, a Adoptee) (int, error) {
	now := f.now()
	switch {
	case a.Leaf.NotBefore.Add(wire.Backdate).Before(restored.BackupAt.Truncate(time.Second)): // certificates have whole seconds
		return 0, notAdopted("the certificate was issued before the backup and is not on record")
	case now.Before(a.Leaf.NotBefore) || now.After(a.Leaf.NotAfter.Add(f.grace)):
		return 0, notAdopted("the certificate's time is over")
	}
	node, err := f.store.Node(ctx, "", a.NodeID)
	if errors.Is(err, store.ErrNotFound) || err == nil && node.ID != a.NodeID {
		return 0, notAdopted("the backup does not know this node")
	}
	if err != nil {
		return 0, err
	}
	if has(node.Reasons, wire.ReasonConflict) {
		return 0, notAdopted("two machines use the identity of this node, and an operator has not chosen one yet")
	}
	issued := store.NewCertificate(a.Leaf.Raw, a.Leaf.RawSubjectPublicKeyInfo, a.Leaf.NotBefore, a.Leaf.NotAfter, a.Chain)
	c := Certificate(node, issued, max(1, a.Generation))
	c.IssuedAt = a.Leaf.NotBefore.Add(wire.Backdate)
	e := f.audited("node.adopted", aboutNode(node), itself(node.ID, a.Address), map[string]string{"fingerprint": c.Fingerprint,
		"not_before": a.Leaf.NotBefore.UTC().Format(time.RFC3339), "generation": strconv.Itoa(c.Generation)})
	err = f.store.Adopt(ctx, restored, c, now, e)
	if errors.Is(err, store.ErrConflict) {
		return f.adoptedBefore(store.Fresh(ctx), c)
	}
	if err != nil {
		return 0, err
	}
	f.Forget(node.ID)
	row, err := f.store.Identity(ctx, c.Fingerprint)
	return row.Certificate.Generation, err
}

// adoptedBefore answers a node that shows the same certificate again because the first answer was lost.
func (f *Fleet) adoptedBefore(ctx context.Context, c store.Certificate) (int, error) {
	row, err := f.store.Identity(ctx, c.Fingerprint)
	if errors.Is(err, store.ErrNotFound) || err == nil && (row.Certificate.NodeID != c.NodeID ||
		row.Certificate.Status != store.CertificateCurrent) {
		return 0, notAdopted("the node is retired, or another certificate of it was taken over since the restore")
	}
	return row.Certificate.Generation, err
}

func notAdopted(why string) error {
	return wire.Refuse(wire.CodeUnknownCertificate, why, "enrol this machine again with a new token: muster token create")
}
