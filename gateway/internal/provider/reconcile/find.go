package reconcile

import (
	"cmp"
	"fmt"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/provider/cloud"
	rentals "muster/store/provider"
)

// How long things are waited for before they are told.
const (
	joins    = 15 * time.Minute // of a machine that runs: its agent has to be installed
	starts   = 30 * time.Minute // of one that starts
	returns  = time.Minute      // of a node that was given back here: its machine is destroyed after it
	endsSoon = 24 * time.Hour   // before a company ends a machine

	// WarnBefore is how long before the end of a lease its owner is told.
	WarnBefore = 15 * time.Minute

	acts   = 10 * time.Minute               // an end that was asked for is done by then
	drains = 10*time.Minute + 5*time.Minute // before it is asked for
)

// finder makes the findings of one moment.
type finder struct {
	now      time.Time
	severity map[string]string
	known    map[string]bool // accounts with a view of now
	all      []providers.Finding
	waits    string // why the machine that is looked at cannot be judged yet; empty: it can
	waiting  map[Waiting]int
}

// Waiting is what some machines that cannot be judged yet have in common. One that is being given back stands by itself.
type Waiting struct {
	Account, Tenant, Why string

	Instance string  // empty: the machines are not being given back
	PerDay   float64 // in dollars, until it is gone; 0: nothing, or that is not known, as Why says
}

// Find returns what is wrong, in the order of accounts and machines. The caller sets Since. PerDay is the money wasted per day; null if
// unknown. The map counts the machines that cannot be judged yet, by what they wait for.
func Find(accounts []Account, machines []Machine, now time.Time) ([]providers.Finding, map[Waiting]int) {
	f := &finder{now: now, severity: map[string]string{}, known: map[string]bool{}, waiting: map[Waiting]int{}}
	for _, c := range condition.All() {
		f.severity[c.Name] = c.Severity
	}
	for _, a := range accounts {
		f.known[a.Name] = a.Known
		if !a.Known && !a.Starts {
			f.unseen(a)
		}
	}
	for i := range machines {
		f.look(&machines[i])
	}
	return f.all, f.waiting
}

// OfLease reports whether findings of this kind can be made without an up-to-date view of the account.
func OfLease(kind string) bool {
	return kind == providers.FoundEnding || kind == providers.FoundOverdue
}

// unseen tells that the view of an account is old.
func (f *finder) unseen(a Account) {
	text := "never seen: what the account has, and what that costs, is not known"
	if a.At != nil {
		text = fmt.Sprintf("not seen since %s: what runs there now, and what that costs, is not known", stamp(*a.At))
	}
	if a.Error != "" {
		text += "; the company says: " + a.Error
	}
	f.all = append(f.all, providers.Finding{Kind: providers.FoundUnknown, Severity: f.severity[providers.FoundUnknown], Provider: a.Name,
		Tenant: a.Tenant,
		Text:   a.Name + ": " + text, Next: "muster provider sync " + a.Name})
}

// look looks at one machine.
func (f *finder) look(m *Machine) {
	f.waits = ""
	switch {
	case m.Unsure:
		f.waits = "newer than the view of the account"
	case m.Seen == nil:
		f.absent(m)
	case m.Foreign:
	case m.Seen.State == cloud.Running:
		f.running(m)
	case m.Seen.State == cloud.Starting:
		f.starting(m)
	case m.Seen.State == cloud.Stopped || m.Seen.State == cloud.Broken:
		f.stopped(m)
	case m.Seen.State == cloud.Unknown:
		f.unknown(m)
	}
	if m.Seen != nil && !m.Foreign {
		f.ends(m)
		f.leaves(m)
	}
	if m.Lease != nil {
		f.lease(m, m.Lease)
	}
	if !f.known[m.Account] && !m.Foreign {
		f.waits = "no complete view of the account is of now"
	}
	if f.waits != "" {
		f.waiting[f.waitingFor(m)]++
	}
}

// leaves waits for the end of a machine that is asked for, until that takes too long. What still works there is not in vain.
func (f *finder) leaves(m *Machine) {
	isHeard := m.Node != nil && m.Node.State != wire.StateRetired && m.Node.Status == wire.StatusOnline && !m.Node.Unheard
	if l := m.Lease; isEnding(l) && !f.isOverdue(l) && (l.State == providers.LeaseEnding || !isHeard) {
		f.waits = "it is being destroyed"
		if l.Act == providers.ActStop {
			f.waits = "it is being stopped"
		}
	}
}

