package rent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	rentals "muster/store/provider"
)

const (
	bootLimit    = 30 * time.Minute // from the order to the first word of the machine's agent
	lambdaLimit  = time.Hour        // the same at Lambda Cloud, where machines with 8 GPUs take 25 minutes to boot
	checkLimit   = 30 * time.Minute // for the acceptance
	replacements = 3                // of one machine that did not come up or did not pass
	mostOrders   = 10               // of one machine that came to nothing, and cost nothing
	offerLimit   = 30 * time.Minute // for which an offer or room below a limit is waited for
)

// sight is what is known when a rental is looked at.
type sight struct {
	open    bool           // its request still wants it
	lease   *rentals.Lease // of its instance; nil: it has ended
	gone    bool           // so it has since the machine was gone by itself
	node    *api.NodeRow   // that is this machine; nil: none has joined
	broken  string         // what the company says is wrong with it
	waited  time.Duration  // since the company was asked, or, where it checks, since the node was heard
	limit   time.Duration  // for booting
	accept  bool           // it is to be accepted
	checked bool           // the acceptance has ended
	passed  bool           // well
	why     string         // not
}

// step is what is to be done next.
type step int

const (
	rest   step = iota
	drop        // nobody wants it, and the company was never asked
	order       // ask the company for it
	search      // the company was asked, and it is not known what came of that
	heard       // its agent was heard
	ready       // it is what is paid for
	fail        // its host is to blame
	giveUp      // nobody is
	vanish      // it is gone, and nobody here asked for that
	over        // its lease has ended it
)

// next is what a rental needs now, and why.
func next(r rentals.Rental, v sight) (step, string) {
	switch {
	case r.State == providers.RentalIntended && r.AskedAt != nil:
		return search, ""
	case r.State == providers.RentalIntended && !v.open:
		return drop, "its request is over"
	case r.State == providers.RentalIntended:
		return order, ""
	case v.lease == nil && v.gone && r.State != providers.RentalReady:
		return vanish, "it is gone, and muster did not ask for that"
	case v.lease == nil:
		return over, "its lease has ended"
	case r.State == providers.RentalReady:
		return rest, ""
	case v.lease.State != providers.LeaseLive:
		return over, "its lease has ended: " + v.lease.Why
	case !v.open:
		return giveUp, "its request is over"
	case r.State == providers.RentalBooting:
		return nextBooting(v)
	}
	return nextChecking(v)
}

func nextBooting(v sight) (step, string) {
	switch {
	case v.node != nil && v.node.Status == wire.StatusOnline:
		return heard, ""
	case v.broken != "":
		return fail, "it did not come up: " + v.broken
	case v.waited >= v.limit:
		return fail, fmt.Sprintf("it did not come up within %s", v.limit)
	}
	return rest, "its agent is not heard yet"
}

func nextChecking(v sight) (step, string) {
	switch {
	case !v.accept, v.checked && v.passed:
		return ready, ""
	case v.checked:
		return fail, "it did not pass acceptance: " + v.why
	case v.waited >= checkLimit:
		return fail, strings.TrimSuffix(fmt.Sprintf("its acceptance did not end within %s: %s", checkLimit, v.why), ": ")
	}
	return rest, "its acceptance runs"
}

// limitOf is how long a machine of a kind may take to come up.
func limitOf(kind string) time.Duration {
	if kind == cloud.Lambda {
		return lambdaLimit
	}
	return bootLimit
}

// place is one of the machines that a request wants.
type place struct {
	number int // from 1 on
	orders int // that were intended for it before
}

// progress is how far a request is.
type progress struct {
	open    []place  // that want an order
	pending int      // that are on their way
	ready   int      // that are there, or were
	lost    []string // why those that are given up are so
}

// judge says how far a request is. all are its rentals. waiting is for how long nothing could be ordered since a moment, and why is why.
func judge(q rentals.Request, all []rentals.Rental, waiting func(since time.Time) time.Duration, why string) (p progress) {
	for number := 1; number <= q.Count; number++ {
		of := slices.DeleteFunc(slices.Clone(all), func(r rentals.Rental) bool { return r.Number != number })
		slices.SortFunc(of, func(a, b rentals.Rental) int { return a.CreatedAt.Compare(b.CreatedAt) })
		p.add(place{number, len(of)}, of, q.CreatedAt, waiting, why)
	}
	return p
}

// add adds a machine with its rentals, the oldest first.
func (p *progress) add(at place, of []rentals.Rental, since time.Time, waiting func(time.Time) time.Duration, why string) {
	made := 0
	for _, r := range of {
		if r.Instance != "" {
			made++
		}
		switch {
		case r.State == providers.RentalReady, r.State == providers.RentalEnded && r.ReadyAt != nil:
			p.ready++
			return
		case r.State == providers.RentalEnded:
			p.lost = append(p.lost, fmt.Sprintf("machine %d: %s", at.number, r.Why))
			return
		case r.State != providers.RentalFailed:
			p.pending++
			return
		case r.EndedAt != nil:
			since, why = *r.EndedAt, cmp.Or(why, r.Why)
		}
	}
	switch {
	case made > replacements:
		p.lost = append(p.lost, fmt.Sprintf("machine %d: %d machines failed in its place, the last one so: %s", at.number, made,
			of[len(of)-1].Why))
	case len(of)-made >= mostOrders:
		p.lost = append(p.lost, fmt.Sprintf("machine %d: %d orders came to nothing, the last one so: %s", at.number, mostOrders,
			of[len(of)-1].Why))
	case waiting(since) >= offerLimit:
		p.lost = append(p.lost, fmt.Sprintf("machine %d: nothing could be ordered for %s: %s", at.number, offerLimit, why))
	default:
		p.open = append(p.open, at)
	}
}
