package api

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Roles of a gateway among those on one store.
const (
	RoleActive  = "active"
	RoleStandby = "standby"
)

// GatewayList answers GET gateways: the active gateway, and those that stand by.
type GatewayList struct {
	Shared   bool            `json:"shared"` // the store is one that several gateways can share
	Gateways []MemberGateway `json:"gateways"`
}

// Successor returns the gateway that can take the place of the active one (the first in the list): the named gateway, or, without a name,
// the first that would take over. If there is none, it says why, and what to do next.
func (l GatewayList) Successor(named string) (id, why, next string) {
	standing := l.Gateways[1:]
	ids := Each(standing, func(g MemberGateway) string { return g.ID })
	at := slices.IndexFunc(standing, func(g MemberGateway) bool { return g.ID == named || named == "" && g.Refuses == "" })
	switch {
	case len(standing) == 0:
		return "", "no gateway stands by", "start one on the same --store first: muster help standby"
	case named != "" && named == l.Gateways[0].ID:
		return "", fmt.Sprintf("%.80q is the active gateway already", named), "muster gateway ls"
	case at < 0 && named != "":
		return "", fmt.Sprintf("no gateway of the id %.80q stands by", named), "those that do: " + strings.Join(ids, ", ")
	case at < 0:
		return "", "no gateway that stands by would take over", "muster gateway ls says why"
	case standing[at].Refuses != "":
		return "", "the gateway " + named + " would not take over: " + standing[at].Refuses, "set that right first; muster help standby"
	}
	return standing[at].ID, "", "" // not anybody: the one that hands over could be the first to take the lease again
}

// MemberGateway is one of the gateways on a store.
type MemberGateway struct {
	ID             string     `json:"id"` // empty: of a gateway by itself
	Role           string     `json:"role"`
	URL            string     `json:"url"` // where the other gateways reach it
	Version        string     `json:"version"`
	HeardAt        *time.Time `json:"heard_at"`          // when it last said that it stands by; null: it is the active one
	Refuses        string     `json:"refuses,omitempty"` // why it would not take over; empty: it would
	ClockOffMillis *int64     `json:"clock_off_ms"`      // its clock against that of the active one, ahead is positive; null: it is the active one
}

// HandOver is the body of POST gateways/hand-over.
type HandOver struct {
	To string `json:"to"` // id of the gateway that shall be the active one; empty: one that stands by
}

// HandedOver answers it. The active gateway ends after that, and another one takes its place.
type HandedOver struct {
	From string `json:"from"`
	To   string `json:"to"`
}
