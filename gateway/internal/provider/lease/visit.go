package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

// visit does what a lease needs now.
func (s *Service) visit(ctx context.Context, a rentals.Account, l rentals.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	v := s.look(a, &l)
	switch next(l, v) {
	case warn:
		l.Warned = true
		return s.Records.PutLease(ctx, l, s.event("lease.ending", l, store.Actor{}, nil))
	case endIdle:
		l.EndsAt, l.Why = v.now, "it was idle for "+l.Idle.String()
		return s.begin(ctx, l, v)
	case end:
		return s.begin(ctx, l, v)
	case resume:
		return s.resume(ctx, l, v)
	case drain:
		if !l.Drained {
			l.Drained = true // on record first, so that whoever sets another lease has the node back
			if err := s.Records.PutLease(ctx, l); err != nil {
				return err
			}
		}
		if err := s.Drain(ctx, v.node.ID); err != nil {
			return fmt.Errorf("drain %s: %w", v.node.Name, err)
		}
	case hurry:
		l.State, l.TryAt = providers.LeaseEnding, nil
		return s.Records.PutLease(ctx, l)
	case try:
		return s.try(ctx, l, v)
	case lookGone:
		return s.lookGone(ctx, l, v)
	}
	return nil
}

// resume lets a machine whose lease goes on take work again.
func (s *Service) resume(ctx context.Context, l rentals.Lease, v sight) error {
	if v.node.State == wire.StateDrained {
		if err := s.Resume(ctx, v.node.ID); err != nil {
			return fmt.Errorf("resume %s: %w", v.node.Name, err)
		}
	}
	l.Drained = false
	return s.Records.PutLease(ctx, l)
}

// begin ends the time of a lease: what works there may finish. A machine that is kept goes on, and its owner is told that its time is over.
// So does one that another gateway has rented.
func (s *Service) begin(ctx context.Context, l rentals.Lease, v sight) error {
	foreign, err := s.isForeign(ctx, l, v.node)
	if err != nil {
		return err
	}
	l.Why = cmp.Or(l.Why, "its time is over")
	if foreign {
		l.Act, l.Why = providers.ActKeep, "another gateway has rented it"
	}
	if l.Act != providers.ActKeep {
		l.State, l.DrainedAt, l.TryAt = providers.LeaseDraining, &v.now, nil
		l.Drained = v.node != nil && v.node.State == wire.StateActive
	}
	return s.Records.PutLease(ctx, l, s.event("lease.ending", l, store.Actor{}, nil))
}