// waitingFor says why a machine cannot be judged yet, and what it costs if nobody wants it any more.
func (f *finder) waitingFor(m *Machine) Waiting {
	w := Waiting{Account: m.Account, Tenant: m.Tenant(), Why: f.waits}
	if f.known[m.Account] && m.Seen != nil && (isEnding(m.Lease) || m.Node != nil && m.Node.State == wire.StateRetired) {
		price := cmp.Or(m.Seen.Price, m.Seen.Running)
		w.Instance, w.Why = m.ID, w.Why+f.paid(price)
		if price != nil {
			w.PerDay = (*price * 24).Dollars()
		}
	}
	return w
}

// unheard waits for a node that could not be heard yet.
func (f *finder) unheard(n *api.NodeRow) {
	switch {
	case n == nil || n.State == wire.StateRetired:
	case n.Unheard:
		f.waits = "node not heard since the gateway started"
	case n.LastSeen == nil && !f.isSilent(n):
		f.waits = "node joined less than " + minutes(joins) + " ago, and not heard yet"
	}
}

// absent is a node whose instance no company shows.
func (f *finder) absent(m *Machine) {
	zero := cloud.Money(0)
	retire := "muster node retire " + m.Node.Name
	isHeard := m.Node.Status == wire.StatusOnline
	switch {
	case m.Gone != nil && isEnding(m.Lease):
		f.waits = "it is gone, and is being given back"
	case isHeard && m.Gone != nil && (m.Node.LastSeen == nil || !m.Node.LastSeen.After(*m.Gone)):
		f.waits = "its machine is gone, and its node is not heard since"
	case isHeard && m.Gone != nil:
		f.add(m, providers.FoundGone, &zero, "the company has it no longer since "+stamp(*m.Gone)+", and the node is still heard: another "+
			"machine may use its identity", retire)
	case isHeard:
		f.add(m, providers.FoundGone, &zero, "the node is heard, and the company shows no such instance: it may be on an account that "+
			"muster does not have, or the list is wrong", "muster provider sync "+m.Account)
	case m.Node.Status == wire.StatusStale:
		f.add(m, providers.FoundGone, &zero, "the company has no such instance any more, and the node is "+f.since(m.Node), retire)
	}
}

// running is charged, so somebody should hear of it.
func (f *finder) running(m *Machine) {
	price := cmp.Or(m.Seen.Price, m.Seen.Running)
	n := m.Node
	f.unheard(n)
	switch {
	case n == nil && !f.passed(f.began(m), joins):
		f.waits = "running for less than " + minutes(joins) + ", and still to join"
	case n == nil:
		if !isEnding(m.Lease) {
			f.add(m, providers.FoundNeverEnrolled, price, "it runs since "+stamp(f.began(m))+f.paid(price)+", and no node says that it is this",
				f.onboard(m))
		}
	case n.State == wire.StateRetired && !f.passed(n.StateSince, returns):
		f.waits = "its node was just given back"
	case n.State == wire.StateRetired:
		if !isEnding(m.Lease) {
			f.add(m, providers.FoundBilledSilent, price, "it runs"+f.paid(price)+", and its node was given back at "+stamp(n.StateSince),
				f.destroy(m))
		}
	case f.isSilent(n):
		if !isEnding(m.Lease) {
			f.add(m, providers.FoundBilledSilent, price, "it runs"+f.paid(price)+", and its node is "+f.since(n), f.onboard(m))
		}
	case price != nil && n.PricePerHour != nil && differs(*price, *n.PricePerHour):
		more := max(*price-money(*n.PricePerHour), 0)
		f.add(m, providers.FoundPrice, &more, fmt.Sprintf("the company charges %s an hour, and the node's label says %g", dollars(*price),
			*n.PricePerHour), fmt.Sprintf("muster node label %s price_per_hour=%s", n.Name, Label(*price)))
	}
}

// starting goes over by itself, for a while.
func (f *finder) starting(m *Machine) {
	price := cmp.Or(m.Seen.Price, m.Seen.Storage)
	switch {
	case isEnding(m.Lease):
	case !f.passed(f.began(m), starts):
		f.waits = "starting for less than " + minutes(starts)
	case m.Node == nil || m.Node.State == wire.StateRetired:
		f.add(m, providers.FoundNeverEnrolled, price, "it starts since "+stamp(f.began(m))+f.paid(price)+f.why(m), f.destroy(m))
	case f.isSilent(m.Node):
		f.add(m, providers.FoundDown, price, "it starts there"+f.paid(price)+f.why(m)+", and its node is "+f.since(m.Node), f.destroy(m))
	}
}

