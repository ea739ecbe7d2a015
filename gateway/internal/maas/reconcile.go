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
	records "muster/store/maas"
)

// reconcile does what the recovery table says of machines with which nothing is done. since is before they were read.
func (s *Service) reconcile(ctx context.Context, all []*machine, since int) error {
	k, now := s.whole(), s.Now()
	untagged, tagged := map[string][]string{}, map[string][]string{} // system ids, by the tag that they get or lose
	var failed error
	told := []Told{}
	for _, m := range all {
		rows := recovery.Find(s.table, s.facts(m, k, now))
		if m.node != nil || m.seen.Owner == "" || m.seen.Owner == k.user { // not of what is another's alone
			told = append(told, m.told(rows)...)
		}
		for _, row := range rows {
			switch row.Does {
			case recovery.Tags:
				untagged[m.node.Profile] = append(untagged[m.node.Profile], m.SystemID)
			case recovery.Untags:
				old := records.ReadEnded(m.Ended).Tag
				tagged[old] = append(tagged[old], m.SystemID)
			default:
				if err := s.settle(ctx, m, row.Does, since); err != nil {
					failed = errors.Join(failed, fmt.Errorf("machine %s, %s: %w", m.SystemID, row.Name, err))
				}
			}
		}
	}
	s.mu.Lock()
	s.told = told
	s.mu.Unlock()
	for profile, ids := range untagged {
		s.do(ctx, "the tag "+profile, func(ctx context.Context) error {
			return s.retag(ctx, ids, since, func(some []string) error { return s.tag(ctx, profile, some...) })
		})
	}
	for old, ids := range tagged {
		s.do(ctx, "the old tag "+old, func(ctx context.Context) error {
			return s.retag(ctx, ids, since, func(some []string) error { return s.Region.Retag(ctx, old, nil, some) })
		})
	}
	return failed
}

// settle does one thing with a machine. Where a work was at it since, the next round knows more.
func (s *Service) settle(ctx context.Context, m *machine, does string, since int) (err error) {
	if does == "" || m.work != nil || !s.jobs.hold(m.SystemID, since) {
		return nil
	}
	defer func() {
		if s.jobs.release(m.SystemID) {
			s.wakeUp(m.SystemID)
		}
	}()
	switch does {
	case recovery.Adds:
		return s.add(ctx, m)
	case recovery.Accepts:
		return s.Move(ctx, m.node.ID, recovery.MoveAccept, false, itself())
	case recovery.Withdraws:
		return s.Move(ctx, m.node.ID, recovery.MoveDecommission, false, itself())
	case recovery.Parts:
		return s.records.Unlink(ctx, m.SystemID, m.NodeID, true)
	}
	return nil
}

// mostTagged is how many machines get a tag with one call.
const mostTagged = 200

// tag gives machines the tag of their profile. It is on record first that muster writes it.
func (s *Service) tag(ctx context.Context, profile string, ids ...string) error {
	if !s.whole().tags[profile] {
		err := s.Region.CreateTag(ctx, profile, "a profile of muster")
		if err != nil && region.KindOf(err) != region.Refused { // it may be there by now
			return err
		}
	}
	if err := s.records.Tags(ctx, profile, ids...); err != nil {
		return err
	}
	return s.Region.Retag(ctx, profile, ids, nil)
}

// retag writes a tag of machines, and reads them back. Nothing else goes on with them meanwhile: a work may write another tag. Where
// something was at one since, the next step knows more.
func (s *Service) retag(ctx context.Context, ids []string, since int, write func(some []string) error) (err error) {
	isOld, release := s.holding(since)
	ids = slices.DeleteFunc(ids, isOld)
	defer func() {
		if release(); err == nil && len(ids) > 0 {
			s.wakeUp(ids[0])
		}
	}()
	for some := range slices.Chunk(ids, mostTagged) {
		if err = write(some); err == nil {
			err = s.readBack(ctx, some)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readBack reads how machines look now. The caller holds them.
func (s *Service) readBack(ctx context.Context, ids []string) error {
	var seen []records.Seen
	err := s.Region.Machines(ctx, region.Filter{IDs: ids}, func(m region.Machine) error {
		row, err := seenOf(m)
		seen = append(seen, row)
		return err
	})
	if err != nil {
		return err
	}
	if err = s.records.Saw(ctx, s.Now(), seen...); err == nil {
		for _, row := range seen {
			s.jobs.touch(row.SystemID)
		}
	}
	return err
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
	s.mu.Lock()
	s.nodes[id] = true
	s.mu.Unlock()
	return s.records.Link(store.Fresh(ctx), m.SystemID, id)
}
