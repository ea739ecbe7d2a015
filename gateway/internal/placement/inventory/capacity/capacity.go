// Package capacity says in one word what a node gives now, and why. The word follows from four things that are recorded apart, and is
// stored nowhere.
package capacity

import (
	"fmt"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// Evidence is how a node's newest evidence stands.
type Evidence struct {
	Profile string   // assigned; empty: none
	There   bool     // there is one
	Current bool     // it is of this boot, of this profile, and shows the machine as its slots were approved
	Missing []string // what the profile asks for and it does not show
	Twin    string   // name of another node that shows a GPU of it too; empty: none
}

// Units counts the GPUs of a node, parts of divided ones each, by what becomes of them.
type Units struct {
	Proposed, Free, Held, Cleaning, Blocked int
}

// Bars are why a node takes no claims now, one line each; empty: it takes them. They do not depend on its slots.
func Bars(n *api.NodeRow, e Evidence, now time.Time) []string {
	_, bars := barred(n, e, now)
	return bars
}

// Of is a node's capacity, one of api's, with the reasons.
func Of(n *api.NodeRow, e Evidence, u Units, now time.Time) (capacity string, reasons []string) {
	capacity, reasons = barred(n, e, now)
	if capacity == "" {
		capacity = ofUnits(u)
	}
	return capacity, append(reasons, u.reasons()...)
}

// barred is the word of the first bar that there is, and all bars. The word is empty where there is none.
func barred(n *api.NodeRow, e Evidence, now time.Time) (word string, bars []string) {
	bar := func(capacity, why string) {
		if word == "" {
			word = capacity
		}
		bars = append(bars, why)
	}
	switch n.State {
	case wire.StateActive:
	case wire.StateUnavailable:
		bar(api.CapacityUnavailable, because("it is unavailable", n.StateReasons))
	case wire.StateDrained:
		bar(api.CapacityDrained, because("it is drained", n.StateReasons))
	default:
		bar(api.CapacityGone, "it is "+n.State)
	}
	if n.NotAfter != nil && !now.Before(*n.NotAfter) {
		bar(api.CapacityUnavailable, "its certificate has expired")
	}
	switch {
	case n.Unheard:
		bar(api.CapacitySilent, "it was not heard since the gateway's start")
	case n.Status != store.StatusOnline:
		bar(api.CapacitySilent, "it is "+n.Status)
	}
	switch {
	case e.Profile == "":
		bar(api.CapacityNone, "it has no profile")
	case !e.There:
		bar(api.CapacityUnproven, "it was not checked")
	case !e.Current:
		bar(api.CapacityUnproven, "its evidence is not of now")
	}
	if e.Twin != "" {
		bar(api.CapacityUnproven, "a GPU of it is on "+e.Twin+" too: retire the node that is gone")
	}
	for _, missing := range e.Missing {
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

func ofUnits(u Units) string {
	switch {
	case u.Free > 0:
		return api.CapacityOpen
	case u.Blocked > 0:
		return api.CapacityBlocked
	case u.Held+u.Cleaning > 0:
		return api.CapacityFull
	}
	return api.CapacityNone
}

func (u Units) reasons() (why []string) {
	count := func(n int, what string) {
		if n > 0 {
			why = append(why, fmt.Sprintf("%d of its GPUs %s", n, what))
		}
	}
	count(u.Blocked, "could not be cleaned")
	count(u.Cleaning, "are being cleaned")
	count(u.Held, "are allocated")
	count(u.Free, "are free")
	count(u.Proposed, "wait for approval")
	return why
}
