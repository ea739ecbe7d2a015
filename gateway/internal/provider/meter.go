package provider

import (
	"cmp"
	"context"
	"math"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/reconcile"
	"muster/store"
	rentals "muster/store/provider"
)

// longestGap is how much time between two views counts: beyond that nobody can say what was charged.
const longestGap = 7 * 24 * time.Hour

// longestLook is between two views, of which the second says what GPUs did meanwhile. A large account is read for minutes.
const longestLook = 10 * time.Minute

const day = 24 * time.Hour

// dayOf is the number of a day: whole days since 1970, UTC.
func dayOf(at time.Time) int64 { return int64(math.Floor(float64(at.Unix()) / day.Seconds())) }

// meter adds up what machines are charged: between two complete views of an account, what both have counts at the price of the second. So
// time counts too in which the company did not answer, or the gateway did not run. One goroutine uses it.
type meter struct {
	upTo map[string]time.Time // by account, what is counted
	days map[int64]map[[2]string]*sums
}

// sums are those of one instance and one day, money in millionths.
type sums struct {
	tenant, node    string
	seconds, billed float64
	used, idle      float64 // of what was billed, here and below
	silent, storage float64
	isNew           bool // not written yet
}

func newMeter(accounts []rentals.Account) meter {
	t := meter{upTo: map[string]time.Time{}, days: map[int64]map[[2]string]*sums{}}
	for _, a := range accounts {
		if a.SyncedAt != nil {
			t.upTo[a.Name] = *a.SyncedAt
		}
	}
	return t
}

// read counts what accounts with a new view were charged since the one before, and writes it. What another gateway has rented, that one
// counts.
func (t *meter) read(ctx context.Context, s *Service, accounts []reconcile.Account, machines []reconcile.Machine) error {
	fresh := map[string]reconcile.Account{}
	for _, a := range accounts {
		last, counted := t.upTo[a.Name]
		switch {
		case a.At == nil || counted && !a.At.After(last):
			continue
		case counted:
			if err := t.load(ctx, s, *a.At, span(last, *a.At)); err != nil {
				return err
			}
			fresh[a.Name] = a
		}
	}
	for i := range machines {
		m := &machines[i]
		if a, is := fresh[m.Account]; is && m.Seen != nil && !m.Foreign {
			t.count(m, *a.At, span(t.upTo[a.Name], *a.At), s.started)
		}
	}
	for _, a := range accounts {
		if a.At != nil {
			t.upTo[a.Name] = *a.At
		}
	}
	return t.write(ctx, s)
}

// span is the time from one view to another. Two of one run are told apart by the steady clock.
func span(from, to time.Time) time.Duration { return min(max(to.Sub(from), 0), longestGap) }

// load reads what the database has of the days of a time.
func (t *meter) load(ctx context.Context, s *Service, to time.Time, passed time.Duration) error {
	for n := dayOf(to.Add(-passed)); n <= dayOf(to); n++ {
		if t.days[n] != nil {
			continue
		}
		rows, err := s.Records.Costs(ctx, n, n)
		if err != nil {
			return err
		}
		t.days[n] = make(map[[2]string]*sums, len(rows))
		for _, r := range rows {
			t.days[n][[2]string{r.Account, r.Instance}] = &sums{tenant: r.Tenant, node: r.NodeID, seconds: float64(r.Seconds),
				billed: float64(r.Billed), used: float64(r.Used), idle: float64(r.Idle), silent: float64(r.Silent), storage: float64(r.Storage)}
		}
	}
	return nil
}

