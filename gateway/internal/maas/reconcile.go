package maas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/maas/recovery"
	"muster/gateway/internal/maas/region"
	"muster/store"
)

// reconcile does what the recovery table says of machines with which nothing is done.
func (s *Service) reconcile(ctx context.Context, all []*machine) error {
	k, now := s.whole(), s.Now()
	untagged := map[string][]string{} // system ids, by profile
	var failed error
	for _, m := range all {
		for _, row := range recovery.Find(s.facts(m, k, now)) {
			var err error
			switch row.Does {
			case recovery.Adds:
				err = s.add(ctx, m)
			case recovery.Accepts:
				err = s.Move(ctx, m.node.ID, recovery.MoveAccept, false, itself())
			case recovery.Withdraws:
				err = s.Move(ctx, m.node.ID, recovery.MoveDecommission, false, itself())
			case recovery.Parts:
				err = s.records.Unlink(ctx, m.SystemID, m.NodeID, true)
			case recovery.Tags:
				untagged[m.node.Profile] = append(untagged[m.node.Profile], m.SystemID)
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("machine %s, %s: %w", m.SystemID, row.Name, err))
			}
		}
	}
	for profile, ids := range untagged {
		failed = errors.Join(failed, s.tag(ctx, profile, ids, k.tags[profile]))
	}
	return failed
}

// mostTagged is how many machines get a tag with one call.
const mostTagged = 200

// tag gives machines the tag of their profile. The next view tells whether they have it.
func (s *Service) tag(ctx context.Context, profile string, ids []string, there bool) error {
	if !there {
		_, err := s.Region.CreateTag(ctx, profile, "a profile of muster")
		if err != nil && region.KindOf(err) != region.Refused { // it may be there by now
			return err
		}
	}
	for some := range slices.Chunk(ids, mostTagged) {
		if _, _, err := s.Region.Retag(ctx, profile, some, nil); err != nil {
			return err
		}
	}
	return nil
}

// add makes the node of a machine. One that was made before the gateway ended is found again.
func (s *Service) add(ctx context.Context, m *machine) error {
	id, err := s.records.Orphan(ctx, Provider, m.SystemID)
	if err != nil {
		return err
	}
	name := strings.ToLower(m.seen.Hostname)
	if wire.CheckName(name) != nil {
		name = Provider + "-" + m.SystemID
	}
	if id == "" {
		id, err = s.Commission(ctx, name, s.Tenant, Provider, m.SystemID, itself())
	}
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) && refused.Code == wire.CodeNameInUse {
		id, err = s.Commission(ctx, name+"-"+m.SystemID, s.Tenant, Provider, m.SystemID, itself())
	}
	if err != nil {
		return err
	}
	return s.records.Link(store.Fresh(ctx), m.SystemID, id)
}
