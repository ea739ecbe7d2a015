package api

import "time"

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