// look collects what is known of a lease's machine, and fills in its node.
func (s *Service) look(a rentals.Account, l *rentals.Lease) sight {
	v := sight{now: s.Now(), away: s.Away, node: s.nodeOf(a, *l)}
	idle := false
	if v.node != nil {
		l.NodeID, v.busy = v.node.ID, s.Busy(v.node.ID)
		idle = v.node.Status == wire.StatusOnline && v.node.Fresh && v.node.IdleSince != nil && len(v.busy) == 0
	}
	seen, at := s.listed(l.Account, l.Instance)
	if seen != nil {
		v.state = seen.State
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.notes[key{l.Account, l.Instance}]
	if n == nil {
		n = &note{quiet: -1}
		s.notes[key{l.Account, l.Instance}] = n
	}
	up := s.Elapsed()
	v.passed = n.passed(l.EndsAt, v.now, up)
	v.quiet = n.idleFor(idle, up)
	v.absent = n.absent(seen != nil, at, l)
	v.listed, v.news = n.listed, v.absent && !n.isAbsent
	n.isAbsent = v.absent
	return v
}

// nodeOf is the node that is a lease's machine. What a node of another tenant says that it is counts for nothing.
func (s *Service) nodeOf(a rentals.Account, l rentals.Lease) *api.NodeRow {
	if n, known := s.NodeOf(a.Kind, l.Instance); known && n.Tenant == l.Tenant {
		return n
	}
	if n, known := s.Node(l.NodeID); known {
		return n
	}
	return nil
}

// listed is an instance in the last complete list of its account, nil if that lacks it, and of when the list is; nil: there was none.
func (s *Service) listed(account, instance string) (*market.Seen, *time.Time) {
	all, at, _ := s.Market.Instances(account)
	i, listed := slices.BinarySearchFunc(all, instance, func(i *market.Seen, id string) int { return strings.Compare(i.ID, id) })
	if !listed {
		return nil, at
	}
	return all[i], at
}

// isForeign is true for a machine that another gateway has rented, and that is no node here: no lease here ends it by itself.
func (s *Service) isForeign(ctx context.Context, l rentals.Lease, node *api.NodeRow) (bool, error) {
	seen, _ := s.listed(l.Account, l.Instance)
	if seen == nil || node != nil && node.State != wire.StateRetired {
		return false, nil
	}
	foreign, err := s.Records.Foreign(ctx, l.Account, []string{seen.Name})
	return foreign[seen.Name], err
}

// passed is true when an end has passed for long enough.
func (n *note) passed(end, now time.Time, up time.Duration) bool {
	if now.Before(end) {
		n.rounds = 0
		return false
	}
	if n.rounds == 0 || !n.end.Equal(end) {
		n.end, n.past, n.rounds = end, up, 0
	}
	n.rounds++
	return n.rounds >= passRounds && up-n.past >= passLeast
}

// idleFor is for how long the machine is idle without a break.
func (n *note) idleFor(idle bool, up time.Duration) time.Duration {
	switch {
	case !idle:
		n.quiet = -1
		return 0
	case n.quiet < 0:
		n.quiet = up
	}
	return up - n.quiet
}

// absent is true when two lists leave the machine out, and for one that was there before, when one does: the market keeps what it has seen
// until the company says of it alone that it is gone. Lists from before the company was asked for its end do not count.
func (n *note) absent(listed bool, at *time.Time, l *rentals.Lease) bool {
	if listed || at == nil {
		n.lists, n.listed = 0, listed
		return false
	}
	since := l.CreatedAt
	if l.AskedAt != nil {
		since = *l.AskedAt
	}
	if !since.Equal(n.since) {
		n.since, n.lists = since, 0
	}
	if at.After(since) && !at.Equal(n.list) {
		n.list = *at
		n.lists++
	}
	return n.lists >= 2 || n.listed && n.lists >= 1
}

// forget drops what was noted of leases that have ended.
func (s *Service) forget(live []rentals.Lease) {
	keep := map[key]*note{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range live {
		if n := s.notes[key{l.Account, l.Instance}]; n != nil {
			keep[key{l.Account, l.Instance}] = n
		}
	}
	s.notes = keep
}

// try looks at the machine, and asks for the act if it is not done. The try is on record before the company is asked: if somebody was
// faster, nothing is done.
func (s *Service) try(ctx context.Context, l rentals.Lease, v sight) error {
	c, err := s.Market.Cloud(l.Account)
	if err != nil {
		return s.later(ctx, l, err)
	}
	seen, err := c.Get(ctx, l.Instance)
	switch gone := isGone(seen, err); {
	case gone && v.absent:
		return s.done(ctx, l, v, "it is gone")
	case gone && l.AskedAt != nil:
		s.Soon(l.Account)
		return s.later(ctx, l, errors.New("the company says that it is gone, and its lists are not yet of after that"))
	case !gone && err == nil && l.Act == providers.ActStop && seen.State == cloud.Stopped && v.state != "" && v.state != cloud.Stopped:
		s.Soon(l.Account) // until then it seems to run, and nobody to be giving it back
		return s.later(ctx, l, errors.New("the company says that it is stopped, and its lists are not yet of after that"))
	case !gone && err == nil && l.Act == providers.ActStop && seen.State == cloud.Stopped:
		return s.done(ctx, l, v, "it is stopped")
	case !gone && err == nil && l.Act == providers.ActDestroy && seen.State == cloud.Ending && l.AskedAt != nil:
		return s.later(ctx, l, errors.New("the company is destroying it"))
	}
	if l.AskedAt == nil {
		l.AskedAt = &v.now
	}
	l.Tries, l.TryAt = l.Tries+1, new(v.now.Add(pause(l.Tries+1)))
	if err := s.Records.PutLease(ctx, l); err != nil {
		return err
	}
	l.Version++
	if l.Act == providers.ActStop {
		err = c.Stop(ctx, l.Instance)
	} else {
		err = c.Destroy(ctx, l.Instance)
	}
	if err == nil {
		return nil
	}
	return s.later(ctx, l, err)
}

// errSlow: the company does not answer as it should, so its other machines wait for the next round.
var errSlow = errors.New("the company does not answer")

// notYet goes before what keeps a lease from its end.
const notYet = "not done yet: "

// endsFor is why a lease ends, without what keeps it from that.
func endsFor(l rentals.Lease) string {
	reason, _, _ := strings.Cut(l.Why, notYet)
	return strings.TrimSuffix(reason, "; ")
}

// later notes why a try has come to nothing yet. A company that asks for a longer pause gets it.
func (s *Service) later(ctx context.Context, l rentals.Lease, why error) error {
	if ctx.Err() != nil {
		return errSlow // what is on record is tried again
	}
	wait, slow := pause(l.Tries), false
	var failed *cloud.Error
	if errors.As(why, &failed) {
		wait = min(max(wait, failed.Again), longestTry)
		slow = failed.Kind == cloud.Unclear || failed.Kind == cloud.Limited
	}
	reason := endsFor(l)
	if reason != "" {
		reason += "; "
	}
	l.Why, l.TryAt = wire.Plain(reason+notYet+why.Error(), wire.MaxText), new(s.Now().Add(wait))
	if l.State == providers.LeaseEnding && l.AskedAt == nil && l.Tries == 0 {
		l.Tries++ // so that the pauses grow
	}
	if err := s.Records.PutLease(ctx, l); err != nil || !slow {
		return err
	}
	return errSlow
}

// lookGone ends the lease of a machine that is gone though nobody here asked for that.
func (s *Service) lookGone(ctx context.Context, l rentals.Lease, v sight) error {
	c, err := s.Market.Cloud(l.Account)
	if err != nil {
		return err
	}
	if seen, err := c.Get(ctx, l.Instance); isGone(seen, err) {
		return s.done(ctx, l, v, "it is gone, and muster did not ask for that")
	}
	l.TryAt = new(v.now.Add(time.Minute)) // the lists and the company differ: look again then
	return s.Records.PutLease(ctx, l)
}

// isGone is true where the company is sure that there is no such machine.
func isGone(seen cloud.Instance, err error) bool {
	var failed *cloud.Error
	if errors.As(err, &failed) {
		return failed.Kind == cloud.NoSuch
	}
	return err == nil && seen.State == cloud.Gone
}

// done ends a lease whose act is seen to be done. The node of a machine that is gone is given back, unless it is still heard.
func (s *Service) done(ctx context.Context, l rentals.Lease, v sight, why string) error {
	gone := l.Act == providers.ActDestroy && l.AskedAt != nil
	if gone && v.node != nil && v.node.State != wire.StateRetired {
		if err := s.Retire(ctx, v.node.ID); err != nil {
			return fmt.Errorf("retire %s: %w", v.node.Name, err)
		}
	}
	l.State, l.EndedAt, l.TryAt, l.Why = providers.LeaseEnded, &v.now, nil, endsFor(l)
	return s.Records.PutLease(ctx, l, s.event("lease.ended", l, store.Actor{}, map[string]string{"seen": why}))
}