// stopped costs its disk, and its node is down. That is one finding: of the node, where there is one.
func (f *finder) stopped(m *Machine) {
	s := m.Seen
	price := cmp.Or(s.Price, s.Storage)
	word := "it is stopped"
	if s.State == cloud.Broken {
		word = "it is broken (" + s.Raw + ")"
	}
	switch {
	case s.Outbid && s.State == cloud.Stopped:
		f.add(m, providers.FoundOutbid, price, "somebody else pays more, so it is stopped"+f.paid(price)+"; it goes on by itself if it can",
			f.destroy(m))
	case isEnding(m.Lease):
	case m.Node != nil && m.Node.State != wire.StateRetired:
		next := f.destroy(m)
		if s.State == cloud.Stopped {
			word, next = word+" there", f.start(m)
		}
		f.add(m, providers.FoundDown, price, word+f.paid(price)+f.why(m)+", and its node is "+f.since(m.Node), next)
	case price == nil || *price > 0:
		charged := ", and its disk is charged"
		if s.State == cloud.Broken {
			charged = ", and it is charged"
		}
		f.add(m, providers.FoundStorage, price, word+charged+f.paid(price), f.destroy(m))
	}
}

// unknown is told unless its node is heard.
func (f *finder) unknown(m *Machine) {
	f.unheard(m.Node)
	switch {
	case m.Node == nil && !f.passed(m.Seen.FirstAt, joins):
		f.waits = "seen for less than " + minutes(joins) + ", and in no known state"
		return
	case m.Node != nil && m.Node.State != wire.StateRetired && !f.isSilent(m.Node):
		return
	}
	who := "no node says that it is this"
	if m.Node != nil {
		who = "its node is " + f.since(m.Node)
	}
	f.add(m, providers.FoundUnknown, nil, fmt.Sprintf("the company does not say whether it runs (%q)%s, and %s: what it costs is not known",
		m.Seen.Raw, f.why(m), who), "muster provider sync "+m.Account)
}

// ends tells when the company ends a machine by itself, unless its lease ends before.
func (f *finder) ends(m *Machine) {
	at := m.Seen.EndsAt
	isThere := m.Seen.State == cloud.Running || m.Seen.State == cloud.Starting || m.Seen.State == cloud.Stopped
	if at == nil || !isThere || at.Sub(f.now) > endsSoon || m.Lease != nil && m.Lease.Act != providers.ActKeep && m.Lease.EndsAt.Before(*at) {
		return
	}
	next := f.destroy(m)
	if m.Node != nil && m.Node.State != wire.StateRetired {
		next = "muster node return " + m.Node.Name + " --destroy"
	}
	zero := cloud.Money(0)
	f.add(m, providers.FoundEndsSoon, &zero, "the company ends it at "+stamp(*at), next)
}

// lease tells of an end that comes, and of one that does not work.
func (f *finder) lease(m *Machine, l *rentals.Lease) {
	name := m.Account + "/" + m.ID
	if m.Node != nil && m.Node.State != wire.StateRetired {
		name = m.Node.Name
	}
	left := l.EndsAt.Sub(f.now)
	price := price(m)
	switch {
	case l.Act == providers.ActKeep && left <= 0:
		f.add(m, providers.FoundOverdue, price, "its lease ended at "+stamp(l.EndsAt)+", and it is kept"+f.paid(price),
			"muster lease set "+name+" 8h")
	case f.isOverdue(l):
		text := fmt.Sprintf("its lease ended at %s, and the company has not done what it was asked for (%s)%s", stamp(l.EndsAt), l.Act,
			f.paid(price))
		if l.Why != "" {
			text += ": " + l.Why
		}
		f.add(m, providers.FoundOverdue, price, text, f.command(m, l.Act))
	case l.State == providers.LeaseLive && left > 0 && left <= WarnBefore:
		zero := cloud.Money(0)
		why := ""
		if l.Why != "" {
			why = " (" + l.Why + ")"
		}
		f.add(m, providers.FoundEnding, &zero, fmt.Sprintf("its lease of %s ends at %s%s: %s", l.Owner, stamp(l.EndsAt), why, atEnd(l.Act)),
			"muster lease extend "+name+" 2h")
	}
}

// isOverdue is true if what follows the end of a lease takes too long.
func (f *finder) isOverdue(l *rentals.Lease) bool {
	if l.AskedAt != nil {
		return f.passed(*l.AskedAt, acts)
	}
	return l.Act != providers.ActKeep && f.passed(l.EndsAt, drains+acts)
}

// atEnd says what happens at the end of a lease.
func atEnd(act string) string {
	switch act {
	case providers.ActDestroy:
		return "it is destroyed then"
	case providers.ActStop:
		return "it is stopped then, and its disk is charged"
	}
	return "it goes on, and is charged"
}