// count adds the time before a view for one machine, as far as it was there. What its GPUs did before the gateway started, nobody saw.
func (t *meter) count(m *reconcile.Machine, to time.Time, passed time.Duration, started time.Time) {
	began := m.Seen.FirstAt
	if at := m.Seen.StartedAt; at != nil && at.Before(began) {
		began = *at
	}
	if l := m.Lease; l != nil && l.Rental != "" && l.CreatedAt.Before(began) { // made when the company had taken the order
		began = l.CreatedAt
	}
	passed = min(passed, max(to.Sub(began), 0))
	i := m.Seen.Instance
	if n := m.Node; i.State == cloud.Starting && n != nil && n.LastSeen != nil && n.LastSeen.After(to.Add(-passed)) {
		i.State, i.Price = cloud.Running, i.Running // it has run since the company said so
	}
	price, isDisk := rate(i)
	wasSeen := passed <= longestLook && !to.Add(-passed).Before(started)
	for passed > 0 {
		n := dayOf(to.Add(-1)) // the day that ends with to
		part := min(passed, to.Sub(time.Unix(n*int64(day.Seconds()), 0)))
		row := t.days[n][[2]string{m.Account, m.ID}]
		if row == nil {
			row = &sums{}
			t.days[n][[2]string{m.Account, m.ID}] = row
		}
		row.add(m, part, price, isDisk, wasSeen)
		to, passed = to.Add(-part), passed-part
	}
}

// add counts a part of a day. Without a price only that the machine was there is on record. What is neither used nor idle, silent nor
// storage was not measured.
func (r *sums) add(m *reconcile.Machine, part time.Duration, price *cloud.Money, isDisk, wasSeen bool) {
	r.isNew = true
	r.tenant = m.Seen.Tenant
	isHeard := m.Node != nil && m.Node.State != wire.StateRetired && m.Node.Status == wire.StatusOnline
	if m.Node != nil && m.Node.State != wire.StateRetired {
		r.node = m.Node.ID
	}
	if price == nil {
		return
	}
	money := float64(*price) * part.Hours()
	r.seconds += part.Seconds()
	r.billed += money
	switch {
	case isDisk:
		r.storage += money
	case !isHeard:
		r.silent += money
	case wasSeen:
		idle, known := m.Node.Shares()
		r.used += money * (known - idle)
		r.idle += money * idle
	}
}

// rate is what a machine is charged an hour in its state; nil: that is not known. isDisk is true if that is for its disk alone.
func rate(i cloud.Instance) (perHour *cloud.Money, isDisk bool) {
	switch i.State {
	case cloud.Running:
		return cmp.Or(i.Price, i.Running), false
	case cloud.Stopped:
		return cmp.Or(i.Price, i.Storage), true
	case cloud.Broken: // some companies charge it in full
		perHour = cmp.Or(i.Price, i.Storage)
		isFull := perHour != nil && i.Running != nil && *perHour >= *i.Running
		return perHour, !isFull
	case cloud.Starting:
		return cmp.Or(i.Price, i.Storage), false
	}
	return i.Price, false
}

// write writes what is new, and forgets the days that are over.
func (t *meter) write(ctx context.Context, s *Service) error {
	today := dayOf(s.Now())
	for n, rows := range t.days {
		var keys [][2]string
		for key, r := range rows {
			if r.isNew {
				keys = append(keys, key)
			}
		}
		for len(keys) > 0 {
			piece := keys[:min(len(keys), store.Piece)]
			if err := s.Records.SaveCosts(ctx, n, costRows(rows, piece)); err != nil {
				return err
			}
			for _, key := range piece {
				rows[key].isNew = false
			}
			keys = keys[len(piece):]
		}
		if n < today {
			delete(t.days, n)
		}
	}
	return nil
}

func costRows(rows map[[2]string]*sums, keys [][2]string) []rentals.CostRow {
	all := make([]rentals.CostRow, len(keys))
	for i, key := range keys {
		r := rows[key]
		all[i] = rentals.CostRow{Account: key[0], Instance: key[1], Tenant: r.tenant, NodeID: r.node, Seconds: int64(r.seconds),
			Billed: int64(r.billed), Used: int64(r.used), Idle: int64(r.idle), Silent: int64(r.silent), Storage: int64(r.storage)}
	}
	return all
}
