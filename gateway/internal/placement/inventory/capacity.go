package inventory

import (
	"fmt"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// units counts the GPUs of a node, parts of divided ones each, by what becomes of them.
type units struct {
	proposed, free, held, cleaning, blocked int
}

// isCurrent is true if the evidence is of this boot and of this profile, and shows the machine as its slots were approved. The caller
// holds the lock.
func (n *node) isCurrent() bool { return n.evidence.Current && n.evidence.Profile == n.profile }

// capacity says in one word, one of api's, what a node with these units gives now, and why. The word follows from what is recorded apart,
// and is stored nowhere. The caller holds the lock.
func (n *node) capacity(row *api.NodeRow, u units, now time.Time) (word string, reasons []string) {
	word, reasons = n.barred(row, now)
	if word == "" {
		word = u.word()
	}
	return word, append(reasons, u.reasons()...)
}

// barred says why a node takes no claims now, one line for each bar, whatever its slots are; the word is that of the first bar. Empty: it
// takes them. The caller holds the lock.
func (n *node) barred(row *api.NodeRow, now time.Time) (word string, bars []string) {
	bar := func(capacity, why string) {
		if word == "" {
			word = capacity
		}
		bars = append(bars, why)
	}
	switch row.State {
	case wire.StateActive:
	case wire.StateUnavailable:
		bar(api.CapacityUnavailable, because("it is unavailable", row.StateReasons))
	case wire.StateDrained:
		bar(api.CapacityDrained, because("it is drained", row.StateReasons))
	default:
		bar(api.CapacityGone, "it is "+row.State)
	}
	if row.NotAfter != nil && !now.Before(*row.NotAfter) {
		bar(api.CapacityUnavailable, "its certificate has expired")
	}
	switch {
	case row.Unheard:
		bar(api.CapacitySilent, "it was not heard since the gateway's start")
	case row.Status != store.StatusOnline:
		bar(api.CapacitySilent, "it is "+row.Status)
	}
	switch {
	case n.profile == "":
		bar(api.CapacityNone, "it has no profile")
	case !n.there:
		bar(api.CapacityUnproven, "it was not checked")
	case !n.isCurrent():
		bar(api.CapacityUnproven, "its evidence is not of now")
	}
	if n.twin != "" {
		bar(api.CapacityUnproven, "a GPU of it is on "+n.twin+" too: retire the node that is gone")
	}
	for _, missing := range n.missing {
		bar(api.CapacityUnproven, missing)
	}
	return word, bars
}

func because(what string, reasons []string) string {
	if len(reasons) == 0 {
		return what
	}
	return what + ": " + strings.Join(reasons, ", ")
}

func (u units) word() string {
	switch {
	case u.free > 0:
		return api.CapacityOpen
	case u.blocked > 0:
		return api.CapacityBlocked
	case u.held+u.cleaning > 0:
		return api.CapacityFull
	}
	return api.CapacityNone
}

func (u units) reasons() (why []string) {
	count := func(n int, what string) {
		if n > 0 {
			why = append(why, fmt.Sprintf("%d of its GPUs %s", n, what))
		}
	}
	count(u.blocked, "could not be cleaned")
	count(u.cleaning, "are being cleaned")
	count(u.held, "are allocated")
	count(u.free, "are free")
	count(u.proposed, "wait for approval")
	return why
}
